import type { JSX } from 'preact';

import type { Status } from '../../../client/admin-api.generated.ts';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { duration, grouped, moment } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { ViewProps } from '../view-props.ts';
import { AuditCard } from './audit-card.tsx';

const REFRESH_MS = 3000;

/** The store, what waits for it, and whether the books are right. */
export function HealthView({ session }: ViewProps): JSX.Element {
  const { data, notice } = useResource<Status>(session, {
    subject: 'status',
    everyMs: REFRESH_MS,
    ask: () => session.api.get('status'),
  });
  return (
    <Frame
      name="health"
      title="Health"
      session={session}
      notice={notice}
      status="of the process that answers"
    >
      {data && (
        <div id="report">
          <StoreCard status={data} />
          <LogCard log={data.request_log} />
          <AuditCard api={session.api} />
        </div>
      )}
    </Frame>
  );
}

function StoreCard({ status }: { readonly status: Status }): JSX.Element {
  const { store, outbox, waiting_charges: waiting, running, started_at: startedAt } = status;
  const facts: readonly Fact[] = [
    ['Answered in', store.state === 'available' ? duration(store.answer_ms) : undefined],
    ['Waiting charges', grouped(waiting)],
    [
      'Running requests',
      <a key="running" href={hrefOf('requests')}>
        {grouped(running)}
      </a>,
    ],
    ['Process started', moment(startedAt)],
    ['Outbox', outbox === undefined ? 'none: charges wait in memory' : outbox.folder],
  ];
  return (
    <section class="card" aria-labelledby="store-title">
      <div class="title">
        <h2 id="store-title">
          Store {store.name}{' '}
          <span class={`badge ${store.state === 'available' ? 'healthy' : 'ejected'}`}>{store.state}</span>
        </h2>
      </div>
      {store.error !== undefined && <p class="notice bad">{store.error}</p>}
      {outbox?.error !== undefined && (
        <p class="notice bad">{`The outbox can't be written: ${outbox.error}`}</p>
      )}
      {waiting > 0 && (
        <p class="notice">The store has not answered these charges yet. They are sent until it does.</p>
      )}
      <Facts facts={facts} />
    </section>
  );
}

function LogCard({ log }: { readonly log: Status['request_log'] }): JSX.Element {
  return (
    <section class="card" aria-labelledby="log-title">
      <div class="title">
        <h2 id="log-title">Request log</h2>
        <p class="faint">since the process started</p>
      </div>
      <Facts
        facts={[
          [
            'Written',
            <a key="written" href={hrefOf('requests')}>
              {grouped(log.written)}
            </a>,
          ],
          ['Waiting', grouped(log.waiting)],
          ['Refusals left out', grouped(log.refusals_left_out)],
          ['Lost', grouped(log.lost)],
        ]}
      />
    </section>
  );
}
