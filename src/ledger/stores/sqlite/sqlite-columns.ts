import type { Row, SqlValue } from './sqlite-schema.ts';

/**
 * Readers of columns that check each value: a file may be damaged, or written by another program.
 *
 * Each throws an Error that names the column when its value is invalid.
 */

export function integer(row: Row, column: string): bigint {
  const value = row[column];
  return typeof value === 'bigint' ? value : columnError(column, 'an integer');
}

/** An integer other than money: a time or a count. */
export function number(row: Row, column: string): number {
  return Number(integer(row, column));
}

export function text(row: Row, column: string): string {
  const value = row[column];
  return typeof value === 'string' ? value : columnError(column, 'text');
}

/** A position that a column can hold: those beyond it are of no line. */
export function within64Bits(seq: bigint): bigint {
  return seq < MAX_INT64 ? seq : MAX_INT64;
}

const MAX_INT64 = 2n ** 63n - 1n;

function columnError(column: string, wanted: string): never {
  throw new Error(`The ledger file is damaged: ${column} is not ${wanted}`);
}

/** The mapping of a value to columns: their names, and how it is written to and read from them. */
export interface Columns<T> {
  readonly names: readonly string[];
  /** Appends one value per name, in the same order. */
  readonly write: (value: T, to: SqlValue[]) => void;
  readonly read: (row: Row) => T;
}

/** The columns of each member of an object. */
export type Members<T> = { readonly [name in keyof T]-?: Columns<T[name]> };

/** The column values of a value. */
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

/** A value that is written as another one. */
export function mappedIn<Stored, T>(
  { names, write, read }: Columns<Stored>,
  parse: (stored: Stored) => T,
  format: (value: T) => Stored,
): Columns<T> {
  return {
    names,
    write: (value, to) => write(format(value), to),
    read: (row) => parse(read(row)),
  };
}

/** A time; NULL stands for never (Infinity). */
export function timeOrNeverIn(name: string): Columns<number> {
  return column(
    name,
    (row) => (row[name] === null ? Infinity : number(row, name)),
    (value) => (value === Infinity ? null : value),
  );
}

/** A value that may be undefined: then all of its columns are NULL. */
export function optional<T>(
  columns: Columns<T>,
  presenceColumn: string = columns.names[0] ?? '',
): Columns<T | undefined> {
  const { names } = columns;
  return {
    names,
    write: (value, to) => {
      if (value !== undefined) columns.write(value, to);
      else for (let n = 0; n < names.length; n++) to.push(null);
    },
    read: (row) => (row[presenceColumn] === null ? undefined : columns.read(row)),
  };
}

/** An object, member by member; undefined members are omitted. */
export function columnsOf<T extends object>(members: Members<T>): Columns<T> {
  const names: string[] = [];
  const keys: (keyof T)[] = [];
  for (const name in members) {
    names.push(...members[name].names);
    keys.push(name);
  }
  return {
    names,
    write: (value, to) => {
      for (const name of keys) members[name].write(value[name], to);
    },
    read: (row) => {
      const value: Partial<T> = {};
      for (const name of keys) {
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
