const MAX_TIMER_MS = 2 ** 31 - 1;

/** @throws {TypeError} for a time after which a timer would never end, or end at once */
export function checkTimeout(timeoutMs: number): number {
  if (timeoutMs >= 1 && timeoutMs <= MAX_TIMER_MS) return timeoutMs;
  throw new TypeError(`timeoutMs must be from 1 to ${MAX_TIMER_MS}, got ${String(timeoutMs)}`);
}
