import type { Budget } from '../client/admin-api.generated.ts';

const DAY_MS = 86_400_000;
const NANOS = 1_000_000_000n;

const plain = new Intl.NumberFormat('en-US');
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
const cents = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const day = { month: 'short', day: 'numeric', timeZone: 'UTC' } as const;
const dayFormat = new Intl.DateTimeFormat('en-US', day);
const momentFormat = new Intl.DateTimeFormat('en-US', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const dateFormat = new Intl.DateTimeFormat('en-US', {
  dateStyle: 'medium',
  timeStyle: 'short',
  hourCycle: 'h23',
});
const weekdayFormat = new Intl.DateTimeFormat('en-US', { weekday: 'short', ...day });

/** A decimal string of dollars → nano-dollars, exactly; 0 without one. */
export function nanos(decimal = '0'): bigint {
  const [, sign, whole = '0', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(decimal) ?? [];
  const absolute = BigInt(whole) * NANOS + BigInt(fraction.padEnd(9, '0').slice(0, 9));
  return sign === '-' ? -absolute : absolute;
}

/** Nano-dollars as text: two decimals, and more only below 10 cents. */
export function money(nanos: bigint): string {
  const sign = nanos < 0n ? '−' : '';
  const dollars = Math.abs(Number(nanos)) / 1e9;
  if (dollars === 0) return '$0.00';
  const decimals = Math.min(9, Math.max(4, 1 - Math.floor(Math.log10(dollars))));
  return `${sign}$${dollars < 0.1 ? dollars.toFixed(decimals) : cents.format(dollars)}`;
}

/** Nano-dollars as a label of an axis, with as many decimals as the distance between labels needs. */
export function axisMoney(nanos: number, distance: number): string {
  const dollars = nanos / 1e9;
  if (dollars >= 1000) return `$${compact.format(dollars)}`;
  if (distance % 1e9 === 0) return `$${dollars}`;
  const power = Math.floor(Math.log10(distance / 1e9));
  // Steps of 2.5 have a digit more.
  const digits = Number.isInteger(Number((distance / 10 ** (power + 9)).toPrecision(3))) ? 0 : 1;
  return `$${dollars.toFixed(Math.max(2, digits - power))}`;
}

/** `12,345` */
export function grouped(value: number): string {
  return plain.format(value);
}

/** `1 request`, `2 requests` */
export function plural(value: number, noun: string, written = grouped(value)): string {
  return `${written} ${noun}${value === 1 ? '' : 's'}`;
}

/** `12.3M` */
export function short(value: number): string {
  return value < 100_000 ? plain.format(value) : compact.format(value);
}

/** `12%`, `1.2%`; `–` if the whole is 0. */
export function percent(part: number | bigint, whole: number | bigint): string {
  if (Number(whole) === 0) return '–';
  const share = (Number(part) / Number(whole)) * 100;
  return share !== 0 && Math.abs(share) < 10 ? `${share.toFixed(1)}%` : `${Math.round(share)}%`;
}

export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(ms)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `a month`, `an hour`, `in all` */
export function periodText(per: Budget['per']): string {
  if (per === 'lifetime') return 'in all';
  return per === 'hour' ? 'an hour' : `a ${per}`;
}

/** An ISO time as the browser's date and time: `Nov 23, 13:15:39`. */
export function moment(at: string): string {
  return momentFormat.format(Date.parse(at));
}

/** An ISO time as the browser's date, with its year: `Nov 23, 2026, 13:15`. */
export function date(at: string): string {
  return dateFormat.format(Date.parse(at));
}

/** The date; `–` where there is none. */
export function dateOrDash(at: string | undefined): string {
  return at === undefined ? '–' : date(at);
}

export function clock(at: number): string {
  return new Date(at).toLocaleTimeString('en-GB');
}

/** `2026-11-04` → `Nov 4` */
export function shortDay(day: string): string {
  return dayFormat.format(Date.parse(day));
}

/** `2026-11-04` → `Wed, Nov 4` */
export function longDay(day: string): string {
  return weekdayFormat.format(Date.parse(day));
}

/** The last `length` days in UTC, today the last one. */
export function lastDays(length: number, now: number): string[] {
  return Array.from({ length }, (_, i) =>
    new Date(now - (length - 1 - i) * DAY_MS).toISOString().slice(0, 10),
  );
}
