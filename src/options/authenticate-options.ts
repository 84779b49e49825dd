import type { IncomingHttpHeaders } from 'node:http';

import type { Markup } from '../metering/markup.ts';
import type { LabelRequirements } from './labels.ts';

export type Authenticate = (
  apiKey: string,
  request: AuthenticateRequest,
) => AuthenticatedCaller | undefined | Promise<AuthenticatedCaller | undefined>;

export interface AuthenticateRequest {
  /** Names in lower case. If they are read without a `cacheKey`, the result isn't cached: it is for this request only. */
  readonly headers: IncomingHttpHeaders;
}

export interface AuthenticatedCaller {
  /** The account that pays: 1 to 128 visible ASCII characters other than quotes, braces and backslashes. */
  readonly account: string;
  /**
   * A label for this key in journals and counters: 1 to 64 of `A-Z a-z 0-9 _ -`.
   *
   * @default 'external'
   */
  readonly key?: string;
  /** Whom the request is for, within the account: 1 to 128 characters. See the option `dimensions`. */
  readonly user?: string;
  /** What the request is for, by the names of the tags in `dimensions`: 1 to 64 visible characters each; others are ignored. */
  readonly tags?: Readonly<Record<string, string | undefined>>;
  /** Restricts the caller to these model IDs; `*` matches any characters: `openai/*`. */
  readonly models?: readonly string[];
  /** Labels of the only targets that its requests may be sent to. @default none */
  readonly require?: LabelRequirements;
  /** A further markup on the prices for this caller. */
  readonly markup?: Markup;
  /**
   * The caller's own provider keys (BYOK), by the providers' names in `providers`. They are used instead of your keys,
   * which are never the fallback. The request is charged as any other, or by `byokPricing`; its `cost` to you is 0. If the
   * provider rejects such a key, the caller gets the error with the provider's status (401, 402 or 403; 401 for a 400); no
   * other target is tried, and none is ejected for it.
   *
   * Cached as long as this result (`keyCacheMs`), in memory only; never logged or shown.
   */
  readonly upstreamKeys?: Readonly<Record<string, string | undefined>>;
}
