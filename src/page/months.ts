const format = new Intl.DateTimeFormat('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** `2026-11`, in UTC. */
export function thisMonth(): string {
  return new Date().toISOString().slice(0, 7);
}

/** The month that is `count` months after another; before it, if negative. */
export function monthAfter(month: string, count: number): string {
  const [year = 0, number = 1] = month.split('-').map(Number);
  return new Date(Date.UTC(year, number - 1 + count)).toISOString().slice(0, 7);
}

/** `2026-11` → `November 2026` */
export function nameOfMonth(month: string): string {
  return format.format(Date.parse(`${month}-01`));
}
