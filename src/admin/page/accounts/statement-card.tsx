import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { Statement } from '../../../client/admin-api.generated.ts';
import { CsvButton } from '../../../page/csv-button.tsx';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { grouped, money, nanos } from '../../../page/format.ts';
import { monthAfter, nameOfMonth, thisMonth } from '../../../page/months.ts';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import { Column, NumberCell, Table } from '../../../page/table.tsx';

/** A statement reads the journal of its month: it isn't asked for every few seconds. */
const REFRESH_MS = 600_000;
/** That one can choose: this one and a year. */
const MONTHS = 13;

export interface StatementCardProps {
  readonly session: Session;
  readonly account: string;
}

/** What happened in a month, in UTC; as CSV too. */
export function StatementCard({ session, account }: StatementCardProps): JSX.Element {
  const [month, setMonth] = useState(thisMonth);
  const [failure, setFailure] = useState<string>();
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
            {Array.from({ length: MONTHS }, (_, count) => monthAfter(thisMonth(), -count)).map((value) => (
              <option key={value} value={value}>
                {nameOfMonth(value)}
              </option>
            ))}
          </select>
          <CsvButton
            id="statement-csv"
            name={`${account}-${month}.csv`}
            class="plain"
            isDisabled={!data}
            read={() => session.api.text(path, { format: 'csv' })}
            setFailure={setFailure}
          />
        </div>
      </div>
      {failure !== undefined && <p class="bad">{failure}</p>}
      {data ? <Month statement={data} /> : <p class="faint">{notice ?? 'Loading'}</p>}
    </section>
  );
}

function Month({ statement }: { readonly statement: Statement }): JSX.Element {
  const { account, from, to, charges } = statement;
  const head = (
    <>
      <Column>Model</Column>
      <Column class="wide">Key</Column>
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
              <td class="wide">
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
