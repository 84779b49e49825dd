import { type ApiOptions, checkApiOptions } from '../json-api/api-options.ts';
import type { ApiRequest } from '../json-api/host-view.ts';
import { type KeyPolicy, MAX_METADATA } from '../keys/key-policy.ts';
import { termsOf } from '../keys/key-terms.ts';
import { MAX_TTL_MS } from '../keys/sessions.ts';
import { parseUsd } from '../ledger/contract/money.ts';
import type { ChatCompletionsRouter } from '../router/router.ts';
import type { AccountHolder } from './holder.ts';
import { checkTheme, type Theme } from './theme.ts';

/** The parts of a router that the account API uses: all of them are public. */
export type HeldRouter = Pick<
  ChatCompletionsRouter,
  'accounts' | 'authenticate' | 'credits' | 'keys' | 'models' | 'requestLog' | 'sessions' | 'usage'
>;

export interface AccountRouterOptions extends ApiOptions {
  /**
   * Whose account a request is, by your own session: `{ account }`, the account alone, or undefined. Called for each request,
   * before its API key is looked at.
   *
   * @default only API keys sign in
   */
  readonly whoIs?: (
    request: ApiRequest,
  ) => AccountHolder | string | undefined | Promise<AccountHolder | string | undefined>;
  /**
   * What the holder of an API key may do: `manage` the account's keys, `read`, or `none`, which leaves only `whoIs`. A key with
   * limits of its own sees itself alone, and manages nothing.
   *
   * @default 'manage'
   */
  readonly keyHolders?: 'manage' | 'read' | 'none';
  /** Of each key that a customer creates, which the customer can't change: `{ markup: { factor: '1.2' }, requestsPerMinute: 60 }`. */
  readonly newKeys?: KeyPolicy;
  /**
   * How many keys an account may have that are not revoked, from 1 to 10,000. The revoked ones count once there are ten times as many.
   *
   * @default 100
   */
  readonly maxKeys?: number;
  /** Of the playground of your own sessions, which needs `sessions.secret` of the router: `false` for none. */
  readonly playground?: false | PlaygroundOptions;
  /**
   * Where the router is mounted, on the same origin.
   *
   * @default '/v1'
   */
  readonly apiPath?: string;
  /**
   * Title of the page, of 1 to 100 characters.
   *
   * @default 'Account'
   */
  readonly title?: string;
  /** CSS variables of the page: `{ accent: '#0a7d4f', font: 'Inter, sans-serif' }`. */
  readonly theme?: Theme;
  /** The same for those who prefer a dark page. */
  readonly darkTheme?: Theme;
}

export interface PlaygroundOptions {
  /**
   * The most that a session of the page can spend, in USD; another one follows.
   *
   * @default '1.00'
   */
  readonly maxSpend?: string;
  /**
   * How long it is valid, in ms: at most 86400000 (1 day).
   *
   * @default 900000 (15 minutes)
   */
  readonly ttlMs?: number;
}

/** What the operations of the account API use. */
export interface AccountServices {
  readonly router: HeldRouter;
  readonly apiPath: string;
  readonly newKeys: KeyPolicy;
  readonly maxKeys: number;
  /** Undefined if sessions of the host's have no playground. */
  readonly playground: Required<PlaygroundOptions> | undefined;
}

const OPTIONS: readonly (keyof AccountRouterOptions)[] = [
  'whoIs',
  'keyHolders',
  'newKeys',
  'maxKeys',
  'playground',
  'apiPath',
  'title',
  'theme',
  'darkTheme',
];

