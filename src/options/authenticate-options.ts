import type { IncomingHttpHeaders } from 'node:http';

import type { Markup } from '../metering/markup.ts';

export type Authenticate = (
  apiKey: string,
  request: AuthenticateRequest,
) => AuthenticatedCaller | undefined | Promise<AuthenticatedCaller | undefined>;

export interface AuthenticateRequest {
  /** Names in lower case. Where they are read without a `cacheKey`, the answer is for this request alone: not remembered. */
  readonly headers: IncomingHttpHeaders;
}

export interface AuthenticatedCaller {
  /** The account that pays: 1 to 64 of `A-Z a-z 0-9 _ -`. */
  readonly account: string;
  /**
   * A label for this key in journals and counters; the same characters.
   *
   * @default 'external'
   */
  readonly key?: string;
  /** IDs of the only models that it may use, in which `*` stands for any characters: `openai/*`. */
  readonly models?: readonly string[];
  /** Added to the prices that this caller pays. */
  readonly markup?: Markup;
  /**
   * The caller's own keys for providers, by their names in `providers`: used instead of yours, and never with
   * yours in their place. The request is charged as any other, or by `byokPricing`; its `cost` to you is 0. A
   * key that the provider refuses is the caller's matter: it is told so with the provider's status (401, 402 or
   * 403; 401 where that is a 400), no other target is asked, and none is set aside for it.
   *
   * Kept as long as this answer is (`keyCacheMs`), in memory only; never logged or shown.
   */
  readonly upstreamKeys?: Readonly<Record<string, string | undefined>>;
}
