import { parseArgs } from 'node:util';

import { type Command, type CommandOption, UsageError } from './command.ts';
import { didYouMean, notOneOf } from '../../platform/did-you-mean.ts';

/** Options of all commands on a store. */
const STORE_OPTIONS: Readonly<Record<string, CommandOption>> = {
  store: { value: 'URL', help: 'the store, such as sqlite:FILE or redis://HOST' },
  config: { value: 'FILE', help: 'a config that names the store' },
};

/** That of `serve --admin` on this machine. */
export const DEFAULT_GATEWAY_URL = 'http://127.0.0.1:8787/admin';

/** Options of all commands that ask a running gateway. */
const GATEWAY_OPTIONS: Readonly<Record<string, CommandOption>> = {
  url: {
    value: 'URL',
    help: `the admin API of a running gateway; default: ${DEFAULT_GATEWAY_URL}. Its token is ADMIN_TOKEN in the environment`,
  },
};

/** What a command prints is for a program to read. */
const JSON_OPTION: Readonly<Record<string, CommandOption>> = {
  json: { help: 'print JSON, one object per line' },
};

const CSV_OPTION: Readonly<Record<string, CommandOption>> = {
  csv: { help: 'print CSV, for spreadsheets' },
};

const COMMON_OPTIONS: Readonly<Record<string, CommandOption>> = {
  'env-file': { value: 'FILE', help: 'load environment variables from a file; those already set win' },
  help: { help: 'show help' },
};

/** All options of a command, its own ones first. */
export function optionsOf(command: Command): Readonly<Record<string, CommandOption>> {
  const { options, printsRows, store, asksGateway } = command;
  return {
    ...options,
    ...(printsRows && CSV_OPTION),
    ...((printsRows ?? store ?? asksGateway) && JSON_OPTION),
    ...(store && STORE_OPTIONS),
    ...(asksGateway && GATEWAY_OPTIONS),
    ...COMMON_OPTIONS,
  };
}

export interface ParsedArguments {
  readonly options: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
}

/** @throws {UsageError} naming the invalid argument */
export function parseArguments(command: Command, args: readonly string[]): ParsedArguments {
  const known = optionsOf(command);
  const options = Object.fromEntries(
    Object.entries(known).flatMap(([name, { value, alias = name }]) =>
      [name, alias].map((each) => [
        each,
        {
          type: value === undefined ? ('boolean' as const) : ('string' as const),
          ...(name === 'help' && { short: 'h' }),
        },
      ]),
    ),
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
    const { rawName, value } = token;
    const name = documentedName(token.name, known);
    const option = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!option) throw new UsageError(`unknown option ${rawName}${suggestion(rawName, known)}`);
    const wantsValue = option.value !== undefined;
    if (wantsValue && (value === undefined || (value.startsWith('-') && !token.inlineValue))) {
      throw new UsageError(`--${name} requires a value: --${name} ${option.value}`);
    }
    if (!wantsValue && value !== undefined) throw new UsageError(`--${name} takes no value`);
    if (wantsValue && Object.hasOwn(given, name)) throw new UsageError(`--${name} is given twice`);
    given[name] = plain(value ?? '');
    checkChoices(name, option, given[name]);
  }
  return { options: given, positionals };
}

function documentedName(given: string, known: Readonly<Record<string, CommandOption>>): string {
  return Object.keys(known).find((name) => known[name]?.alias === given) ?? given;
}

/** @throws {UsageError} for a value that the option doesn't accept */
function checkChoices(name: string, { choices, pattern, isList }: CommandOption, given: string): void {
  for (const value of choices ? (isList ? given.split(',') : [given]) : []) {
    if (!choices?.includes(value) && !pattern?.test(value))
      throw new UsageError(notOneOf(`--${name}`, choices ?? [], value));
  }
}

/**
 * Checks that nothing required is missing.
 *
 * @throws {UsageError} naming the missing or superfluous argument
 */
export function requireArguments(
  command: Command,
  { options, positionals }: ParsedArguments,
  usage: string,
): void {
  const names = command.positionals.split(' ').filter((name) => name !== '');
  const missing = names.find((name, n) => !name.startsWith('[') && positionals[n] === undefined);
  if (missing !== undefined) throw new UsageError(`${missing} is missing`, usage);
  const [extra] = positionals.slice(names.length);
  if (extra !== undefined) {
    const hint = isConfigFile(command, extra) ? `; did you mean --config ${extra}?` : '';
    throw new UsageError(`unexpected argument ${JSON.stringify(extra)}${hint}`, usage);
  }
  if (options['json'] !== undefined && options['csv'] !== undefined) {
    throw new UsageError('--json and --csv exclude each other', usage);
  }
  for (const [name, option] of Object.entries(command.options)) {
    if (option.isRequired && options[name] === undefined) {
      throw new UsageError(`--${name} is missing`, usage);
    }
  }
  for (const [name, choices] of Object.entries(command.choices ?? {})) {
    const value = positionals[names.indexOf(name)];
    if (value !== undefined && !choices.includes(value)) {
      throw new UsageError(notOneOf(name, choices, value), usage);
    }
  }
}

function isConfigFile(command: Command, argument: string): boolean {
  return 'config' in optionsOf(command) && /\.(?:jsonc?|m?[jt]s)$/.test(argument);
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
