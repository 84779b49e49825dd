import type { Actor } from '../json-api/host-view.ts';

/**
 * What the holder of an account may do:
 *
 * - `read`: credits, models, usage, requests, keys without their secrets
 * - `statements`: statements of the whole account
 * - `keys`: create, change, rotate, pause and revoke keys
 * - `playground`: ask models on the page, at the account's expense
 */
export const HOLDER_PERMISSIONS = ['read', 'statements', 'keys', 'playground'] as const;

export type HolderPermission = (typeof HOLDER_PERMISSIONS)[number];

/** Who uses the account API, as `whoIs` returns it. */
export interface AccountHolder {
  readonly account: string;
  /** For the audit and the page: at most 200 characters. @default the account */
  readonly name?: string;
  /** @default everything */
  readonly may?: readonly HolderPermission[];
}

/** A caller of the account API. */
export interface Holder extends Actor {
  readonly account: string;
  readonly may: readonly HolderPermission[];
  /** The API key that it signed in with; undefined for a session of the host's. */
  readonly key?: string;
  /** It sees this key alone, because the key has limits of its own. */
  readonly onlyKey?: string;
}
