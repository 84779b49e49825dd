/** Visible ASCII, so that ids have one form only. In Redis, braces would end the hash tag of an account's keys. */
export const ACCOUNT: RegExp = /^[!#-[\]-_a-z|~]{1,128}$/;
/** Finishes "account must be". */
export const ACCOUNT_WANTED = '1 to 128 visible ASCII characters other than " ` { } \\ and not . or ..';

/** Whether it can be the id of an account: not of two dots or one, which URLs take for folders. */
export function isAccount(account: unknown): account is string {
  return typeof account === 'string' && ACCOUNT.test(account) && account !== '.' && account !== '..';
}
