import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { grouped, moment, money, nanos } from '../../../page/format.ts';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import type { OwnStatement } from '../../../client/admin-api.generated.ts';
import { CsvButton } from '../../../page/csv-button.tsx';
import { keyNameOf, readKeyNames } from '../key-names.ts';
import { ViewBody } from '../view-body.tsx';
import type { ViewProps } from '../view-props.ts';
import { monthAfter, nameOfMonth, thisMonth } from '../../../page/months.ts';

const REFRESH_MS = 60_000;

interface StatementData {
  readonly statement: OwnStatement;
  readonly keyNames: ReadonlyMap<string, string>;
}

/** What happened to the credits in a month. */
export function StatementsView({ session, route: { id } }: ViewProps): JSX.Element {
  const month = id !== undefined && /^[1-9]\d{3}-(?:0[1-9]|1[0-2])$/.test(id) ? id : thisMonth();
  const [failure, setFailure] = useState<string>();
  const { api } = session;
  const { data, notice } = useResource<StatementData>(session, {
    subject: month,
    everyMs: REFRESH_MS,
    async ask() {
      const [statement, keyNames] = await Promise.all([
        api.get<OwnStatement>(`statements/${month}`),
        readKeyNames(api),
      ]);
      return { statement, keyNames };
    },
  });

  return (
    <ViewBody
      title="Statements"
      about="What was added and spent. Months are in UTC, times in your time zone."
      notice={notice ?? failure}
      controls={
        <>
          <MonthLinks month={month} />
          <CsvButton
            id="statement-csv"
            class="outline"
            name={`statement-${month}.csv`}
            isDisabled={!data}
            read={() => api.text(`statements/${month}`, { format: 'csv' })}
            setFailure={setFailure}
          />
        </>
      }
    >
      {data && (
        <>
          <Summary statement={data.statement} />
          <Charges {...data} />
          <Users statement={data.statement} />
          <Entries statement={data.statement} />
        </>
      )}
    </ViewBody>
  );
}

function MonthLinks({ month }: { readonly month: string }): JSX.Element {
  const next = monthAfter(month, 1);
  return (
    <div class="month" role="group" aria-label="Month">
      <a href={hrefOf('statements', monthAfter(month, -1))} aria-label="The month before">
        ←
      </a>
      <strong>{nameOfMonth(month)}</strong>
      {next > thisMonth() ? (
        <span aria-hidden="true">→</span>
      ) : (
        <a href={hrefOf('statements', next)} aria-label="The month after">
          →
        </a>
      )}
    </div>
  );
}

function Summary({ statement }: { readonly statement: OwnStatement }): JSX.Element {
  const { opening, granted, adjusted, expired, charged, refunded, closing } = statement;
  const lines: readonly (readonly [name: string, amount: bigint])[] = [
    ['Credits added', nanos(granted)],
    ['Corrections', nanos(adjusted)],
    ['Charges', -nanos(charged)],
    ['Refunds', nanos(refunded)],
    ['Expired', -nanos(expired)],
  ];
  const head = (
    <>
      <Column>
        <span class="unseen">Line</span>
      </Column>
      <Column class="number">USD</Column>
    </>
  );
  return (
    <section class="card sheet" aria-label="Summary">
      <div>
        <Table id="statement-lines" head={head}>
          <SheetLine name="At the beginning" amount={nanos(opening)} isTotal />
          {lines
            .filter(([, amount]) => amount !== 0n)
            .map(([name, amount]) => (
              <SheetLine key={name} name={name} amount={amount} />
            ))}
          <SheetLine name="At the end" amount={nanos(closing)} isTotal />
        </Table>
      </div>
    </section>
  );
}

interface SheetLineProps {
  readonly name: string;
  readonly amount: bigint;
  readonly isTotal?: boolean;
}

function SheetLine({ name, amount, isTotal = false }: SheetLineProps): JSX.Element {
  return (
    <tr class={isTotal ? 'total' : ''}>
      <th scope="row">{name}</th>
      <NumberCell>{money(amount)}</NumberCell>
    </tr>
  );
}

function Charges({ statement: { charges }, keyNames }: StatementData): JSX.Element {
  const head = (
    <>
      <Column>Model</Column>
      <Column>Key</Column>
      <Column class="number wide">Requests</Column>
      <Column class="number">Charged</Column>
      <Column class="number wide">Refunded</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="charges-title">
      <div class="title">
        <h2 id="charges-title">Charges</h2>
      </div>
      <Table id="charge-rows" head={head}>
        {charges.toSorted(byCharge).map(({ model, key, requests, charged, refunded }) => (
          <tr key={`${model} ${key}`}>
            <th scope="row">{model}</th>
            <td class="name">{keyNameOf(keyNames, key)}</td>
            <NumberCell class="wide">{grouped(requests)}</NumberCell>
            <NumberCell>{money(nanos(charged))}</NumberCell>
            <NumberCell class="wide">{nanos(refunded) === 0n ? '–' : money(nanos(refunded))}</NumberCell>
          </tr>
        ))}
        {charges.length === 0 && <EmptyRow columns={5}>Nothing was charged in this month.</EmptyRow>}
      </Table>
    </section>
  );
}

function byCharge(one: { readonly charged: string }, other: { readonly charged: string }): number {
  return Number(other.charged) - Number(one.charged);
}

function Users({
  statement: { end_users: users },
}: {
  readonly statement: OwnStatement;
}): JSX.Element | null {
  if (users.length === 0) return null;
  const head = (
    <>
      <Column>End user</Column>
      <Column class="number">Requests</Column>
      <Column class="number">Charged</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="users-title">
      <div class="title">
        <h2 id="users-title">By end user</h2>
      </div>
      <Table id="user-rows" head={head}>
        {users.toSorted(byCharge).map(({ user, requests, charged }) => (
          <tr key={user}>
            <th scope="row">{user || 'No end user named'}</th>
            <NumberCell>{grouped(requests)}</NumberCell>
            <NumberCell>{money(nanos(charged))}</NumberCell>
          </tr>
        ))}
      </Table>
    </section>
  );
}

const ENTRIES: Readonly<Record<string, string>> = {
  grant: 'Credits added',
  adjustment: 'Correction',
  expired_credit: 'Credits expired',
  refund: 'Refund',
  allowance: 'Allowance renewed',
};

function entryName(type: string, allowance: string | undefined): string {
  const name = ENTRIES[type] ?? type.replaceAll('_', ' ');
  if (allowance === undefined) return name;
  return type === 'grant' ? `Allowance ${allowance}` : `${name}: allowance ${allowance}`;
}

function Entries({ statement: { credits } }: { readonly statement: OwnStatement }): JSX.Element | null {
  if (credits.length === 0) return null;
  const head = (
    <>
      <Column>Time</Column>
      <Column>What</Column>
      <Column class="number">USD</Column>
      <Column class="number wide">Available after</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="entries-title">
      <div class="title">
        <h2 id="entries-title">Credits and corrections</h2>
      </div>
      <Table id="entry-rows" head={head}>
        {credits.map(({ type, at, amount, balance, allowance }, i) => (
          <tr key={i}>
            <th scope="row">{moment(at)}</th>
            <td>{entryName(type, allowance)}</td>
            <NumberCell>{money(type === 'expired_credit' ? -nanos(amount) : nanos(amount))}</NumberCell>
            <NumberCell class="wide">{money(nanos(balance))}</NumberCell>
          </tr>
        ))}
      </Table>
    </section>
  );
}
