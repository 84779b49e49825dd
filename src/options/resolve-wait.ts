import { assertObject, integerIn, milliseconds } from './option-checks.ts';
import type { WaitOptions } from './wait-options.ts';

export type WaitSettings = Required<WaitOptions>;

const DEFAULTS: WaitSettings = { upToMs: 5000, most: 200 };
const MAX_WAITING = 100_000;

/** @throws {TypeError} naming the invalid option */
export function resolveWait(given: WaitOptions | undefined, option: string): WaitSettings | undefined {
  if (given === undefined) return undefined;
  assertObject(given, option, { upToMs: true, most: true });
  const { upToMs, most } = { ...DEFAULTS, ...given };
  return {
    upToMs: milliseconds(upToMs, `${option}.upToMs`),
    most: integerIn(1, MAX_WAITING, most, `${option}.most`),
  };
}
