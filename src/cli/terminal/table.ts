import { escapeControlCharacters } from './escape-control-characters.ts';

/** Lines of a table with aligned columns; numbers are aligned to the right. */
export function table(heads: readonly string[], cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(escapeControlCharacters));
  const columns = heads.map((head, n) => ({
    width: Math.max(...[head, ...rows.map((row) => row[n] ?? '')].map(({ length }) => length)),
    isNumber: rows.every((row) => /^(-?[\d.,]+( ?(ms|s))?|-|)$/.test(row[n] ?? '')),
  }));
  return [heads, ...rows].map((row) =>
    columns
      .map(({ width, isNumber }, n) =>
        isNumber ? (row[n] ?? '').padStart(width) : (row[n] ?? '').padEnd(width),
      )
      .join('  ')
      .trimEnd(),
  );
}
