import type { Caller } from '../keys/caller.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Allowance, allowanceOf } from '../ledger/contract/allowances.ts';
import type { CreateKey, KeyStatus } from '../ledger/contract/key-records.ts';
import type { Balance, LedgerStore, Lot } from '../ledger/contract/ledger-store.ts';
import { formatUsd, larger, type NanoDollars, smaller } from '../ledger/contract/money.ts';
import { fromStore } from '../keys/from-store.ts';
import { sendRecord } from './account-record.ts';

/** `GET /credits`: Vercel's `balance` and `total_used`, then `held`, allowances and lots, the key, and OpenRouter's `data`. */
export async function sendCredits(
  exchange: Exchange,
  { account, key: keyId, externalKey, session }: Caller,
  store: LedgerStore,
): Promise<void> {
  if (session) {
    sendRecord(exchange, await fromStore(() => sessionBody(session, store)));
    return;
  }
  const [balance, key] = await fromStore(() =>
    Promise.all([store.balance(account), externalKey ? undefined : store.keyState(account, keyId)]),
  );
  const { available, held, spent, granted, floor, lots, allowances } = balance ?? NO_BALANCE;
  sendRecord(exchange, {
    balance: formatUsd(available),
    total_used: formatUsd(spent),
    held: formatUsd(held),
    currency: 'USD',
    ...(floor < 0n && { credit_limit: formatUsd(-floor) }),
    allowances: allowances.map((allowance) => allowanceBody(allowance, lots)),
    lots: lots.map(lotBody),
    ...(key && { key: keyBody(key) }),
    data: { total_credits: dollars(granted), total_usage: dollars(spent) },
  });
}

/** A page learns what its session may spend, of its own limit and of what the account can pay, and no more of the account. */
async function sessionBody({ account, key, limits }: CreateKey, store: LedgerStore): Promise<object> {
  const [balance, state] = await Promise.all([store.balance(account), store.keyState(account, key)]);
  const most = limits?.budgets?.[0]?.amount ?? 0n;
  const { spent, held } = state ?? { spent: 0n, held: 0n };
  const left = state?.budgets[0]?.left ?? most;
  const { available, floor } = balance ?? NO_BALANCE;
  return {
    balance: formatUsd(smaller(larger(0n, available - floor), left)),
    total_used: formatUsd(spent),
    held: formatUsd(held),
    currency: 'USD',
    ...(state && { key: keyBody(state) }),
    data: { total_credits: dollars(most), total_usage: dollars(spent) },
  };
}

const NO_BALANCE: Pick<
  Balance,
  'available' | 'held' | 'spent' | 'granted' | 'floor' | 'lots' | 'allowances'
> = { available: 0n, held: 0n, spent: 0n, granted: 0n, floor: 0n, lots: [], allowances: [] };

function allowanceBody({ id, granted, per, resetsAt }: Allowance, lots: readonly Lot[]): object {
  const own = lots.filter((lot) => allowanceOf(lot.id) === id);
  return {
    id,
    amount: formatUsd(granted),
    remaining: formatUsd(own.reduce((total, lot) => total + lot.remaining, 0n)),
    per,
    resets_at: isoTime(resetsAt),
  };
}

/** Without its id, which may be that of a payment. */
function lotBody({ id, amount, remaining, expiresAt }: Lot): object {
  return {
    allowance: allowanceOf(id) ?? null,
    amount: formatUsd(amount),
    remaining: formatUsd(remaining),
    expires_at: isoTime(expiresAt),
  };
}

/** The key's budget and limits, if it has any, and what is left of them. */
function keyBody({ key, name, limits, budgets, running, rates, expiresAt }: KeyStatus) {
  const { concurrentRequests } = limits;
  const bodies = budgets.map(budgetBody);
  return {
    id: key,
    name,
    expires_at: isoTime(expiresAt),
    budget: bodies[0] ?? null,
    ...(bodies.length > 1 && { budgets: bodies }),
    limits: {
      requests_per_minute: rateBody(rates?.requests),
      tokens_per_minute: rateBody(rates?.tokens),
      concurrent_requests:
        concurrentRequests === undefined
          ? null
          : { limit: concurrentRequests, remaining: Math.max(0, concurrentRequests - running) },
    },
  };
}

function budgetBody({ amount, per, spent, left, resetsAt }: KeyStatus['budgets'][number]) {
  return {
    amount: formatUsd(amount),
    per,
    spent: formatUsd(spent),
    left: formatUsd(left),
    resets_at: isoTime(resetsAt),
  };
}

function rateBody(rate: NonNullable<KeyStatus['rates']>['requests']): object | null {
  return rate ? { limit: rate.limit, remaining: rate.remaining, reset_ms: rate.resetMs } : null;
}

function isoTime(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}

function dollars(amount: NanoDollars): number {
  return Number(formatUsd(amount));
}
