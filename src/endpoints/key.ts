import type { CallLimit } from '../async/call-limit.ts';
import type { Caller } from '../keys/caller.ts';
import type { Exchange } from '../http/exchange.ts';
import type { BudgetStatus, CreateKey, KeyStatus } from '../ledger/contract/key-records.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { DAY_MS, dayOf, type UsageRow } from '../ledger/contract/usage.ts';
import { fromStore } from '../keys/from-store.ts';
import { sendRecord } from './account-record.ts';

export interface KeyServices {
  readonly store: LedgerStore;
  readonly clock: { now(): number };
  readonly accountReads: CallLimit;
}

/** `GET /key`, as OpenRouter answers it: the budget of the caller's key, and what it has spent. */
export async function sendKey(
  exchange: Exchange,
  { account, key, externalKey, session }: Caller,
  { store, clock, accountReads }: KeyServices,
): Promise<void> {
  const now = clock.now();
  const since = Math.min(mondayOf(now), firstOfMonth(now));
  const [status, own] = await fromStore(() =>
    Promise.all([
      externalKey ? undefined : store.keyState(account, key),
      accountReads.run(account, () => store.usage(account, dayOf(since), dayOf(now), key)),
    ]),
  );
  sendRecord(exchange, { data: keyBody(key, status, session, spentSince(own, now)) });
}

interface Spent {
  readonly daily: number;
  readonly weekly: number;
  readonly monthly: number;
}

/** Days, weeks from Monday and months are in UTC. */
function spentSince(rows: readonly UsageRow[], now: number): Spent {
  const since = (time: number): number => {
    const first = dayOf(time);
    const counted = rows.filter(({ day }) => day >= first);
    return dollars(counted.reduce((total, { charged }) => total + charged, 0n));
  };
  return { daily: since(now), weekly: since(mondayOf(now)), monthly: since(firstOfMonth(now)) };
}

/** OpenRouter's own clients reject a record with a missing member. */
function keyBody(
  id: string,
  status: KeyStatus | undefined,
  session: CreateKey | undefined,
  { daily, weekly, monthly }: Spent,
): object {
  const { budgets = [] } = status ?? {};
  const [budget] = budgets;
  const [tightest] = budgets.toSorted((one, other) => (one.left < other.left ? -1 : 1));
  const [granted] = session?.limits?.budgets ?? [];
  const limit = budget?.amount ?? granted?.amount;
  const left = budget?.left ?? granted?.amount;
  const expiresAt = status?.expiresAt ?? session?.expiresAt;
  return {
    label: status?.name || session?.name || id,
    limit: limit === undefined ? null : dollars(limit),
    limit_remaining: left === undefined ? null : dollars(left),
    limit_reset: RESETS[budget?.per ?? 'lifetime'],
    // An external key has no counters of its own.
    usage: status ? dollars(status.spent) : monthly,
    usage_daily: daily,
    usage_weekly: weekly,
    usage_monthly: monthly,
    byok_usage: 0,
    byok_usage_daily: 0,
    byok_usage_weekly: 0,
    byok_usage_monthly: 0,
    include_byok_in_limit: false,
    is_free_tier: false,
    is_management_key: false,
    is_provisioning_key: false,
    creator_user_id: null,
    organization_id: null,
    workspace_id: null,
    allowed_data_regions: [],
    budgets: budgets.map(budgetBody),
    effective_budget: tightest ? budgetBody(tightest) : null,
    // A router has no free variants of models.
    free_model_daily_requests: { limit: 0, remaining: 0, used: 0 },
    expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
    rate_limit: {
      requests: status?.limits.requestsPerMinute ?? -1,
      interval: '1m',
      note: 'This member is deprecated. GET /credits has the limits.',
    },
  };
}

function budgetBody({ amount, per, spent, left, resetsAt }: BudgetStatus): object {
  return {
    scope: 'key_limit',
    budget_id: null,
    guardrail_id: null,
    include_byok: false,
    limit_usd: dollars(amount),
    spend_usd: dollars(spent),
    remaining_usd: dollars(left),
    reset_interval: RESETS[per],
    resets_at: resetsAt === undefined ? null : new Date(resetsAt).toISOString(),
  };
}

/** OpenRouter's words for the period of a budget. */
const RESETS = { hour: 'hourly', day: 'daily', week: 'weekly', month: 'monthly', lifetime: null } as const;

function mondayOf(time: number): number {
  return time - ((new Date(time).getUTCDay() + 6) % 7) * DAY_MS;
}

function firstOfMonth(time: number): number {
  return time - (new Date(time).getUTCDate() - 1) * DAY_MS;
}

function dollars(amount: NanoDollars): number {
  return Number(formatUsd(amount));
}
