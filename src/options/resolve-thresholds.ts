import { type NanoDollars, parseUsd } from '../ledger/contract/money.ts';
import { assertObject, milliseconds, optionError } from './resolve-options.ts';

import type { ThresholdOptions, ThresholdsOfAccount, TopUpOptions } from './threshold-options.ts';

/** Amounts are in nano-dollars. */
export interface Thresholds {
  /** Of an account, the largest first. */
  readonly balanceBelow: OfAccount<NanoDollars>;
  /** Of an account, the smallest first; undefined if no account has some. */
  readonly budgetAt: OfAccount<Share> | undefined;
  readonly topUp: (Required<Omit<TopUpOptions, 'below'>> & { readonly below: NanoDollars }) | undefined;
}

/** @throws whatever the host's function throws, and a {TypeError} for what it returns */
type OfAccount<Threshold> = (account: string) => readonly Threshold[];

/** A part of a whole. */
export interface Share {
  /** Without needless zeros: `0.8`. */
  readonly text: string;
  /** Of SHARE_PARTS. */
  readonly parts: bigint;
}

export const SHARE_PARTS = 10_000n;

const SHARE_WANTED = 'a string of more than "0", and "1" at most, with at most four decimal places, as "0.8"';
const MEMBERS: Record<keyof ThresholdOptions, true> = { balanceBelow: true, budgetAt: true, topUp: true };
const TOP_UP_MEMBERS: Record<keyof TopUpOptions, true> = { below: true, run: true, retryMs: true };
const DEFAULT_RETRY_MS = 600_000;
const MAX_THRESHOLDS = 16;

/** @throws {TypeError} naming the invalid option */
export function resolveThresholds(options: ThresholdOptions = {}): Thresholds {
  assertObject(options, 'thresholds', MEMBERS);
  const { balanceBelow = [], budgetAt = [], topUp } = options;
  return {
    balanceBelow: ofAccount(balanceBelow, parseAmounts),
    budgetAt: Array.isArray(budgetAt) && budgetAt.length === 0 ? undefined : ofAccount(budgetAt, parseShares),
    topUp: topUp === undefined ? undefined : resolveTopUp(topUp),
  };
}

function ofAccount<Threshold>(
  given: ThresholdsOfAccount,
  parse: (list: readonly string[]) => readonly Threshold[],
): OfAccount<Threshold> {
  if (typeof given === 'function') return (account) => parse(given(account) ?? []);
  const list = parse(given);
  return () => list;
}

function parseAmounts(given: readonly string[]): NanoDollars[] {
  if (!Array.isArray(given) || given.length > MAX_THRESHOLDS) {
    throw optionError('thresholds.balanceBelow', `a list of at most ${MAX_THRESHOLDS} amounts`, given);
  }
  const amounts = given.map((each, n) => parseThreshold(each, `thresholds.balanceBelow[${n}]`));
  return [...new Set(amounts)].sort((one, other) => (one > other ? -1 : 1));
}

function parseShares(given: readonly string[]): Share[] {
  if (!Array.isArray(given) || given.length > MAX_THRESHOLDS) {
    throw optionError('thresholds.budgetAt', `a list of at most ${MAX_THRESHOLDS} shares`, given);
  }
  const shares = given.map((each, n) => parseShare(each, `thresholds.budgetAt[${n}]`));
  return [...new Map(shares.map((share) => [share.text, share])).values()].sort((one, other) =>
    one.parts > other.parts ? 1 : -1,
  );
}

function resolveTopUp(topUp: TopUpOptions): Thresholds['topUp'] {
  assertObject(topUp, 'thresholds.topUp', TOP_UP_MEMBERS);
  const { below, run, retryMs = DEFAULT_RETRY_MS } = topUp;
  if (typeof run !== 'function') throw optionError('thresholds.topUp.run', 'a function', run);
  return {
    below: parseThreshold(below, 'thresholds.topUp.below'),
    run,
    retryMs: milliseconds(retryMs, 'thresholds.topUp.retryMs'),
  };
}

function parseShare(text: unknown, option: string): Share {
  const isShare = typeof text === 'string' && /^(0\.\d{1,4}|1(\.0{1,4})?)$/.test(text);
  const parts = isShare ? BigInt(text.replace('.', '').padEnd(5, '0')) : 0n;
  if (!isShare || parts === 0n) throw optionError(option, SHARE_WANTED, text);
  return { text: String(Number(text)), parts };
}

function parseThreshold(text: string, option: string): NanoDollars {
  const amount = parseUsd(text, option);
  if (amount < 0n) throw new TypeError(`${option} must be 0 or more, got ${text}`);
  return amount;
}
