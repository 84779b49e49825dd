import type { JSX } from 'preact';

import type { LiveRow } from '../api-rows.ts';
import { grouped, duration } from '../../../page/format.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';

const MAX_ROWS = 50;

export interface LiveRequestsProps {
  /** Undefined until loaded. */
  readonly requests: readonly LiveRow[] | undefined;
  /** When they were read. */
  readonly at: number;
}

/** Running requests, oldest first. */
export function LiveRequests({ requests, at }: LiveRequestsProps): JSX.Element {
  const sorted = (requests ?? []).toSorted((one, other) => startOf(one) - startOf(other));
  const more = sorted.length - MAX_ROWS;
  const head = (
    <>
      <Column>Model</Column>
      <Column>Account</Column>
      <Column class="wide">Answer</Column>
      <Column class="number">For</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="live-title">
      <div class="title">
        <h2 id="live-title">
          Live requests{' '}
          <span id="live-count" class="faint">
            {grouped(sorted.length)}
          </span>
        </h2>
        <p class="faint">
          <i class="pulse" />
          of this process
        </p>
      </div>
      <Table id="live-rows" head={head}>
        {sorted.slice(0, MAX_ROWS).map((request, i) => (
          <LiveRequest key={i} request={request} at={at} />
        ))}
        {more > 0 && <EmptyRow columns={4}>{`and ${grouped(more)} more`}</EmptyRow>}
        {requests?.length === 0 && <EmptyRow columns={4}>No running requests.</EmptyRow>}
      </Table>
    </section>
  );
}

function LiveRequest({ request, at }: { readonly request: LiveRow; readonly at: number }): JSX.Element {
  const { model, provider, account, key, streaming } = request;
  return (
    <tr>
      <th scope="row">
        {model ?? '–'}
        <small>{provider ? `by ${provider}` : 'waiting'}</small>
      </th>
      <td>
        {account}
        <small>{key}</small>
      </td>
      <td class="wide">{streaming === undefined ? '–' : streaming ? 'stream' : 'whole'}</td>
      <NumberCell>{duration(at - startOf(request))}</NumberCell>
    </tr>
  );
}

function startOf({ started_at }: LiveRow): number {
  return Date.parse(started_at);
}
