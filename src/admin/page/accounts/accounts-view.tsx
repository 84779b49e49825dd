import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';

import type { Account } from '../../../client/admin-api.generated.ts';
import { type Api, ApiError } from '../../../page/api.ts';
import { FormDialog } from '../../../page/dialog.tsx';
import { grouped, money, nanos } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import type { ViewProps } from '../view-props.ts';
import { AccountView } from './account-view.tsx';
import { allAccounts } from './all-accounts.ts';

const REFRESH_MS = 60_000;
const FIRST_SHOWN = 50;

/** All accounts, or one of them. */
export function AccountsView(props: ViewProps): JSX.Element {
  const {
    session,
    route: { id, query },
  } = props;
  if (id === undefined) return <AccountList {...props} />;
  return <AccountView session={session} account={id} part={query.get('part')} />;
}

function AccountList({ session }: ViewProps): JSX.Element {
  const [search, setSearch] = useState('');
  const [shown, setShown] = useState(FIRST_SHOWN);
  const [isCreating, setCreating] = useState(false);
  /** The change that was sent last: an account, by the idempotency key. */
  const tried = useRef('');
  const [begun, setBegun] = useState<readonly Account[]>();
  const { data: all, notice } = useResource<readonly Account[]>(session, {
    subject: 'accounts',
    everyMs: REFRESH_MS,
    ask: () => allAccounts(session.api, setBegun),
  });
  const data = all ?? begun;
  const found = (data ?? []).filter(({ id }) => id.toLowerCase().includes(search.trim().toLowerCase()));
  return (
    <Frame
      name="accounts"
      title="Accounts"
      session={session}
      notice={notice}
      status={data && `${grouped(data.length)} accounts${all ? '' : ', loading more'}`}
      controls={
        <>
          <input
            id="search-accounts"
            type="search"
            aria-label="Search accounts"
            placeholder="Search accounts"
            autocomplete="off"
            spellcheck={false}
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
          {session.may('credits') && (
            <button type="button" class="primary small" onClick={() => setCreating(true)}>
              New account
            </button>
          )}
        </>
      }
    >
      {data && (
        <section class="card" aria-label="Accounts">
          <AccountTable accounts={found.slice(0, shown)} />
          <button
            type="button"
            id="more"
            class="plain"
            hidden={found.length <= shown}
            onClick={() => setShown(shown * 4)}
          >
            Show more
          </button>
          {isCreating && (
            <FormDialog
              title="New account"
              text="An account is made by its first grant."
              fields={[
                { name: 'account', label: 'Account ID', isRequired: true },
                { name: 'amount', label: 'Credits in USD', value: '5.00', isRequired: true },
              ]}
              submit="Create"
              next={({ account = '' }) => hrefOf('accounts', account)}
              close={() => setCreating(false)}
              send={async ({ account = '', amount = '' }, key) => {
                const change = `${key} ${account}`;
                // Where the answer to an earlier try was lost, the account may be its own.
                if (tried.current !== change) await assertNew(session.api, account);
                tried.current = change;
                await session.api.change('POST', `${pathOf(account)}/grants`, { amount }, key);
              }}
            />
          )}
        </section>
      )}
    </Frame>
  );
}

function pathOf(account: string): string {
  return `accounts/${encodeURIComponent(account)}`;
}

/** @throws {ApiError} if there is such an account, or it can be in no path */
async function assertNew(api: Api, account: string): Promise<void> {
  if (/^\.{0,2}$/.test(account)) throw new ApiError(0, 'Account ID must not be empty, and not . or ..');
  const isNew = await api.get(pathOf(account)).then(
    () => false,
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return true;
      throw error;
    },
  );
  if (!isNew) throw new ApiError(0, `${account} exists already: grant credits to it where it is shown.`);
}

function AccountTable({ accounts }: { readonly accounts: readonly Account[] }): JSX.Element {
  const head = (
    <>
      <Column>Account</Column>
      <Column class="number">Balance</Column>
      <Column class="number wide">Credit limit</Column>
      <Column class="number wide">Held</Column>
      <Column class="number">Spent</Column>
      <Column class="number wide">Granted</Column>
    </>
  );
  return (
    <Table id="account-rows" head={head}>
      {accounts.map(({ id, balance, credit_limit, held, spent, granted, frozen }) => (
        <tr key={id}>
          <th scope="row">
            <a href={hrefOf('accounts', id)}>{id}</a> {frozen && <span class="badge frozen">frozen</span>}
          </th>
          <NumberCell>{money(nanos(balance))}</NumberCell>
          <NumberCell class="wide">
            {nanos(credit_limit) === 0n ? '–' : money(nanos(credit_limit))}
          </NumberCell>
          <NumberCell class="wide">{nanos(held) === 0n ? '–' : money(nanos(held))}</NumberCell>
          <NumberCell>{money(nanos(spent))}</NumberCell>
          <NumberCell class="wide">{money(nanos(granted))}</NumberCell>
        </tr>
      ))}
      {accounts.length === 0 && <EmptyRow columns={6}>No account found.</EmptyRow>}
    </Table>
  );
}
