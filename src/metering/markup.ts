import { formatUsd, type NanoDollars, parseUsd } from '../ledger/contract/money.ts';
import { keyTypoError } from '../platform/did-you-mean.ts';
import { showValue } from '../platform/show-value.ts';

/** An addition to a price, as decimal strings. Of several markups, the factors multiply and the fees add. */
export interface Markup {
  /** `'1.2'` adds 20 %, `'0.9'` subtracts 10 %. */
  readonly factor?: string;
  /** USD for each charged request. */
  readonly fee?: string;
}

/** A Markup in integers: the factor is `numerator / denominator`, without a common factor 10. */
export interface MarkupTerms {
  readonly numerator: bigint;
  /** A power of ten. */
  readonly denominator: bigint;
  readonly fee: NanoDollars;
  /** Equal markups have equal names. */
  readonly name: string;
}

const MARKUP_KEYS: Record<keyof Markup, true> = { factor: true, fee: true };

const MAX_FACTOR = 1000n;
const MAX_FEE: NanoDollars = 1_000_000_000_000n;

/** The markup that changes nothing. */
export const NO_MARKUP: MarkupTerms = terms(1n, 1n, 0n);

/**
 * @param option - path of the option, for the message: `models["x"].markup`
 * @throws {TypeError} naming the invalid option
 */
export function parseMarkup(markup: Markup, option: string): MarkupTerms {
  if (typeof markup !== 'object' || markup === null || Array.isArray(markup)) {
    throw new TypeError(`${option} must be { factor?, fee? }, got ${showValue(markup)}`);
  }
  for (const key of Object.keys(markup)) {
    if (!Object.hasOwn(MARKUP_KEYS, key)) {
      throw keyTypoError(option, key, Object.keys(MARKUP_KEYS));
    }
  }
  const [numerator, denominator] =
    markup.factor === undefined ? [1n, 1n] : parseFactor(markup.factor, `${option}.factor`);
  const fee = markup.fee === undefined ? 0n : parseUsd(markup.fee, `${option}.fee`);
  if (fee < 0n || fee > MAX_FEE) {
    throw new TypeError(`${option}.fee must be from 0 to 1000 USD, got ${formatUsd(fee)}`);
  }
  return terms(numerator, denominator, fee);
}

/** Two markups as one. */
export function combineMarkups(one: MarkupTerms, other: MarkupTerms): MarkupTerms {
  if (one === NO_MARKUP) return other;
  if (other === NO_MARKUP) return one;
  return terms(one.numerator * other.numerator, one.denominator * other.denominator, one.fee + other.fee);
}

/**
 * @returns numerator and denominator
 * @throws {TypeError} naming the invalid factor
 */
export function parseFactor(given: unknown, option: string): [bigint, bigint] {
  const parts = typeof given === 'string' ? /^(\d{1,4})(?:\.(\d{1,6}))?$/.exec(given) : null;
  const [, whole = '0', decimals = ''] = parts ?? [];
  const numerator = BigInt(whole + decimals);
  const denominator = 10n ** BigInt(decimals.length);
  if (!parts || numerator === 0n || numerator > MAX_FACTOR * denominator) {
    throw new TypeError(
      `${option} must be a decimal string above 0 and up to ${MAX_FACTOR} with at most 6 decimals, such as "1.2", got ${showValue(given)}`,
    );
  }
  return [numerator, denominator];
}

function terms(numerator: bigint, denominator: bigint, fee: NanoDollars): MarkupTerms {
  let [over, under] = [numerator, denominator];
  while (under > 1n && over % 10n === 0n) [over, under] = [over / 10n, under / 10n];
  return { numerator: over, denominator: under, fee, name: `${over}/${under}+${fee}` };
}
