/**
 * Money is an integer number of nano-dollars (1e-9 USD) inside, and a decimal
 * string for people and clients. It is never a float.
 */
export type NanoDollars = bigint;

/** The largest amount or balance: 2^53 - 1 nano-dollars, about 9 million USD. */
export const MAX_AMOUNT: NanoDollars = 2n ** 53n - 1n;

const NANO_PER_USD = 1_000_000_000n;

const DECIMAL = /^(-?)(\d{1,15})(?:\.(\d{1,9}))?$/;

/**
 * Reads a decimal string of USD.
 *
 * @param what - names the amount in the message, as `grant amount`
 * @throws {TypeError} when it isn't a decimal string with at most nine decimals, or is beyond MAX_AMOUNT
 */
export function parseUsd(text: string, what: string): NanoDollars {
  const parts = typeof text === 'string' ? DECIMAL.exec(text) : null;
  if (!parts) {
    throw new TypeError(
      `${what} must be a decimal string of USD with at most 9 decimals, as "25.00", got ${typeof text === 'string' ? JSON.stringify(text) : String(text)}`,
    );
  }
  const [, sign, whole = '0', decimals = ''] = parts;
  const amount = BigInt(whole) * NANO_PER_USD + BigInt(decimals.padEnd(9, '0'));
  if (amount > MAX_AMOUNT)
    throw new TypeError(`${what} must be at most ${formatUsd(MAX_AMOUNT)}, got ${text}`);
  return sign === '-' ? -amount : amount;
}

/** Writes USD exactly, with 2 to 9 decimals: `25.00`, `0.000000125`. */
export function formatUsd(amount: NanoDollars): string {
  if (amount === 0n) return '0.00';
  const positive = amount < 0n ? -amount : amount;
  // A 1 and nine digits: without the 1, zeros would have to be added.
  const digits = String(NANO_PER_USD + (positive % NANO_PER_USD));
  let end = digits.length;
  while (end > 3 && digits.endsWith('0', end)) end--;
  return `${amount < 0n ? '-' : ''}${positive / NANO_PER_USD}.${digits.slice(1, end)}`;
}

export function smaller(a: NanoDollars, b: NanoDollars): NanoDollars {
  return a < b ? a : b;
}

export function larger(a: NanoDollars, b: NanoDollars): NanoDollars {
  return a > b ? a : b;
}
