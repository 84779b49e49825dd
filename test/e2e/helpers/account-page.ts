import * as http from 'node:http';

import type { Browser, BrowserContext, Page } from 'playwright-core';

import { type AccountRouterOptions, createAccountRouter } from '../../../src/account.ts';
import {
  type Gateway,
  type GatewayOptions,
  listen,
  type Mount,
  startGateway,
} from '../../helpers/gateway.ts';

/** The account page over a gateway, both on one server, in a browser whose customer has signed in. */
export interface AccountPage {
  readonly gateway: Gateway;
  readonly origin: string;
  readonly context: BrowserContext;
  readonly page: Page;
  /** What no test wants: errors in the browser's log, and requests to somewhere else. */
  readonly problems: string[];
  /** By the fragment of the address. */
  open(hash: string): Promise<void>;
  close(): Promise<void>;
}

export interface AccountPageSetup {
  readonly gateway?: GatewayOptions;
  readonly account?: AccountRouterOptions;
  /** The page has no key yet. */
  readonly isSignedOut?: boolean;
  /** Pages of the host, by their path. */
  readonly hostPages?: Readonly<Record<string, HostPage>>;
}

export interface HostPage {
  readonly body: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/** In the storage of the browser's tab. */
export const KEY_NAME = 'chat-completions-router-account-key';

/** The router at `/v1`, the account page at `/account`, and pages of a host. */
export function mountWithAccount(
  options: AccountRouterOptions = {},
  hostPages: Readonly<Record<string, HostPage>> = {},
): Mount {
  return (router) => {
    const account = createAccountRouter(router, options);
    const server = http.createServer((request, response) => {
      const path = (request.url ?? '').split('?')[0] ?? '';
      const own = hostPages[path];
      if (own) response.writeHead(200, { ...own.headers }).end(own.body);
      else if (path === '/favicon.ico') response.writeHead(204).end();
      else if (path === '/account' || path.startsWith('/account/')) void account(request, response);
      else void router(request, response);
    });
    return listen(server, '/v1');
  };
}

export async function startAccountPage(
  browser: Browser,
  { gateway: gatewayOptions = {}, account, isSignedOut = false, hostPages }: AccountPageSetup = {},
): Promise<AccountPage> {
  const gateway = await startGateway(
    { retries: false, ...gatewayOptions },
    mountWithAccount(account, hostPages),
  );
  const { origin } = new URL(gateway.baseURL);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const problems: string[] = [];
  context.on('request', (request) => {
    const url = request.url();
    if (!/^(data|blob):/.test(url) && !url.startsWith(`${origin}/`)) problems.push(`asked ${url}`);
  });
  context.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  context.on('weberror', (error) => problems.push(error.error().message));
  const page = await context.newPage();
  if (!isSignedOut) {
    await page.addInitScript(
      ([name = '', key = '']) => sessionStorage.setItem(name, key),
      [KEY_NAME, gateway.key],
    );
  }
  return {
    gateway,
    origin,
    context,
    page,
    problems,
    open: async (hash) => {
      await page.goto(`${origin}/account${hash}`, { waitUntil: 'load' });
    },
    close: async () => {
      await context.close();
      await gateway.close();
    },
  };
}
