import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ApiKeyDetails } from '../../../client/admin-api.generated.ts';
import { CopyButton } from '../copy-button.tsx';
import { type Fact, Facts } from '../facts.tsx';
import { grouped, moment, money, nanos } from '../format.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../resource.ts';
import { hrefOf } from '../route.ts';
import type { Session } from '../session.ts';
import type { ChosenAction } from './key-actions.ts';
import { KeyDialogs } from './key-dialogs.tsx';
import { KeyActions, KeyState } from './key-table.tsx';

const REFRESH_MS = 10_000;

export interface KeyViewProps {
  readonly session: Session;
  readonly account: string;
  readonly id: string;
}

/** One key: its limits, what is left of them, and what an operator may change. */
export function KeyView({ session, account, id }: KeyViewProps): JSX.Element {
  const [chosen, setChosen] = useState<ChosenAction>();
  const { data, notice, reload } = useResource<ApiKeyDetails>(session, {
    subject: `${account} ${id}`,
    everyMs: REFRESH_MS,
    ask: () => session.api.get(`accounts/${encodeURIComponent(account)}/keys/${encodeURIComponent(id)}`),
  });
  return (
    <Frame name="keys" title="Key" session={session} notice={notice}>
      {data && (
        <div id="report">
          <p>
            <a href={hrefOf('accounts', account)}>{account}</a> ·{' '}
            <a href={hrefOf('requests', undefined, { account, key: id })}>Requests</a>
          </p>
          <section class="card" aria-labelledby="key-title">
            <div class="title">
              <h2 id="key-title">
                {data.name || data.id} <KeyState of={data} />
              </h2>
              {session.may('keys') && (
                <div class="controls">
                  <KeyActions of={data} choose={setChosen} />
                </div>
              )}
            </div>
            <Facts facts={factsOf(data)} />
          </section>
          <KeyDialogs session={session} chosen={chosen} close={() => setChosen(undefined)} reload={reload} />
        </div>
      )}
    </Frame>
  );
}

function factsOf(key: ApiKeyDetails): readonly Fact[] {
  const { models, expires_at, created_at, revoked_at, spent, held, running } = key;
  return [
    [
      'ID',
      <span key="id">
        {key.id} <CopyButton text={key.id} />
      </span>,
    ],
    ['Created', moment(created_at)],
    ['Expires', expires_at && moment(expires_at)],
    ['Revoked', revoked_at && moment(revoked_at)],
    ['Spent', money(nanos(spent))],
    ['Held', money(nanos(held))],
    ['Running', grouped(running)],
    ...budgetFacts(key),
    ['Requests a minute', leftOf(key.requests_left, key.requests_per_minute)],
    ['Tokens a minute', leftOf(key.tokens_left, key.tokens_per_minute)],
    ['Requests at once', key.concurrent_requests && grouped(key.concurrent_requests)],
    ['Models', models?.join(', ')],
    ...Object.entries(key.metadata ?? {}),
  ];
}

/** Each budget with what is left of it. */
function budgetFacts(key: ApiKeyDetails): readonly Fact[] {
  const { budget, budgets, budget_left: left, budget_resets_at: resetsAt } = key;
  const [only] = [budget ?? []].flat();
  const all =
    budgets ??
    (only && left !== undefined
      ? [{ ...only, left, ...(resetsAt !== undefined && { resets_at: resetsAt }) }]
      : []);
  return all.map(({ amount, per, left: rest, resets_at: at }) => [
    per === 'lifetime' ? 'Budget in all' : `Budget a ${per}`,
    `${money(nanos(rest))} left of ${money(nanos(amount))}${at === undefined ? '' : `, until ${moment(at)}`}`,
  ]);
}

function leftOf(left: number | undefined, limit: number | undefined): string | undefined {
  if (limit === undefined) return undefined;
  return left === undefined ? grouped(limit) : `${grouped(left)} left of ${grouped(limit)}`;
}
