import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { Attempt, LoggedRequest, Refund } from '../../../client/admin-api.generated.ts';
import { FormDialog } from '../../../page/dialog.tsx';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { duration, moment, money, nanos } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Session } from '../session.ts';
import { Column, NumberCell, Table } from '../../../page/table.tsx';
import { chargeOf, endingOf, StatusBadge, tokensOf } from '../../../page/requests/status.tsx';

const REFRESH_MS = 10_000;

interface RequestStoryProps {
  readonly session: Session;
  readonly id: string;
}

/** One request: what it was, its attempts as a timeline, and what it cost. */
export function RequestStory({ session, id }: RequestStoryProps): JSX.Element {
  const { data, notice } = useResource<LoggedRequest>(session, {
    subject: id,
    everyMs: REFRESH_MS,
    ask: () => session.api.get(`requests/${encodeURIComponent(id)}`),
  });
  return (
    <Frame name="requests" title="Request" session={session} notice={notice}>
      <div id="report">
        <p>
          <a href={hrefOf('requests')}>All requests</a>
        </p>
        {data && <Story session={session} request={data} />}
      </div>
    </Frame>
  );
}

function Story({
  session,
  request,
}: {
  readonly session: Session;
  readonly request: LoggedRequest;
}): JSX.Element {
  const { id, account, key, attempts } = request;
  const [refund, setRefund] = useState<'closed' | 'open' | 'Refunded' | 'Already refunded'>('closed');
  const isRefunded = refund !== 'closed' && refund !== 'open';
  return (
    <>
      <section class="card" aria-labelledby="story-title">
        <div class="title">
          <h2 id="story-title">
            {id} <StatusBadge status={request.status} />
          </h2>
          {request.state === 'settled' && session.may('credits') && (
            <button type="button" class="plain" disabled={isRefunded} onClick={() => setRefund('open')}>
              {isRefunded ? refund : 'Refund'}
            </button>
          )}
        </div>
        <Facts facts={factsOf(request)} />
      </section>
      <section class="card" aria-labelledby="attempts-title">
        <div class="title">
          <h2 id="attempts-title">Attempts</h2>
        </div>
        {attempts.length === 0 ? (
          <p class="faint">It was not sent to a provider.</p>
        ) : (
          <Timeline attempts={attempts} totalMs={request.duration_ms} />
        )}
      </section>
      {refund === 'open' && (
        <FormDialog
          title="Refund this request"
          text={`Gives ${account} back what was charged, at most ${chargeOf(request)}, once.`}
          fields={[
            { name: 'amount', label: 'Amount in USD', hint: 'Without one: the whole charge.' },
            { name: 'reason', label: 'Reason', isRequired: true, hint: 'Shown in the journal.' },
          ]}
          submit="Refund"
          close={() => setRefund((state) => (state === 'open' ? 'closed' : state))}
          send={async ({ amount = '', reason }, idempotencyKey) => {
            const path = `accounts/${encodeURIComponent(account)}/requests/${id}/refund`;
            const { duplicate } = await session.api.change<Refund>(
              'POST',
              path,
              { reason, ...(amount !== '' && { amount }) },
              idempotencyKey,
            );
            setRefund(duplicate ? 'Already refunded' : 'Refunded');
          }}
        />
      )}
      <p class="faint">
        <a href={hrefOf('requests', undefined, { account, key })}>Requests with this key</a>
      </p>
    </>
  );
}

function factsOf(request: LoggedRequest): readonly Fact[] {
  const { account, key, model, status, code, first_byte_ms, usage, dimensions } = request;
  return [
    ['Arrived', moment(request.created_at)],
    [
      'Account',
      <a key="account" href={hrefOf('accounts', account)}>
        {account}
      </a>,
    ],
    ['Key', key],
    ['Model', model && `${model}${request.streamed ? ', as a stream' : ''}`],
    ['Status', `${status}${code === undefined ? '' : ` ${code}`}`],
    ['Ended', endingOf(request)],
    ['First byte', first_byte_ms === undefined ? undefined : duration(first_byte_ms)],
    ['In all', duration(request.duration_ms)],
    ['Tokens', tokensOf(usage)],
    ['Charged', `${chargeOf(request)}${request.state === 'voided' ? ' (nothing is charged)' : ''}`],
    ['Cost', request.cost === undefined ? undefined : money(nanos(request.cost))],
    ['Written off', request.written_off === undefined ? undefined : money(nanos(request.written_off))],
    ["Client's ID", request.client_request_id],
    ...Object.entries(dimensions ?? {}),
  ];
}

interface TimelineProps {
  readonly attempts: readonly Attempt[];
  readonly totalMs: number;
}

/** Each attempt as a bar, in the time of the request. */
function Timeline({ attempts, totalMs }: TimelineProps): JSX.Element {
  const head = (
    <>
      <Column>Provider</Column>
      <Column>Status</Column>
      <Column class="wide">Time</Column>
      <Column class="number">After</Column>
      <Column class="number">Took</Column>
      <Column class="wide">Provider's code and ID</Column>
    </>
  );
  return (
    <Table id="attempt-rows" head={head}>
      {attempts.map((attempt, n) => (
        <tr key={n}>
          <th scope="row">
            <a href={hrefOf('providers')}>{attempt.provider}</a>
            <small>{attempt.model}</small>
          </th>
          <td>
            {attempt.status === undefined ? '–' : <StatusBadge status={attempt.status} />}
            <small>{attempt.code}</small>
          </td>
          <td class="wide">
            <Bar attempt={attempt} totalMs={totalMs} />
          </td>
          <NumberCell>{duration(attempt.after_ms)}</NumberCell>
          <NumberCell>{duration(attempt.duration_ms)}</NumberCell>
          <td class="wide">
            {attempt.upstream_code ?? '–'}
            <small>{attempt.upstream_request_id}</small>
          </td>
        </tr>
      ))}
    </Table>
  );
}

const BAR_WIDTH = 240;
const MIN_BAR = 3;

function Bar({ attempt, totalMs }: { readonly attempt: Attempt; readonly totalMs: number }): JSX.Element {
  const scale = BAR_WIDTH / Math.max(totalMs, attempt.after_ms + attempt.duration_ms, 1);
  const isGood = attempt.status !== undefined && attempt.status < 400 && attempt.code === undefined;
  return (
    <svg class="bar-line" width={BAR_WIDTH} height={10} aria-hidden="true">
      <rect class="rail" width={BAR_WIDTH} height={10} rx={3} />
      <rect
        class={isGood ? 'tone-0' : 'tone-4'}
        x={Math.min(attempt.after_ms * scale, BAR_WIDTH - MIN_BAR)}
        width={Math.max(attempt.duration_ms * scale, MIN_BAR)}
        height={10}
        rx={3}
      />
    </svg>
  );
}
