// Where a number is, in the grammar of RFC 8259.
export const BEGIN = 0;
const MINUS = 1;
const ZERO = 2;
const INTEGER = 3;
const POINT = 4;
const FRACTION = 5;
const E = 6;
const E_SIGN = 7;
const EXPONENT = 8;
/** The byte does not belong to the number. */
export const OVER = 9;

/** Whether a number may end here. */
export function mayEnd(place: number): boolean {
  return place === ZERO || place === INTEGER || place === FRACTION || place === EXPONENT;
}

/** Where a number is after one more byte. */
export function nextInNumber(place: number, byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) {
    if (place === BEGIN || place === MINUS) return byte === 0x30 ? ZERO : INTEGER;
    if (place === POINT) return FRACTION;
    if (place === E || place === E_SIGN) return EXPONENT;
    return place === ZERO ? OVER : place;
  }
  switch (byte) {
    case 0x2e: // .
      return place === ZERO || place === INTEGER ? POINT : OVER;
    case 0x65: // e
    case 0x45:
      return place === ZERO || place === INTEGER || place === FRACTION ? E : OVER;
    case 0x2d: // -
      return place === BEGIN ? MINUS : place === E ? E_SIGN : OVER;
    case 0x2b: // +
      return place === E ? E_SIGN : OVER;
    default:
      return OVER;
  }
}
