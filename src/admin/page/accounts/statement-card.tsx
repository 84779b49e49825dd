import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { Statement } from '../../../client/admin-api.generated.ts';
import { type Fact, Facts } from '../facts.tsx';
import { grouped, money, nanos } from '../format.ts';
import { useResource } from '../resource.ts';
import { hrefOf } from '../route.ts';
import type { Session } from '../session.ts';
import { Column, NumberCell, Table } from '../table.tsx';

/** A statement reads the journal of its month: it isn't asked for every few seconds. */
const REFRESH_MS = 600_000;
const MONTHS = 13;

export interface StatementCardProps {
  readonly session: Session;
  readonly account: string;
}

/** What happened in a month, in UTC; as CSV too. */
export function StatementCard({ session, account }: StatementCardProps): JSX.Element {
  const months = lastMonths(Date.now());
  const [month, setMonth] = useState(months[0] ?? '');
  const path = `accounts/${encodeURIComponent(account)}/statements/${month}`;
  const { data, notice } = useResource<Statement>(session, {
    subject: path,
    everyMs: REFRESH_MS,
    ask: () => session.api.get(path),
  });
  return (
    <section class="card" aria-labelledby="statement-title">
      <div class="title">
        <h2 id="statement-title">
          Statement <span class="faint">in UTC</span>
        </h2>
        <div class="controls">
          <select
            id="statement-month"
            aria-label="Month of the statement"
            value={month}
            onChange={(event) => setMonth(event.currentTarget.value)}
          >
            {months.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
          <button
            type="button"
            id="statement-csv"
            class="plain"
            disabled={!data}
            onClick={() => void download(session, path, `${account}-${month}.csv`)}
          >
            Download CSV
          </button>
        </div>
      </div>
      {data ? <Month statement={data} /> : <p class="faint">{notice ?? 'Loading'}</p>}
    </section>
  );
}

/** This month, and those before, as `2026-11`. */
function lastMonths(now: number): readonly string[] {
  const [year, month] = [new Date(now).getUTCFullYear(), new Date(now).getUTCMonth()];
  return Array.from({ length: MONTHS }, (_, n) =>
    new Date(Date.UTC(year, month - n, 1)).toISOString().slice(0, 7),
  );
}

async function download(session: Session, path: string, name: string): Promise<void> {
  const csv = await session.api.text(path, { format: 'csv' });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([csv], { type: 'text/csv' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function Month({ statement }: { readonly statement: Statement }): JSX.Element {
  const { account, from, to, charges } = statement;
  const head = (
    <>
      <Column>Model</Column>
      <Column>Key</Column>
      <Column class="number">Requests</Column>
      <Column class="number">Charged</Column>
      <Column class="number wide">Refunded</Column>
    </>
  );
  return (
    <>
      <Facts facts={factsOf(statement)} />
      {charges.length > 0 && (
        <Table id="statement-rows" head={head}>
          {charges.map(({ model, key, requests, charged, refunded }) => (
            <tr key={`${model} ${key}`}>
              <th scope="row">{model}</th>
              <td>
                <a href={hrefOf('keys', key, { account })}>{key}</a>
              </td>
              <NumberCell>
                <a href={hrefOf('requests', undefined, { account, key, model, from, to })}>
                  {grouped(requests)}
                </a>
              </NumberCell>
              <NumberCell>{money(nanos(charged))}</NumberCell>
              <NumberCell class="wide">{nanos(refunded) === 0n ? '–' : money(nanos(refunded))}</NumberCell>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

/** What changed nothing is left out, but for the ends. */
function factsOf(statement: Statement): readonly Fact[] {
  const { account, from, to, charged } = statement;
  const amount = (label: string, value: string): Fact => [
    label,
    nanos(value) === 0n ? undefined : money(nanos(value)),
  ];
  return [
    ['Opening', money(nanos(statement.opening))],
    amount('Granted', statement.granted),
    amount('Adjusted', statement.adjusted),
    amount('Expired', statement.expired),
    [
      'Charged',
      <a key="charged" href={hrefOf('requests', undefined, { account, from, to })}>
        {money(nanos(charged))}
      </a>,
    ],
    amount('Refunded', statement.refunded),
    amount('Written off', statement.written_off),
    ['Closing', money(nanos(statement.closing))],
  ];
}
