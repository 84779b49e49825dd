import { csvLine } from '../../platform/csv-line.ts';
import { table } from './table.ts';

/** Rows that a command prints: as a table, with `--json` as an object a line, with `--csv` as lines of CSV. */
export interface Listing<Row extends object> {
  /** Of the table and of CSV; a name is that of a member of the rows. */
  readonly columns: readonly (Column<Row> | (keyof Row & string))[];
  readonly rows: Iterable<Row> | AsyncIterable<Row>;
  /** Printed in place of a table without rows. */
  readonly none?: string;
  /** Cells of a last row of the table, if it has several. */
  readonly totals?: readonly string[];
  /** Printed with `--json` in place of the rows, which are parts of them. */
  readonly objects?: Iterable<object>;
}

export interface Column<Row> {
  /** In CSV, by the name in JSON; in capitals the head of a table. */
  readonly name: string;
  readonly value: (row: Row) => Cell;
  /** Head of the table, if it isn't the name. */
  readonly head?: string;
  /** In the table, if it isn't the value. */
  readonly shown?: (row: Row) => string;
  /** Not in the table. */
  readonly isOnlyCsv?: true;
}

type Cell = string | number | boolean | Date | readonly string[] | undefined;

export type RowFormat = 'table' | 'json' | 'csv';

/** Rows of a table that are aligned together: memory is bounded, whatever is listed. */
const PAGE = 1000;

/** The lines of a listing, as its rows come. */
export async function* listingLines<Row extends object>(
  listing: Listing<Row>,
  format: RowFormat,
): AsyncGenerator<string, void, undefined> {
  if (format === 'json') {
    for await (const row of listing.objects ?? listing.rows) yield JSON.stringify(row);
    return;
  }
  const columns = listing.columns.map((column) =>
    typeof column === 'object' ? column : member<Row>(column),
  );
  if (format === 'table')
    yield* tableLines(
      listing,
      columns.filter(({ isOnlyCsv }) => !isOnlyCsv),
    );
  else {
    yield csvLine(columns.map(({ name }) => name));
    for await (const row of listing.rows) yield csvLine(columns.map(({ value }) => csvCell(value(row))));
  }
}

async function* tableLines<Row extends object>(
  { rows, none, totals }: Listing<Row>,
  columns: readonly Column<Row>[],
): AsyncGenerator<string, void, undefined> {
  const heads = columns.map(({ name, head = headOf(name) }) => head);
  let page: string[][] = [];
  let count = 0;
  for await (const row of rows) {
    if (page.length === PAGE) {
      yield* table(heads, page).slice(count === PAGE ? 0 : 1);
      page = [];
    }
    count += 1;
    page.push(columns.map(({ value, shown }) => shown?.(row) ?? shownCell(value(row))));
  }
  if (count === 0 && none !== undefined) yield none;
  if (count > 1 && totals) page.push([...totals]);
  if (count > 0) yield* table(heads, page).slice(count <= PAGE ? 0 : 1);
}

function member<Row extends object>(name: keyof Row & string): Column<Row> {
  return { name, value: (row) => cellOf(row[name]) };
}

function cellOf(value: unknown): Cell {
  const isText = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
  if (isText || value === undefined || value instanceof Date) return value;
  return JSON.stringify(value);
}

/** `firstByteMs` and `first_byte_ms` as `FIRST BYTE MS`. */
function headOf(name: string): string {
  return name
    .replaceAll('_', ' ')
    .replace(/[A-Z]/g, (letter) => ` ${letter}`)
    .toUpperCase();
}

function csvCell(value: Cell): string {
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' ? value.join(', ') : String(value ?? '');
}

function shownCell(value: Cell): string {
  if (value instanceof Date) return `${value.toISOString().slice(0, 19)}Z`;
  return (typeof value === 'object' ? value.join(', ') : String(value ?? '')) || '–';
}
