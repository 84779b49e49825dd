import { CreditsConflictError } from './credits-conflict.ts';
import type { Dimensions, JournalLine, LedgerStore } from '../contract/ledger-store.ts';
import { formatUsd, type NanoDollars, parseUsd } from '../contract/money.ts';
import { requestTime } from '../contract/request-ids.ts';
import { optionsObject } from '../../platform/options-object.ts';

export interface RefundOptions {
  /**
   * The account of the request. Without it all accounts are searched, which takes long where there are many.
   *
   * @default the account that has the request
   */
  readonly account?: string;
  /**
   * USD, at most what the request was charged.
   *
   * @default all of it
   */
  readonly amount?: string;
  /** Recorded in the journal. */
  readonly reason: string;
}

export interface CreditsRefund {
  readonly account: string;
  /** What was given back. */
  readonly amount: string;
  /** The balance after the refund. */
  readonly available: string;
  /** The request was refunded before, with the same amount. */
  readonly duplicate: boolean;
  /** As of `CreditsChange`. */
  readonly durable?: boolean;
}

const MEMBERS: Record<keyof RefundOptions, true> = { account: true, amount: true, reason: true };

interface Charge {
  readonly charged: NanoDollars;
  readonly key: string;
  readonly model: string;
  readonly dimensions?: Dimensions;
}

export async function refundRequest(
  store: LedgerStore,
  requestId: string,
  options: RefundOptions,
): Promise<CreditsRefund | undefined> {
  const { account, amount, reason } = optionsObject(
    options,
    MEMBERS,
    "{ reason }, as { reason: 'broken answer' }",
  );
  requestTime(requestId);
  if (typeof reason !== 'string' || reason === '') throw new TypeError('reason must be a text, got none');
  const wanted = amount === undefined ? undefined : parseUsd(amount, 'amount');
  if (wanted !== undefined && wanted <= 0n) throw new TypeError(`amount must be more than 0, got ${amount}`);
  // A journal is only read where no account has a record, which is kept for a day.
  for (const find of [recordedCharge, chargeInJournal]) {
    for await (const each of account === undefined ? store.accounts() : [account]) {
      const charge = await find(store, each, requestId);
      if (charge) return makeRefund(store, { account: each, requestId, reason, charge, wanted });
    }
  }
  return undefined;
}

async function makeRefund(
  store: LedgerStore,
  {
    account,
    requestId,
    reason,
    charge,
    wanted = charge.charged,
  }: {
    readonly account: string;
    readonly requestId: string;
    readonly reason: string;
    readonly charge: Charge;
    readonly wanted: NanoDollars | undefined;
  },
): Promise<CreditsRefund> {
  if (wanted <= 0n) throw new CreditsConflictError('more_than_charged', account, requestId);
  const result = await store.refund({ account, requestId, amount: wanted, reason, ...charge });
  if (result.code !== 'ok' && result.code !== 'duplicate') {
    throw new CreditsConflictError(result.code, account, requestId);
  }
  const { code, available, durable } = result;
  return {
    account,
    amount: formatUsd(wanted),
    available: formatUsd(available),
    duplicate: code === 'duplicate',
    ...(durable !== undefined && { durable }),
  };
}

/** What a request was charged, by its record; undefined if it has none. */
async function recordedCharge(
  store: LedgerStore,
  account: string,
  requestId: string,
): Promise<Charge | undefined> {
  const record = await store.request(account, requestId);
  if (!record) return undefined;
  const { state, amount, key, model = '' } = record;
  if (state === 'held' || state === 'expired') {
    throw new CreditsConflictError('not_settled', account, requestId);
  }
  const charged = state === 'settled' ? amount : 0n;
  const dimensions = await dimensionsInJournal(store, account, requestId, record.line);
  return { charged, key, model, ...(dimensions && { dimensions }) };
}

/** The end user and tags of a request, which its record doesn't have. */
async function dimensionsInJournal(
  store: LedgerStore,
  account: string,
  requestId: string,
  position: bigint | undefined,
): Promise<JournalLine['dimensions']> {
  const [line] = position === undefined ? [] : await store.journal(account, position - 1n, 1);
  return line?.id === requestId ? line.dimensions : undefined;
}

/** What a request was charged, by the lines of the journal; undefined if it has none. */
async function chargeInJournal(
  store: LedgerStore,
  account: string,
  requestId: string,
): Promise<Charge | undefined> {
  let found: Charge | undefined;
  for (let after = 0n; ;) {
    const lines = await store.journal(account, after, PAGE);
    for (const line of lines) {
      if (line.id !== requestId || !isCharge(line)) continue;
      const { key = found?.key ?? '', model = found?.model ?? '', dimensions = found?.dimensions } = line;
      const charged = (found?.charged ?? 0n) + line.amount;
      found = { charged, key, model, ...(dimensions && { dimensions }) };
    }
    const last = lines.at(-1);
    if (!last) return found;
    after = last.seq;
  }
}

const PAGE = 1000;

function isCharge({ type }: JournalLine): boolean {
  return type === 's' || type === 'l' || type === 'o' || type === 'e';
}