/** @throws {TypeError} naming the invalid option */
export function accountServices(router: HeldRouter, options: AccountRouterOptions): AccountServices {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`createAccountRouter takes an object of options, got ${typeof options}`);
  }
  checkApiOptions('createAccountRouter', options, OPTIONS);
  checkSignIn(options);
  checkLooks(options);
  const { newKeys = {}, maxKeys = 100, apiPath = '/v1' } = options;
  checkNewKeys(newKeys);
  if (!Number.isInteger(maxKeys) || maxKeys < 1 || maxKeys > 10_000) {
    throw new TypeError(`maxKeys must be an integer from 1 to 10000, got ${JSON.stringify(maxKeys)}`);
  }
  if (typeof apiPath !== 'string' || !/^\/[\w./-]{0,200}$/.test(apiPath) || apiPath.startsWith('//')) {
    throw new TypeError(`apiPath must be a path such as "/v1", got ${JSON.stringify(apiPath)}`);
  }
  return { router, apiPath, newKeys, maxKeys, playground: playgroundOf(router, options) };
}

function checkSignIn({ whoIs, keyHolders = 'manage' }: AccountRouterOptions): void {
  if (whoIs !== undefined && typeof whoIs !== 'function') {
    throw new TypeError(`whoIs must be a function, got ${typeof whoIs}`);
  }
  if (!['manage', 'read', 'none'].includes(keyHolders)) {
    throw new TypeError(`keyHolders must be "manage", "read" or "none", got ${JSON.stringify(keyHolders)}`);
  }
  if (keyHolders === 'none' && !whoIs) {
    throw new TypeError(
      'keyHolders must be "manage" or "read" without whoIs, which is the only other way to sign in',
    );
  }
}

function checkLooks({ title = 'Account', theme = {}, darkTheme = {} }: AccountRouterOptions): void {
  if (typeof title !== 'string' || title === '' || title.length > 100) {
    throw new TypeError(`title must be a text of 1 to 100 characters, got ${JSON.stringify(title)}`);
  }
  checkTheme(theme, 'theme');
  checkTheme(darkTheme, 'darkTheme');
}

/** @throws {TypeError} naming the field; the notes of two more are the account API's */
function checkNewKeys(newKeys: KeyPolicy): void {
  if (typeof newKeys !== 'object' || newKeys === null) {
    throw new TypeError(`newKeys must be the policy of a key, got ${typeof newKeys}`);
  }
  try {
    termsOf(newKeys);
  } catch (error) {
    throw new TypeError(`newKeys is invalid: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
  const notes = Object.keys(newKeys.metadata ?? {}).length;
  const most = MAX_METADATA.entries - 2;
  if (notes > most) throw new TypeError(`newKeys.metadata must have at most ${most} entries, got ${notes}`);
}

function playgroundOf(
  router: HeldRouter,
  { playground = {} }: AccountRouterOptions,
): Required<PlaygroundOptions> | undefined {
  if (playground === false) return undefined;
  if (typeof playground !== 'object' || playground === null) {
    throw new TypeError(`playground must be false or { maxSpend, ttlMs }, got ${typeof playground}`);
  }
  const { maxSpend = '1.00', ttlMs = 900_000 } = playground;
  const unknown = Object.keys(playground).find((name) => !['maxSpend', 'ttlMs'].includes(name));
  if (unknown !== undefined) throw new TypeError(`playground has no option ${JSON.stringify(unknown)}`);
  if (parseUsd(maxSpend, 'playground.maxSpend') <= 0n) {
    throw new TypeError(`playground.maxSpend must be more than 0, got ${maxSpend}`);
  }
  if (!Number.isInteger(ttlMs) || ttlMs < 1000 || ttlMs > MAX_TTL_MS) {
    throw new TypeError(
      `playground.ttlMs must be an integer from 1000 to ${MAX_TTL_MS}, got ${JSON.stringify(ttlMs)}`,
    );
  }
  return makesSessions(router) ? { maxSpend, ttlMs } : undefined;
}

/** A session is made without the store: one that is given to no page says whether the router has `sessions.secret`. */
function makesSessions({ sessions }: HeldRouter): boolean {
  try {
    sessions.create({ account: 'none', maxSpend: '0.01', ttlMs: 1, origins: ['http://localhost'] });
    return true;
  } catch (error) {
    if (Reflect.get(Object(error), 'code') === 'sessions_disabled') return false;
    throw error;
  }
}
