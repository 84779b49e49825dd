import type { Account, AccountPage } from '../../../client/admin-api.generated.ts';
import type { Api } from '../../../page/api.ts';

const PAGE_ROWS = '1000';
const MAX_ACCOUNTS = 10_000;

/**
 * Reads all accounts, up to 10,000.
 *
 * @param onPage - gets what was read so far, after each page but the last
 */
export async function allAccounts(
  api: Api,
  onPage: (accounts: readonly Account[]) => void = () => {},
): Promise<readonly Account[]> {
  const accounts: Account[] = [];
  for (let cursor: string | null = ''; ;) {
    const page: AccountPage = await api.get('accounts', {
      limit: PAGE_ROWS,
      ...(cursor !== '' && { cursor }),
    });
    accounts.push(...page.data);
    cursor = page.next_cursor;
    if (cursor === null || accounts.length >= MAX_ACCOUNTS) return accounts;
    onPage([...accounts]);
  }
}
