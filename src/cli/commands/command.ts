import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';

/** A command of the CLI: a file of its own, and a line in cli.ts. */
export type Command = StoreCommand | PlainCommand;

/** What the help tells of a command, and what its arguments are judged by. */
export interface CommandText {
  /** One word or two, e.g. `credits grant`. */
  readonly name: string;
  readonly summary: string;
  /** What follows the name, options aside, e.g. `ACCOUNT [POSITION]`: this many are taken. */
  readonly positionals: string;
  /** Beside those that all commands of its kind take. */
  readonly options: Readonly<Record<string, CommandOption>>;
}

export interface CommandOption {
  /** Stands for its value in the help, e.g. `DATE`; an option without takes none. */
  readonly value?: string;
  readonly help: string;
}

/** Works on a store, which the command line finds and opens. */
export interface StoreCommand extends CommandText {
  /** `may be new`: it can be the first on a store that a config names; of other stores a file must be there. */
  readonly store: 'exists' | 'may be new';
  /** Says whether all is well: if not, the exit code is 1. */
  run(invocation: StoreInvocation): Promise<boolean>;
}

/** Opens no store by itself. */
export interface PlainCommand extends CommandText {
  readonly store?: never;
  run(invocation: Invocation): Promise<boolean>;
}

export interface Invocation {
  readonly positionals: readonly string[];
  /** Values of those that were given; of one that takes none, the empty string. */
  readonly options: Readonly<Record<string, string | undefined>>;
  /** Prints a line: the text, or the object as JSON where that is asked for. */
  readonly print: (text: string, object: object) => void;
  /** Says how far long work is, to whoever sits before a terminal. */
  readonly progress: (text: string) => void;
}

export interface StoreInvocation extends Invocation {
  /** Opened by the first command on it, and closed afterwards. */
  readonly store: LedgerStore;
  /** Writes as it comes, no faster than it is read. */
  readonly write: (lines: AsyncIterable<string>) => Promise<void>;
  /** Opens another store, which may be new; closed afterwards. */
  readonly open: (url: string) => LedgerStore;
}

/** The command was not called as it has to be; the message says how. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The option's value. @throws {UsageError} when it isn't given */
export function required({ options }: Invocation, name: string): string {
  const value = options[name];
  if (value === undefined) throw new UsageError(`--${name} is required`);
  return value;
}

/** A number of things: `1 account`, `2 accounts`. */
export function plural(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}

/** A count, from its digits. @throws {UsageError} when it isn't one */
export function count(text: string, what: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError(`${what} must be a whole number, got ${JSON.stringify(text)}`);
  return Number(text);
}

/** A moment, which begins with its day. @throws {UsageError} when it isn't one */
export function date(text: string, what: string): Date {
  const parsed = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(parsed.getTime())) {
    throw new UsageError(`${what} must be a date as 2027-01-31T00:00Z, got ${JSON.stringify(text)}`);
  }
  return parsed;
}
