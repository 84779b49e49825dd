import type { Row, SqlValue } from './sqlite-schema.ts';

/**
 * Reads columns, and believes none: a file may have been damaged, or written by others.
 *
 * Each throws an Error that names the column when it doesn't hold what it must.
 */

export function integer(row: Row, column: string): bigint {
  const value = row[column];
  return typeof value === 'bigint' ? value : columnError(column, 'an integer');
}

/** An integer that is no money: a time or a count. */
export function number(row: Row, column: string): number {
  return Number(integer(row, column));
}

export function text(row: Row, column: string): string {
  const value = row[column];
  return typeof value === 'string' ? value : columnError(column, 'text');
}

function columnError(column: string, wanted: string): never {
  throw new Error(`The ledger file is damaged: ${column} is not ${wanted}`);
}

/** How a value is kept: the names of its columns, what is written to each of them, and the value again. */
export interface Columns<T> {
  readonly names: readonly string[];
  /** Adds as many values as there are names, in their order. */
  readonly write: (value: T, to: SqlValue[]) => void;
  readonly read: (row: Row) => T;
}

/** The columns of each member of an object. */
export type Members<T> = { readonly [name in keyof T]-?: Columns<T[name]> };

/** What is written of a value. */
export function valuesOf<T>(columns: Columns<T>, value: T): SqlValue[] {
  const values: SqlValue[] = [];
  columns.write(value, values);
  return values;
}

export function integerIn(name: string): Columns<bigint> {
  return column(name, integer, (value) => value);
}

export function numberIn(name: string): Columns<number> {
  return column(name, number, (value) => value);
}

export function textIn(name: string): Columns<string> {
  return column(name, text, (value) => value);
}

export function booleanIn(name: string): Columns<boolean> {
  return column(
    name,
    (row) => integer(row, name) !== 0n,
    (value) => (value ? 1n : 0n),
  );
}

export function enumIn<T extends string>(name: string, words: readonly T[]): Columns<T> {
  return column(
    name,
    (row) => words.find((each) => each === row[name]) ?? columnError(name, `one of ${words.join(', ')}`),
    (value) => value,
  );
}

/** A time that may be never: Infinity. */
export function timeOrNeverIn(name: string): Columns<number> {
  return column(
    name,
    (row) => (row[name] === null ? Infinity : number(row, name)),
    (value) => (value === Infinity ? null : value),
  );
}

/** What may be undefined: then all of its columns are unset. */
export function optional<T>(
  columns: Columns<T>,
  presenceColumn: string = columns.names[0] ?? '',
): Columns<T | undefined> {
  const { names } = columns;
  return {
    names,
    write: (value, to) => {
      if (value === undefined) to.push(...names.map(() => null));
      else columns.write(value, to);
    },
    read: (row) => (row[presenceColumn] === null ? undefined : columns.read(row)),
  };
}

/** An object by its members; what is undefined isn't there. */
export function columnsOf<T extends object>(members: Members<T>): Columns<T> {
  const names: string[] = [];
  for (const name in members) names.push(...members[name].names);
  return {
    names,
    write: (value, to) => {
      for (const name in members) members[name].write(value[name], to);
    },
    read: (row) => {
      const value: Partial<T> = {};
      for (const name in members) {
        const member = members[name].read(row);
        if (member !== undefined) value[name] = member;
      }
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each member that isn't optional was read
      return value as T;
    },
  };
}

function column<T>(
  name: string,
  read: (row: Row, column: string) => T,
  written: (value: T) => SqlValue,
): Columns<T> {
  return {
    names: [name],
    write: (value, to) => void to.push(written(value)),
    read: (row) => read(row, name),
  };
}
