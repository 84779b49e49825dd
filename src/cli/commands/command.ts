import type { AdminClient } from '../../client/admin-api.generated.ts';
import type { LedgerStore } from '../../ledger/contract/ledger-store.ts';
import { isDay, isTime } from '../../ledger/contract/usage.ts';
import type { Column, Listing } from '../terminal/listing.ts';

/** A command of the CLI, listed in `main.ts`. */
export type Command = StoreCommand | GatewayCommand | PlainCommand;

/** Help and argument syntax of a command. */
export interface CommandText {
  /** One or two words, e.g. `credits grant`. */
  readonly name: string;
  readonly summary: string;
  /** Positional arguments, e.g. `ACCOUNT [POSITION]`. */
  readonly positionals: string;
  /** Besides the options that all commands of its kind take. */
  readonly options: Readonly<Record<string, CommandOption>>;
  /** Values of a positional argument that has few, by its name: `{ SHELL: ['bash', 'zsh'] }`. */
  readonly choices?: Readonly<Record<string, readonly string[]>>;
  /** It prints rows, with `list`: then it takes `--json` and `--csv`. */
  readonly printsRows?: true;
  /** Command lines for the help, without the program's name. */
  readonly examples: readonly string[];
}

export interface CommandOption {
  /** Placeholder of its value in the help, e.g. `DATE`; undefined if the option takes no value. */
  readonly value?: string;
  readonly help: string;
  readonly isRequired?: true;
  /** All values that it accepts; undefined if there are too many to list. */
  readonly choices?: readonly string[];
  /** Accepted besides `choices`. */
  readonly pattern?: RegExp;
  /** Takes several of `choices`, separated by commas. */
  readonly isList?: true;
  /** Another name that is accepted for it, and not documented. */
  readonly alias?: string;
}

/** A command on a store, which `main` finds and opens. */
export interface StoreCommand extends CommandText {
  readonly asksGateway?: never;
  /** `may-be-new`: creates the file of a store that a config names; otherwise the file must exist. */
  readonly store: 'exists' | 'may-be-new';
  /** Resolves to whether it succeeded: if not, the exit code is 1. */
  run(invocation: StoreInvocation): Promise<boolean>;
}

/** A command that asks a running gateway through its admin API. */
export interface GatewayCommand extends CommandText {
  readonly store?: never;
  readonly asksGateway: true;
  run(invocation: GatewayInvocation): Promise<boolean>;
}

/** A command without a store. */
export interface PlainCommand extends CommandText {
  readonly store?: never;
  readonly asksGateway?: never;
  run(invocation: Invocation): Promise<boolean>;
}

export interface Invocation {
  readonly positionals: readonly string[];
  /** Values of the given options; the empty string for an option without a value. */
  readonly options: Readonly<Record<string, string | undefined>>;
  /** Prints a line: the text, or with `--json` the object. */
  readonly print: (text: string, object: object) => void;
  /** Prints rows as they come, with back-pressure: a table, or what `--json` or `--csv` asks for. */
  readonly list: <Row extends object>(listing: Listing<Row>) => Promise<void>;
  /** Prints a line for people only: on stderr, and not with `--json`. */
  readonly note: (text: string) => void;
  /** Prints a line that the reader of the results needs: on stderr, also with `--json`. */
  readonly remark: (text: string) => void;
  /** Shows the progress of long work on a terminal. */
  readonly progress: (text: string) => void;
}

export interface StoreInvocation extends Invocation {
  /** Closed after the command. */
  readonly store: LedgerStore;
  /** Opens another store, which may be new; closed after the command. */
  readonly open: (url: string) => LedgerStore;
}

export interface GatewayInvocation extends Invocation {
  readonly gateway: AdminClient;
}

/** Invalid command line: the exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** A line below the message: where to find help, or the usage line. */
  readonly hint: string | undefined;

  constructor(message: string, hint?: string) {
    super(message);
    this.hint = hint;
  }
}

/** What the command was asked for isn't there: the exit code is 1. */
export class NotFoundError extends Error {
  override readonly name = 'NotFoundError';
  /** Printed with `--json`. */
  readonly facts: object;

  constructor(message: string, facts: object) {
    super(message);
    this.facts = facts;
  }
}

/** @throws {NotFoundError} if the store has no such account, and no journal of it */
export async function requireAccount(store: LedgerStore, account: string): Promise<void> {
  if ((await store.balance(account)) || (await store.journal(account, 0n, 1)).length > 0) return;
  throw new NotFoundError(`there is no account ${account}`, { account, error: 'no_account' });
}

/** The value of an option that is required, so that it was given. */
export function required({ options }: Invocation, name: string): string {
  return options[name] ?? '';
}

/** An amount in USD for people: `-1.00` as `-$1.00`. */
export function usd(amount: string): string {
  return amount.startsWith('-') ? `-$${amount.slice(1)}` : `$${amount}`;
}

/** What the line of a change ends with: that it was made before, and what to do where it isn't safe yet. */
export function changeNotes(
  { duplicate = false, durable }: { readonly duplicate?: boolean; readonly durable?: boolean },
  advice = 'repeat the command',
): string {
  const unsafe = durable === false ? ` (NOT on the configured number of replicas: ${advice})` : '';
  return `${duplicate ? ' (already applied)' : ''}${unsafe}`;
}

/** A column with an amount in USD, which has its sign in a table. */
export function amountColumn<Row extends object>(name: keyof Row & string, isOnlyCsv = false): Column<Row> {
  const value = (row: Row): string => {
    const amount = row[name];
    return typeof amount === 'string' ? amount : '';
  };
  return {
    name,
    value,
    shown: (row) => (value(row) === '' ? '–' : usd(value(row))),
    ...(isOnlyCsv && { isOnlyCsv: true }),
  };
}

/** `1 account`, `2 accounts`, `2 entries` */
export function plural(number: number, thing: string): string {
  return `${number} ${number === 1 ? thing : `${thing}s`.replace(/([^aeiou])ys$/, '$1ies')}`;
}

/** Parses a count. @throws {UsageError} if it isn't a whole number */
export function wholeNumber(text: string, what: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new UsageError(`${what} must be a whole number, got ${JSON.stringify(text)}`);
  return Number(text);
}

/** Parses a limit. @throws {UsageError} if it isn't a whole number, or 0 */
export function positiveNumber(text: string, what: string): number {
  const number = wholeNumber(text, what);
  if (number === 0) throw new UsageError(`${what} must be 1 or more, got 0`);
  return number;
}

/** Parses a port. @throws {UsageError} if it isn't one */
export function portNumber(text: string, what: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : Infinity;
  if (number <= 65_535) return number;
  throw new UsageError(`${what} must be a port from 0 to 65535, got ${JSON.stringify(text)}`);
}

/** Parses a day, in UTC, or a time with its zone. @throws {UsageError} if it is neither */
export function date(text: string, what: string): Date {
  if (isDay(text) || isTime(text)) return new Date(text);
  throw new UsageError(
    `${what} must be a day such as 2027-01-31, in UTC, or a time with Z or an offset such as 2027-01-31T00:00Z, got ${JSON.stringify(text)}`,
  );
}
