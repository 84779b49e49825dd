import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';

import type { AdminRouterOptions } from '../../../src/admin.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { type Gateway, startGateway } from '../../helpers/gateway.ts';

/** The console in a browser. */
export interface ConsolePage {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What no test wants: errors in the browser's log, and requests to somewhere else. */
  readonly problems: string[];
  /** Loads the page anew, at this fragment. */
  readonly open: (hash: string) => Promise<void>;
  readonly rows: (id: string) => Locator;
}

/** The console over a gateway, in a browser whose operator has signed in. */
export interface Console extends ConsolePage {
  readonly gateway: Gateway;
  readonly door: AdminDoor;
  readonly close: () => Promise<void>;
}

export interface ConsoleOptions extends Partial<Pick<AdminRouterOptions, 'authorize'>> {
  /** @default a gateway with an account `acct` that has 5 USD */
  readonly gateway?: Gateway;
  /** The page has no token yet. */
  readonly isSignedOut?: boolean;
}

export async function startConsole(browser: Browser, options: ConsoleOptions = {}): Promise<Console> {
  const { isSignedOut = false, gateway = await startGateway({ retries: false }), ...adminOptions } = options;
  const door = await startAdmin({ router: gateway.router, ...adminOptions });
  const shown = await openConsole(browser, door.baseURL, isSignedOut ? undefined : OPERATOR_TOKEN);
  return {
    ...shown,
    gateway,
    door,
    close: async () => {
      await shown.context.close();
      await door.close();
      await gateway.close();
    },
  };
}

/**
 * The console at an address, in a browser of its own.
 *
 * @param token - with which its operator has signed in
 */
export async function openConsole(browser: Browser, baseURL: string, token?: string): Promise<ConsolePage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const problems: string[] = [];
  let loads = 0;
  const { origin } = new URL(baseURL);
  context.on('request', (request) => {
    const url = request.url();
    if (!/^(data|blob):/.test(url) && !url.startsWith(`${origin}/`)) problems.push(`asked ${url}`);
  });
  context.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  context.on('weberror', (error) => problems.push(error.error().message));
  const page = await context.newPage();
  if (token !== undefined) {
    await page.addInitScript((stored) => {
      sessionStorage.setItem('chat-completions-router-token', stored);
    }, token);
  }
  return {
    context,
    page,
    problems,
    open: async (hash) => {
      loads += 1;
      await page.goto(`${baseURL}/?${loads}${hash}`, { waitUntil: 'load' });
    },
    rows: (id) => page.locator(`#${id} tr`),
  };
}
