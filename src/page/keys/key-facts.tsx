import type { ApiKeyDetails } from '../../client/admin-api.generated.ts';
import { CopyButton } from '../copy-button.tsx';
import type { Fact } from '../facts.tsx';
import { date, grouped, money, nanos, periodText } from '../format.ts';
import { labelsText } from './labels-text.ts';
import { budgetsLeft, type LimitedBudgets } from './budgets.ts';

/** What an operator and a customer see of one key alike. */
type KeyDetails = Omit<ApiKeyDetails, 'account' | 'markup'>;

/** Limits, and what is left of them. */
type Limited = LimitedBudgets &
  Pick<
    ApiKeyDetails,
    | 'models'
    | 'require'
    | 'requests_per_minute'
    | 'requests_left'
    | 'tokens_per_minute'
    | 'tokens_left'
    | 'concurrent_requests'
  >;

/**
 * What is known of a key, and what is left of its limits.
 *
 * @param heldName - what the money of running requests is called
 */
export function keyFacts(key: KeyDetails, heldName: string): readonly Fact[] {
  const { expires_at, created_at, revoked_at, spent, held, running } = key;
  return [
    [
      'ID',
      <span key="id">
        {key.id} <CopyButton text={key.id} />
      </span>,
    ],
    ['Created', date(created_at)],
    ['Expires', expires_at && date(expires_at)],
    ['Revoked', revoked_at && date(revoked_at)],
    ['Spent', money(nanos(spent))],
    [heldName, money(nanos(held))],
    ['Running', grouped(running)],
    ...limitFacts(key),
    ...Object.entries(key.metadata ?? {}),
  ];
}

/** The limits of a key or an account, with what is left of each. */
export function limitFacts(limited: Limited): readonly Fact[] {
  const { models, requests_per_minute, tokens_per_minute, concurrent_requests } = limited;
  return [
    ...budgetFacts(limited),
    ['Requests a minute', leftOf(limited.requests_left, requests_per_minute)],
    ['Tokens a minute', leftOf(limited.tokens_left, tokens_per_minute)],
    ['Requests at once', concurrent_requests && grouped(concurrent_requests)],
    ['Models', models?.join(', ')],
    ['Labels of targets', limited.require && labelsText(limited.require)],
  ];
}

/** Each budget with what is left of it. */
function budgetFacts(limited: Limited): readonly Fact[] {
  return budgetsLeft(limited).map(({ amount, per, left, resets_at: at }) => [
    `Budget ${periodText(per)}`,
    `${money(nanos(left))} left of ${money(nanos(amount))}${at === undefined ? '' : `, until ${date(at)}`}`,
  ]);
}

function leftOf(left: number | undefined, limit: number | undefined): string | undefined {
  if (limit === undefined) return undefined;
  return left === undefined ? grouped(limit) : `${grouped(left)} left of ${grouped(limit)}`;
}
