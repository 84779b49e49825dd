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
};

/** Lines of a table with aligned columns; numbers are aligned to the right. Colors obey NO_COLOR and FORCE_COLOR. */
export function table(heads: readonly string[], cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(escapeControlCharacters));
  const columns = heads.map((head, n) => ({
    width: Math.max(...[head, ...rows.map((row) => row[n] ?? '')].map(({ length }) => length)),
    isNumber: rows.every((row) => /^(-?\$?[\d.,]+( ?(ms|s))?|[-–]|)$/.test(row[n] ?? '')),
  }));
  const line = (row: readonly string[], style: (cell: string) => string): string =>
    columns
      .map(({ width, isNumber }, n) => {
        const cell = row[n] ?? '';
        const blanks = ' '.repeat(width - cell.length);
        return isNumber ? blanks + style(cell) : style(cell) + blanks;
      })
      .join('  ')
      .trimEnd();
  return [
    line(heads, (head) => (head === '' ? '' : styleText('bold', head))),
    ...rows.map((row) => line(row, colored)),
  ];
}

function colored(cell: string): string {
  const color = Object.hasOwn(COLORS, cell) ? COLORS[cell] : undefined;
  return color === undefined ? cell : styleText(color, cell);
}
