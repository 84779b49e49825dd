import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { Journal, JournalEntry } from '../../../client/admin-api.generated.ts';
import { moment, money, nanos } from '../../../page/format.ts';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';

const REFRESH_MS = 10_000;
const PAGE_ROWS = '25';

export interface JournalCardProps {
  readonly session: Session;
  readonly account: string;
  /** The address asks for the journal: it is scrolled to. */
  readonly isAskedFor: boolean;
}

/** The changes of a balance, newest first. */
export function JournalCard({ session, account, isAskedFor }: JournalCardProps): JSX.Element {
  const [after, setAfter] = useState<number>();
  const card = useRef<HTMLElement>(null);
  const { data, notice } = useResource<Journal>(session, {
    subject: `${account} ${after}`,
    everyMs: REFRESH_MS,
    ask: () =>
      session.api.get(`accounts/${encodeURIComponent(account)}/journal`, {
        order: 'newest',
        limit: PAGE_ROWS,
        ...(after !== undefined && { after: String(after) }),
      }),
  });
  const isLoaded = data !== undefined;
  useLayoutEffect(() => {
    if (isAskedFor && isLoaded) card.current?.scrollIntoView();
  }, [isAskedFor, isLoaded]);
  return (
    <section class="card" aria-labelledby="journal-title" ref={card}>
      <div class="title">
        <h2 id="journal-title">Journal</h2>
        <p class="faint">newest first</p>
      </div>
      {data ? <Entries entries={data.data} account={account} /> : <p class="faint">{notice ?? 'Loading'}</p>}
      <p class="controls end">
        {after !== undefined && (
          <button type="button" class="plain" onClick={() => setAfter(undefined)}>
            Newest
          </button>
        )}
        {data && data.next_after !== null && (
          <button type="button" class="plain" onClick={() => setAfter(data.next_after ?? undefined)}>
            Older
          </button>
        )}
      </p>
    </section>
  );
}

interface EntriesProps {
  readonly entries: readonly JournalEntry[];
  readonly account: string;
}

function Entries({ entries, account }: EntriesProps): JSX.Element {
  const head = (
    <>
      <Column>Time</Column>
      <Column>Entry</Column>
      <Column class="wide">What for</Column>
      <Column class="wide">Key</Column>
      <Column class="number">Amount</Column>
      <Column class="number wide">Balance</Column>
    </>
  );
  return (
    <Table id="journal-rows" head={head}>
      {entries.map((entry) => (
        <tr key={entry.position}>
          <td>{moment(entry.at)}</td>
          <th scope="row">
            {entry.type.replace('_', ' ')}
            <small>
              <EntryId entry={entry} />
            </small>
          </th>
          <td class="wide wrap">{entry.model ?? entry.reason ?? '–'}</td>
          <td class="wide">
            {entry.key === undefined ? '–' : <a href={hrefOf('keys', entry.key, { account })}>{entry.key}</a>}
          </td>
          <NumberCell>{signedAmount(entry)}</NumberCell>
          <NumberCell class="wide">{money(nanos(entry.balance))}</NumberCell>
        </tr>
      ))}
      {entries.length === 0 && <EmptyRow columns={6}>No entries.</EmptyRow>}
    </Table>
  );
}

function EntryId({ entry: { id, request_id: request } }: { readonly entry: JournalEntry }): JSX.Element {
  return request === undefined ? <>{id}</> : <a href={hrefOf('requests', request)}>{id}</a>;
}

/** As it changes the balance; the amount of a refund is negative, as one of a charge. */
function signedAmount({ type, amount }: JournalEntry): string {
  const isAdded = type === 'grant' || type === 'adjustment';
  const change = isAdded ? nanos(amount) : -nanos(amount);
  return `${change > 0n ? '+' : ''}${money(change)}`;
}
