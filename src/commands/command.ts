import type { LedgerStore } from '../ledger/ledger.ts';

/** A command of the CLI: a file of its own, and a line in cli.ts. */
export interface Command {
  /** One word or two, e.g. `credits grant`. */
  readonly name: string;
  readonly summary: string;
  /** What follows the name, options aside, e.g. `ACCOUNT [POSITION]`: this many are taken. */
  readonly positionals: string;
  /** Beside `--store`, `--json` and `--help`; each takes a value. */
  readonly options: Readonly<Record<string, CommandOption>>;
  /** Says whether all is well: if not, the exit code is 1. */
  run(invocation: Invocation): Promise<boolean>;
}

interface CommandOption {
  /** Stands for its value in the help, e.g. `DATE`. */
  readonly value: string;
  readonly help: string;
}

export interface Invocation {
  readonly positionals: readonly string[];
  readonly options: Readonly<Record<string, string | undefined>>;
  /** Opened by the first command on it, and closed afterwards. */
  readonly store: LedgerStore;
  /** Prints a line: the text, or the object as JSON where that is asked for. */
  readonly print: (text: string, object: object) => void;
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
export function counted(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}

/** A count, from its digits. @throws {UsageError} when it isn't one */
export function count(text: string, what: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError(`${what} must be a whole number, got ${JSON.stringify(text)}`);
  return Number(text);
}
