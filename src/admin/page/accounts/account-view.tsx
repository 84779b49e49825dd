import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { AccountDetails, Allowance, ApiKey } from '../../../client/admin-api.generated.ts';
import { FormDialog } from '../../../page/dialog.tsx';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { dateOrDash, grouped, money, nanos, periodText } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { renewalOf } from '../../../page/renewals.ts';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import { Column, NumberCell, Table } from '../../../page/table.tsx';
import { budgetText } from '../../../page/keys/budgets.ts';
import { type AccountAction, actionForm, allowanceForm } from './account-actions.ts';
import { JournalCard } from './journal-card.tsx';
import { KeysCard } from './keys-card.tsx';
import { StatementCard } from './statement-card.tsx';

const REFRESH_MS = 10_000;

interface AccountData {
  readonly account: AccountDetails;
  readonly keys: readonly ApiKey[];
  readonly allowances: readonly Allowance[];
}

interface AccountViewProps {
  readonly session: Session;
  readonly account: string;
  /** Of the address: `journal` scrolls to it. */
  readonly part: string | null;
}

/** One account: what it has, what it may do, its keys, its statement and its journal; and what an operator may change. */
export function AccountView({ session, account, part }: AccountViewProps): JSX.Element {
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
            <a href={usageHref(account)}>Usage</a>
          </p>
          <Overview data={data} session={session} path={path} reload={reload} />
          <KeysCard session={session} account={account} keys={data.keys} reload={reload} />
          <Allowances data={data} session={session} path={path} reload={reload} />
          <StatementCard session={session} account={account} />
          <JournalCard session={session} account={account} isAskedFor={part === 'journal'} />
        </div>
      )}
    </Frame>
  );
}

interface CardProps {
  readonly data: AccountData;
  readonly session: Session;
  readonly path: string;
  readonly reload: () => Promise<void>;
}

function Overview({ data, session, path, reload }: CardProps): JSX.Element {
  const { account, allowances } = data;
  const [action, setAction] = useState<AccountAction>();
  const credits: readonly AccountAction[] = ['grant', 'adjust', 'allowance'];
  const rest: readonly AccountAction[] = ['policy', account.frozen ? 'unfreeze' : 'freeze', 'delete'];
  const actions = [...(session.may('credits') ? credits : []), ...(session.may('accounts') ? rest : [])];
  const form = action && actionForm(action, account, allowances);
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
              {actionForm(name, account, allowances).button}
            </button>
          ))}
        </div>
      </div>
      <Facts facts={factsOf(account)} />
      {form && (
        <FormDialog
          {...form}
          {...(action === 'delete' && { next: () => hrefOf('accounts') })}
          close={() => setAction(undefined)}
          send={async (values, key) => {
            const { method, to, body } = form.requestOf(values);
            await session.api.change(method, path + to, body, key);
            if (action !== 'delete') await reload();
          }}
        />
      )}
    </section>
  );
}

/** The overview of one account. */
function usageHref(account: string): string {
  return `#${new URLSearchParams({ days: '30', account }).toString()}`;
}

function factsOf(account: AccountDetails): readonly Fact[] {
  const { policy, credit_limit, held, spent, granted, expired, written_off } = account;
  const inJournal = hrefOf('accounts', account.id, { part: 'journal' });
  const dollars = (amount: string, href: string): JSX.Element => <a href={href}>{money(nanos(amount))}</a>;
  const some = (amount: string): JSX.Element | undefined =>
    nanos(amount) === 0n ? undefined : dollars(amount, inJournal);
  return [
    ['Held', dollars(held, hrefOf('requests', undefined, { account: account.id, part: 'running' }))],
    ['Spent', dollars(spent, usageHref(account.id))],
    ['Granted', dollars(granted, inJournal)],
    ['Expired', some(expired)],
    ['Written off', some(written_off)],
    ['Credit limit', nanos(credit_limit) === 0n ? undefined : money(nanos(credit_limit))],
    ['Name', policy.name],
    ['Requests a minute', policy.requests_per_minute && grouped(policy.requests_per_minute)],
    ['Tokens a minute', policy.tokens_per_minute && grouped(policy.tokens_per_minute)],
    ['At once', policy.concurrent_requests && grouped(policy.concurrent_requests)],
    ['Budget', budgetText(policy.budget)],
    ['Models', policy.models?.join(', ')],
  ];
}

function Allowances({ data: { allowances }, session, path, reload }: CardProps): JSX.Element | null {
  const [changed, setChanged] = useState<Allowance>();
  if (allowances.length === 0) return null;
  const form = changed && allowanceForm(changed);
  const mayChange = session.may('credits');
  const head = (
    <>
      <Column>Allowance</Column>
      <Column class="number">Amount</Column>
      <Column class="number">Left</Column>
      <Column class="wide">Renewed</Column>
      <Column class="wide">Until</Column>
      <Column class="wide">Rollover</Column>
      <Column class="number wide">Priority</Column>
      {mayChange && (
        <Column>
          <span class="unseen">Actions</span>
        </Column>
      )}
    </>
  );
  return (
    <section class="card" aria-labelledby="allowances-title">
      <div class="title">
        <h2 id="allowances-title">Allowances</h2>
      </div>
      <Table id="allowance-rows" head={head}>
        {allowances.map((each) => (
          <tr key={each.id}>
            <th scope="row">{each.id}</th>
            <NumberCell>{`${money(nanos(each.amount))} ${periodText(each.per)}`}</NumberCell>
            <NumberCell>{money(nanos(each.remaining))}</NumberCell>
            <td class="wide">{dateOrDash(renewalOf(each))}</td>
            <td class="wide">{dateOrDash(each.until)}</td>
            <td class="wide">{each.rollover}</td>
            <NumberCell class="wide">{each.priority}</NumberCell>
            {mayChange && (
              <td class="number actions">
                <button
                  type="button"
                  class="plain"
                  aria-label={`Change ${each.id}`}
                  onClick={() => setChanged(each)}
                >
                  Change
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
      {form && (
        <FormDialog
          {...form}
          close={() => setChanged(undefined)}
          send={async (values, key) => {
            const { method, to, body } = form.requestOf(values);
            await session.api.change(method, path + to, body, key);
            await reload();
          }}
        />
      )}
    </section>
  );
}
