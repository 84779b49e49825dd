import type { UsageRow } from './api.ts';

/** How the page reads and writes numbers, money, days and times. */
export interface Figures {
  /** A decimal string of dollars → nano-dollars, exactly; 0 where there is none. */
  nanos(decimal: string | undefined): bigint;
  /** Nano-dollars as people read them: cents, and more digits only where cents would say too little. */
  money(nanos: bigint): string;
  /** The same for the marks of an axis, all with as many digits as their distance has. */
  axisMoney(nanos: number, distance: number): string;
  count(value: number): string;
  /** `12.3M` */
  readonly short: (value: number) => string;
  /** A share of a whole; of nothing, `–`. */
  readonly percent: (part: number, whole: number) => string;
  duration(ms: number): string;
  /** `2026-11-04` → `Nov 4`; and with its weekday. */
  day(day: string): string;
  longDay(day: string): string;
  /** The last `length` days in UTC, today the last one. */
  days(length: number, now: number): string[];
  /** Round integers from 0 to at least `most`, evenly spaced. */
  ticks(most: number): number[];
  /** Sums of usage rows. */
  sum(rows: readonly UsageRow[]): Sums;
}

export interface Sums {
  readonly requests: number;
  readonly errors: number;
  readonly aborted: number;
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
  readonly charged: bigint;
  readonly cost: bigint;
  /** Charged for what has a known cost. */
  readonly costed: bigint;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createFigures(): Figures {
  const SCALE = 1_000_000_000n;
  const DAY_MS = 86_400_000;
  const plain = new Intl.NumberFormat('en-US');
  const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
  const cents = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const shortDay = new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', timeZone: 'UTC' });
  const weekday = new Intl.DateTimeFormat('en-US', {
    weekday: 'short',
    month: 'short',
    day: 'numeric',
    timeZone: 'UTC',
  });

  function money(nanos: bigint): string {
    const sign = nanos < 0n ? '−' : '';
    const dollars = Math.abs(Number(nanos)) / 1e9;
    if (dollars === 0) return '$0.00';
    const decimals = Math.min(9, Math.max(4, 1 - Math.floor(Math.log10(dollars))));
    return `${sign}$${dollars < 0.1 ? dollars.toFixed(decimals) : cents.format(dollars)}`;
  }

  function nanos(decimal = '0'): bigint {
    const [, sign, whole = '0', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(decimal) ?? [];
    const absolute = BigInt(whole) * SCALE + BigInt(fraction.padEnd(9, '0').slice(0, 9));
    return sign === '-' ? -absolute : absolute;
  }

  function sum(rows: readonly UsageRow[]): Sums {
    const sums = { requests: 0, errors: 0, aborted: 0, prompt: 0, cached: 0, completion: 0 };
    let [charged, cost, costed] = [0n, 0n, 0n];
    for (const row of rows) {
      sums.requests += row.requests;
      sums.errors += row.errors;
      sums.aborted += row.aborted;
      sums.prompt += row.prompt_tokens;
      sums.cached += row.cached_tokens;
      sums.completion += row.completion_tokens;
      const rowCharged = nanos(row.charged);
      const rowCost = nanos(row.cost);
      charged += rowCharged;
      cost += rowCost;
      if (rowCost > 0n) costed += rowCharged;
    }
    return { ...sums, charged, cost, costed };
  }

  return {
    nanos,
    money,
    sum,
    axisMoney(nanos, distance) {
      const dollars = nanos / 1e9;
      if (dollars >= 1000) return `$${compact.format(dollars)}`;
      if (distance % 1e9 === 0) return `$${dollars}`;
      const power = Math.floor(Math.log10(distance / 1e9));
      // Steps of 2.5 have a digit more.
      const digits = Number.isInteger(Number((distance / 10 ** (power + 9)).toPrecision(3))) ? 0 : 1;
      return `$${dollars.toFixed(Math.max(2, digits - power))}`;
    },
    count: (value) => plain.format(value),
    short: (value) => (value < 100_000 ? plain.format(value) : compact.format(value)),
    percent(part, whole) {
      if (whole === 0) return '–';
      const share = (part / whole) * 100;
      return share !== 0 && Math.abs(share) < 10 ? `${share.toFixed(1)}%` : `${Math.round(share)}%`;
    },
    duration(ms) {
      const seconds = Math.max(0, ms) / 1000;
      if (seconds < 1) return `${Math.round(ms)} ms`;
      if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
      const minutes = Math.floor(seconds / 60);
      if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
      return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
    },
    day: (day) => shortDay.format(Date.parse(day)),
    longDay: (day) => weekday.format(Date.parse(day)),
    days(length, now) {
      return Array.from({ length }, (_, i) =>
        new Date(now - (length - 1 - i) * DAY_MS).toISOString().slice(0, 10),
      );
    },
    ticks(most) {
      if (most <= 0) return [0];
      const rough = most / 5;
      const power = 10 ** Math.max(0, Math.floor(Math.log10(rough)));
      const steps = power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
      const step = (steps.find((times) => times * power >= rough) ?? 10) * power;
      const ticks = [0];
      while ((ticks.at(-1) ?? 0) < most) ticks.push(ticks.length * step);
      return ticks;
    },
  };
}
