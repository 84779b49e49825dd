const DECIMAL = /^(\d+)(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i;

/**
 * Multiplies a decimal by 10 to the power of `places`, and rounds it up to at most `decimals` decimals.
 *
 * `('0.00000015', 6, 6)` is "0.15", `('5', -3, 9)` "0.005".
 *
 * @returns undefined unless `text` is a decimal of 0 or more
 */
export function shiftDecimal(text: string, places: number, decimals: number): string | undefined {
  const scaled = scaledDecimal(text, places + decimals);
  if (scaled === undefined) return undefined;
  const padded = scaled.toString().padStart(decimals + 1, '0');
  return withoutLastZeros(`${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`);
}

/**
 * Multiplies a decimal by 10 to the power of `power`, and rounds it up to an integer. `('1.5e-7', 9)` is 150.
 *
 * @returns undefined unless `text` is a decimal of 0 or more
 */
export function scaledDecimal(text: string, power: number): bigint | undefined {
  const parts = text.length <= 64 ? DECIMAL.exec(text) : null;
  if (!parts) return undefined;
  const [, whole = '0', part = '', exponent = '0'] = parts;
  const shift = Number(exponent) - part.length + power;
  const digits = BigInt(whole + part);
  return shift >= 0 ? digits * 10n ** BigInt(shift) : ceilDivide(digits, 10n ** BigInt(-shift));
}

/** Removes trailing zeros from a decimal with a point. */
export function withoutLastZeros(decimal: string): string {
  return decimal.replace(/\.0+$|(?<![.0])0+$/, '');
}

function ceilDivide(number: bigint, divisor: bigint): bigint {
  return (number + divisor - 1n) / divisor;
}
