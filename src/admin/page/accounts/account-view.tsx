import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { AccountDetails, Allowance, ApiKey } from '../../../client/admin-api.generated.ts';
import { FormDialog } from '../../../page/dialog.tsx';
import { downloadCsv } from '../../../page/download.ts';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { grouped, moment, money, nanos } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import { Column, NumberCell, Table } from '../../../page/table.tsx';
import { budgetText } from '../../../page/keys/policy-form.ts';
import { type AccountAction, actionForm } from './account-actions.ts';
import { KeysCard } from './keys-card.tsx';

const REFRESH_MS = 10_000;

interface AccountData {
  readonly account: AccountDetails;
  readonly keys: readonly ApiKey[];
  readonly allowances: readonly Allowance[];
}

interface AccountViewProps {
  readonly session: Session;
  readonly account: string;
}

/** One account: what it has, what it may do, its keys and its last entries; and what an operator may change. */
export function AccountView({ session, account }: AccountViewProps): JSX.Element {
  const path = `accounts/${encodeURIComponent(account)}`;
  const { api } = session;
  const { data, notice, reload } = useResource<AccountData>(session, {
    subject: account,
    everyMs: REFRESH_MS,
    async ask() {
      const details = await api.get<AccountDetails>(path);
      const [keys, allowances] = await Promise.all([
        api.list<ApiKey>(`${path}/keys`),
        api.list<Allowance>(`${path}/allowances`),
      ]);
      return { account: details, keys: keys.data, allowances: allowances.data };
    },
  });
  return (
    <Frame name="accounts" title={account} session={session} notice={notice}>
      {data && (
        <div id="report">
          <p>
            <a href={hrefOf('accounts')}>All accounts</a> ·{' '}
            <a href={hrefOf('requests', undefined, { account })}>Requests</a> ·{' '}
            <a href={`#${new URLSearchParams({ days: '30', account }).toString()}`}>Usage</a>
          </p>
          <Overview data={data} session={session} path={path} reload={reload} />
          <KeysCard session={session} account={account} keys={data.keys} reload={reload} />
          <Allowances allowances={data.allowances} />
        </div>
      )}
    </Frame>
  );
}

interface OverviewProps {
  readonly data: AccountData;
  readonly session: Session;
  readonly path: string;
  readonly reload: () => Promise<void>;
}

function Overview({ data: { account }, session, path, reload }: OverviewProps): JSX.Element {
  const [action, setAction] = useState<AccountAction>();
  const credits: readonly AccountAction[] = ['grant', 'adjust', 'allowance'];
  const rest: readonly AccountAction[] = ['policy', account.frozen ? 'unfreeze' : 'freeze', 'delete'];
  const actions = [...(session.may('credits') ? credits : []), ...(session.may('accounts') ? rest : [])];
  const form = action && actionForm(action, account);
  return (
    <section class="card" aria-labelledby="account-title">
      <div class="title">
        <h2 id="account-title">
          {money(nanos(account.balance))} {account.frozen && <span class="badge frozen">frozen</span>}
        </h2>
        <div class="controls">
          {actions.map((name) => (
            <button
              key={name}
              type="button"
              id={`action-${name}`}
              class="plain"
              onClick={() => setAction(name)}
            >
              {actionForm(name, account).button}
            </button>
          ))}
          <StatementButton session={session} path={path} account={account.id} />
        </div>
      </div>
      <Facts facts={factsOf(account)} />
      {form && (
        <FormDialog
          {...form}
          close={() => setAction(undefined)}
          send={async (values, key) => {
            const { method, to, body } = form.requestOf(values);
            await session.api.change(method, path + to, body, key);
            if (action === 'delete') location.hash = hrefOf('accounts');
            else await reload();
          }}
        />
      )}
    </section>
  );
}

function factsOf(account: AccountDetails): readonly Fact[] {
  const { policy, credit_limit, held, spent, granted, expired, written_off } = account;
  const dollars = (amount: string): string | undefined =>
    nanos(amount) === 0n ? undefined : money(nanos(amount));
  return [
    ['Held', money(nanos(held))],
    ['Spent', money(nanos(spent))],
    ['Granted', money(nanos(granted))],
    ['Expired', dollars(expired)],
    ['Written off', dollars(written_off)],
    ['Credit limit', dollars(credit_limit)],
    ['Name', policy.name],
    ['Requests a minute', policy.requests_per_minute && grouped(policy.requests_per_minute)],
    ['Tokens a minute', policy.tokens_per_minute && grouped(policy.tokens_per_minute)],
    ['At once', policy.concurrent_requests && grouped(policy.concurrent_requests)],
    ['Budget', budgetText(policy.budget)],
    ['Models', policy.models?.join(', ')],
  ];
}

/** Downloads the statement of a month as CSV. */
function StatementButton({
  session,
  path,
  account,
}: Omit<OverviewProps, 'data' | 'reload'> & { readonly account: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const [month] = useState(() => new Date().toISOString().slice(0, 7));
  return (
    <>
      <button type="button" id="statement" class="plain" onClick={() => setOpen(true)}>
        Statement
      </button>
      {isOpen && (
        <FormDialog
          title={`Statement of ${account}`}
          text="What happened in a month, in UTC: balances, credits, charges by model and key."
          fields={[{ name: 'month', label: 'Month', isRequired: true, value: month }]}
          submit="Download CSV"
          close={() => setOpen(false)}
          send={async ({ month: asked = '' }) => {
            const csv = await session.api.text(`${path}/statements/${encodeURIComponent(asked)}`, {
              format: 'csv',
            });
            downloadCsv(csv, `${account}-${asked}.csv`);
          }}
        />
      )}
    </>
  );
}

function Allowances({ allowances }: { readonly allowances: readonly Allowance[] }): JSX.Element | null {
  if (allowances.length === 0) return null;
  const head = (
    <>
      <Column>Allowance</Column>
      <Column class="number">Amount</Column>
      <Column class="number">Left</Column>
      <Column>Renewed</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="allowances-title">
      <div class="title">
        <h2 id="allowances-title">Allowances</h2>
      </div>
      <Table id="allowance-rows" head={head}>
        {allowances.map(({ id, amount, remaining, per, resets_at }) => (
          <tr key={id}>
            <th scope="row">{id}</th>
            <NumberCell>{`${money(nanos(amount))} a ${per}`}</NumberCell>
            <NumberCell>{money(nanos(remaining))}</NumberCell>
            <td>{moment(resets_at)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
