// States of a number, in the grammar of RFC 8259.
export const BEGIN = 0;
const MINUS = 1;
const ZERO = 2;
const INTEGER = 3;
const POINT = 4;
const FRACTION = 5;
const E = 6;
const E_SIGN = 7;
const EXPONENT = 8;
/** The byte isn't part of the number. */
export const OVER = 9;

/** Whether a number may end here. */
export function mayEnd(state: number): boolean {
  return state === ZERO || state === INTEGER || state === FRACTION || state === EXPONENT;
}

/** The state after one more byte. */
export function nextInNumber(state: number, byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) {
    if (state === BEGIN || state === MINUS) return byte === 0x30 ? ZERO : INTEGER;
    if (state === POINT) return FRACTION;
    if (state === E || state === E_SIGN) return EXPONENT;
    return state === ZERO ? OVER : state;
  }
  switch (byte) {
    case 0x2e: // .
      return state === ZERO || state === INTEGER ? POINT : OVER;
    case 0x65: // e
    case 0x45:
      return state === ZERO || state === INTEGER || state === FRACTION ? E : OVER;
    case 0x2d: // -
      return state === BEGIN ? MINUS : state === E ? E_SIGN : OVER;
    case 0x2b: // +
      return state === E ? E_SIGN : OVER;
    default:
      return OVER;
  }
}
