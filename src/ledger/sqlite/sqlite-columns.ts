import type { Row } from './sqlite-schema.ts';

/**
 * Reads columns, and believes none: a file may have been damaged, or written by others.
 *
 * Each throws an Error that names the column when it doesn't hold what it must.
 */

export function integer(row: Row, column: string): bigint {
  const value = row[column];
  return typeof value === 'bigint' ? value : wrong(column, 'an integer');
}

/** An integer that is no money: a time or a count. */
export function number(row: Row, column: string): number {
  return Number(integer(row, column));
}

export function text(row: Row, column: string): string {
  const value = row[column];
  return typeof value === 'string' ? value : wrong(column, 'text');
}

export function oneOf<T extends string>(row: Row, column: string, values: readonly T[]): T {
  const value = row[column];
  return values.find((each) => each === value) ?? wrong(column, `one of ${values.join(', ')}`);
}

/** What `read` reads, or undefined where the column is unset. */
export function unless<T>(row: Row, column: string, read: (row: Row, column: string) => T): T | undefined {
  return row[column] === null ? undefined : read(row, column);
}

function wrong(column: string, wanted: string): never {
  throw new Error(`The ledger file is damaged: ${column} is not ${wanted}`);
}
