import { type NanoDollars, parseUsd } from '../ledger/contract/money.ts';
import { assertObject, milliseconds, optionError } from './resolve-options.ts';

import type { ThresholdOptions, TopUpOptions } from './threshold-options.ts';

/** Amounts are in nano-dollars. */
export interface Thresholds {
  /** The largest first. */
  readonly balanceBelow: readonly NanoDollars[];
  readonly topUp: (Required<Omit<TopUpOptions, 'below'>> & { readonly below: NanoDollars }) | undefined;
}

const MEMBERS: Record<keyof ThresholdOptions, true> = { balanceBelow: true, topUp: true };
const TOP_UP_MEMBERS: Record<keyof TopUpOptions, true> = { below: true, run: true, retryMs: true };
const DEFAULT_RETRY_MS = 600_000;
const MAX_THRESHOLDS = 16;

/** @throws {TypeError} naming the invalid option */
export function resolveThresholds(options: ThresholdOptions = {}): Thresholds {
  assertObject(options, 'thresholds', MEMBERS);
  const { balanceBelow = [], topUp } = options;
  if (!Array.isArray(balanceBelow) || balanceBelow.length > MAX_THRESHOLDS) {
    throw optionError('thresholds.balanceBelow', `a list of at most ${MAX_THRESHOLDS} amounts`, balanceBelow);
  }
  const amounts = balanceBelow.map((each, n) => parseThreshold(each, `thresholds.balanceBelow[${n}]`));
  return {
    balanceBelow: [...new Set(amounts)].sort((one, other) => (one > other ? -1 : 1)),
    topUp: topUp === undefined ? undefined : resolveTopUp(topUp),
  };
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

function parseThreshold(text: string, option: string): NanoDollars {
  const amount = parseUsd(text, option);
  if (amount < 0n) throw new TypeError(`${option} must be 0 or more, got ${text}`);
  return amount;
}
