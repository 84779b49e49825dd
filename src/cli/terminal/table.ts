import { styleText } from 'node:util';

import { escapeControlCharacters } from './escape-control-characters.ts';

/** Cells that stand out on a terminal, whatever their table. */
const COLORS: Readonly<Record<string, 'red' | 'yellow'>> = {
  FAILED: 'red',
  LOSS: 'yellow',
  frozen: 'yellow',
  revoked: 'yellow',
  ejected: 'red',
  refused: 'red',
  degraded: 'yellow',
  rate_limited: 'yellow',
  unavailable: 'red',
};

/** Of cells that are cut: an ID of a request fits. */
const MIN_CUT_WIDTH = 20;
/** Of the last column, when it is broken into lines. */
const MIN_LAST_WIDTH = 24;

interface Column {
  width: number;
  readonly isNumber: boolean;
}

/**
 * Lines of a table with aligned columns; numbers are aligned to the right. Colors obey NO_COLOR and FORCE_COLOR.
 *
 * On a terminal that is too narrow, the last column of text is broken into lines, and then the widest others are cut.
 */
export function table(
  heads: readonly string[],
  cells: readonly (readonly string[])[],
  maxWidth: number = terminalWidth(),
): string[] {
  const rows = cells.map((row) => row.map(escapeControlCharacters));
  const columns = heads.map((head, n) => ({
    width: Math.max(...[head, ...rows.map((row) => row[n] ?? '')].map(({ length }) => length)),
    isNumber:
      rows.some((row) => /\d/.test(row[n] ?? '')) &&
      rows.every((row) => /^(-?\$?[\d.,]+( ?(ms|s))?|[-–]|)$/.test(row[n] ?? '')),
  }));
  narrow(columns, maxWidth);
  const line = (row: readonly string[], style: (cell: string) => string): string =>
    columns
      .map(({ width, isNumber }, n) => {
        const whole = row[n] ?? '';
        const cell = whole.length > width ? `${whole.slice(0, width - 1)}…` : whole;
        const blanks = ' '.repeat(width - cell.length);
        return isNumber ? blanks + style(cell) : style(cell) + blanks;
      })
      .join('  ')
      .trimEnd();
  return [
    line(heads, (head) => (head === '' ? '' : styleText('bold', head))),
    ...rows.flatMap((row) => brokenLast(row, columns.at(-1)?.width ?? 0).map((part) => line(part, colored))),
  ];
}

/** A terminal may not know its width, and says 0. */
function terminalWidth(): number {
  const { isTTY, columns } = process.stdout;
  return isTTY && columns > 0 ? columns : Infinity;
}

/** Makes columns of text narrower until the lines fit, as far as that goes. */
function narrow(columns: readonly Column[], maxWidth: number): void {
  let excess = columns.reduce((sum, { width }) => sum + width + 2, -2) - maxWidth;
  const last = columns.at(-1);
  if (excess <= 0 || !last) return;
  if (!last.isNumber) {
    const taken = Math.min(excess, Math.max(0, last.width - MIN_LAST_WIDTH));
    last.width -= taken;
    excess -= taken;
  }
  const others = columns.filter((column) => column !== last && !column.isNumber);
  for (; excess > 0; excess -= 1) {
    const widest = others.toSorted((one, other) => other.width - one.width)[0];
    if (!widest || widest.width <= MIN_CUT_WIDTH) return;
    widest.width -= 1;
  }
}

/** A row, as several if its last cell is too wide: broken at blanks, where it has some. */
function brokenLast(row: readonly string[], width: number): (readonly string[])[] {
  let rest = row.at(-1) ?? '';
  const parts: string[] = [];
  while (rest.length > width) {
    const blank = rest.lastIndexOf(' ', width);
    const end = blank > 0 ? blank : width;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  parts.push(rest);
  const others = row.slice(0, -1);
  return parts.map((part, n) => [...(n === 0 ? others : others.map(() => '')), part]);
}

function colored(cell: string): string {
  const color = Object.hasOwn(COLORS, cell) ? COLORS[cell] : undefined;
  return color === undefined ? cell : styleText(color, cell);
}
