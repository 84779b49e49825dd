import { parseArgs } from 'node:util';

import { type Command, type CommandOption, UsageError } from './command.ts';
import { didYouMean } from '../../platform/did-you-mean.ts';

/** Options of all commands on a store. */
const STORE_OPTIONS: Readonly<Record<string, CommandOption>> = {
  store: { value: 'URL', help: 'the store, such as sqlite:FILE or redis://HOST' },
  config: { value: 'FILE', help: 'a config that names the store' },
  json: { help: 'print JSON, one object per line' },
};

const COMMON_OPTIONS: Readonly<Record<string, CommandOption>> = {
  'env-file': { value: 'FILE', help: 'load environment variables from a file; those already set win' },
  help: { help: 'show help' },
};

/** All options of a command, its own ones first. */
export function optionsOf(command: Command): Readonly<Record<string, CommandOption>> {
  return { ...command.options, ...(command.store && STORE_OPTIONS), ...COMMON_OPTIONS };
}

export interface ParsedArguments {
  readonly options: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
}

/** @throws {UsageError} naming the invalid argument */
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
  // A negative amount is an argument, not an option.
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
    if (!option) throw new UsageError(`unknown option ${rawName}${suggestion(rawName, known)}`);
    const wantsValue = option.value !== undefined;
    if (wantsValue && (value === undefined || (value.startsWith('-') && !token.inlineValue))) {
      throw new UsageError(`--${name} requires a value: --${name} ${option.value}`);
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

/** Prefixes a negative number while options are parsed; no argument can contain it. */
const NEGATIVE = '\0';

function plain(value: string): string {
  return value.replace(NEGATIVE, '');
}
