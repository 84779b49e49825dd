import { parseArgs } from 'node:util';

import { type Command, type CommandOption, UsageError } from './command.ts';
import { didYouMean } from './did-you-mean.ts';

/** Options of all commands that work on a store. */
const STORE_OPTIONS: Readonly<Record<string, CommandOption>> = {
  store: { value: 'URL', help: 'sqlite:FILE, redis://HOST and so on' },
  config: { value: 'FILE', help: 'the config of the app or server, which names the store' },
  json: { help: 'print JSON, an object a line' },
};

const COMMON_OPTIONS: Readonly<Record<string, CommandOption>> = {
  'env-file': { value: 'FILE', help: 'read variables of the environment from here; those that are set stay' },
  help: { help: 'say this' },
};

/** What a command takes: its own options first. */
export function optionsOf(command: Command): Readonly<Record<string, CommandOption>> {
  return { ...command.options, ...(command.store && STORE_OPTIONS), ...COMMON_OPTIONS };
}

export interface ParsedArguments {
  readonly options: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
}

/** @throws {UsageError} saying which argument can't be right */
export function parseArguments(command: Command, args: readonly string[]): ParsedArguments {
  const known = optionsOf(command);
  const options = Object.fromEntries(
    Object.entries(known).map(([name, { value }]) => [
      name,
      {
        type: value === undefined ? ('boolean' as const) : ('string' as const),
        ...(name === 'help' && { short: 'h' }),
      },
    ]),
  );
  // A negative amount is none of our options.
  const { tokens } = parseArgs({
    args: args.map((arg) => (/^-[\d.]/.test(arg) ? NEGATIVE + arg : arg)),
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const given: Record<string, string> = {};
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(plain(token.value));
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    const option = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!option) throw new UsageError(`Unknown option '${rawName}'${suggestion(rawName, known)}`);
    const wantsValue = option.value !== undefined;
    if (wantsValue && (value === undefined || (value.startsWith('-') && !token.inlineValue))) {
      throw new UsageError(`--${name} wants a value: --${name} ${option.value}`);
    }
    if (!wantsValue && value !== undefined) throw new UsageError(`--${name} takes no value`);
    given[name] = plain(value ?? '');
  }
  return { options: given, positionals };
}

function suggestion(rawName: string, known: Readonly<Record<string, CommandOption>>): string {
  const near = didYouMean(
    rawName,
    Object.keys(known).map((name) => `--${name}`),
  );
  return near === undefined ? '' : `; did you mean ${near}?`;
}

/** Stands before a negative number while options are read; no argument has it. */
const NEGATIVE = '\0';

function plain(value: string): string {
  return value.replace(NEGATIVE, '');
}
