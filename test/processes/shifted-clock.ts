/** Wall clocks of this process can be set: imported before all that reads them. */
const RealDate = Date;
let offsetMs = 0;

class ShiftedDate extends RealDate {
  constructor(...given: readonly unknown[]) {
    super(...((given.length === 0 ? [ShiftedDate.now()] : given) as [number]));
  }

  static override now(): number {
    return RealDate.now() + offsetMs;
  }
}

globalThis.Date = ShiftedDate as DateConstructor;

/** From now on the clock is so far ahead of the real one, or behind it. */
export function setClockOffset(ms: number): void {
  offsetMs = ms;
}
