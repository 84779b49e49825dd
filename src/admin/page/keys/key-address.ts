import type { ApiKey } from '../../../client/admin-api.generated.ts';
import { hrefOf } from '../../../page/route.ts';

/** The address of a key's view. */
export function keyHref({ account, id }: Pick<ApiKey, 'account' | 'id'>): string {
  return hrefOf('keys', id, { account });
}

/** The path of an account's keys in the admin API. */
export function keysPath(account: string): string {
  return `accounts/${encodeURIComponent(account)}/keys`;
}
