#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { auditCommand } from './commands/audit.ts';
import { type Command, UsageError } from './commands/command.ts';
import { adjustCommand, balanceCommand, grantCommand } from './commands/credits.ts';
import { freezeCommand, unfreezeCommand } from './commands/freeze.ts';
import { journalCommand, trimCommand } from './commands/journal.ts';
import { migrateCommand } from './commands/migrate.ts';
import type { LedgerStore } from './ledger/ledger.ts';
import { openStore } from './ledger/open-store.ts';

const COMMANDS: readonly Command[] = [
  auditCommand,
  balanceCommand,
  grantCommand,
  adjustCommand,
  journalCommand,
  trimCommand,
  freezeCommand,
  unfreezeCommand,
  migrateCommand,
];

const NAME = 'chat-completions-router';

/** All is well; something is wrong, or failed; the command was not called as it has to be. */
const [OK, FAILED, MISUSED] = [0, 1, 2];

async function main(args: readonly string[]): Promise<number> {
  try {
    return await runCommand(args);
  } catch (error) {
    // A TypeError says which argument can't be right, of ours or of a store's.
    const isMisused = error instanceof UsageError || error instanceof TypeError;
    console.error(`${NAME}: ${explain(error)}`);
    if (isMisused) console.error(`Try ${NAME} --help`);
    return isMisused ? MISUSED : FAILED;
  }
}

async function runCommand(args: readonly string[]): Promise<number> {
  const command = COMMANDS.find(({ name }) => isPrefix(name.split(' '), args));
  if (!command) {
    const [word] = args;
    if (word !== undefined && !['--help', '-h', 'help'].includes(word)) {
      const family = COMMANDS.map(({ name }) => name.split(' ')).filter(([first]) => first === word);
      throw new UsageError(
        family.length === 0
          ? `there is no command ${JSON.stringify(word)}`
          : `${word} is followed by one of ${family.map(([, second]) => second).join(', ')}`,
      );
    }
    console.log(overview());
    return word === undefined ? MISUSED : OK;
  }

  const { values, positionals } = parse(command, args.slice(command.name.split(' ').length));
  if (values['help'] === true) {
    console.log(help(command));
    return OK;
  }
  const [least, most] = positionalCounts(command);
  if (positionals.length < least || positionals.length > most) {
    throw new UsageError(`it is ${NAME} ${synopsis(command)}`);
  }
  const isJson = values['json'] === true;
  const options = Object.fromEntries(
    Object.keys(command.options).map((name) => [name, text(values[name])] as const),
  );
  const opened: LedgerStore[] = [];
  const open = (url: string): LedgerStore => {
    const store = openStore(url);
    opened.push(store);
    return store;
  };
  try {
    const store = open(existingStore(text(values['store']) ?? process.env['CREDITS_STORE']));
    const isWell = await command.run({
      positionals,
      options,
      store,
      open,
      print: (line, object) => {
        console.log(isJson ? JSON.stringify(object) : line);
      },
      write: async (lines) => {
        await pipeline(Readable.from(lines), process.stdout, { end: false });
      },
    });
    return isWell ? OK : FAILED;
  } finally {
    for (const store of opened) await store.close();
  }
}

function parse(
  command: Command,
  args: readonly string[],
): { readonly values: Readonly<Record<string, unknown>>; readonly positionals: readonly string[] } {
  const own = Object.keys(command.options).map((name) => [name, { type: 'string' }] as const);
  const { values, positionals } = parseArgs({
    // A negative amount is none of our options.
    args: args.map((arg) => (/^-[\d.]/.test(arg) ? NEGATIVE + arg : arg)),
    options: {
      ...Object.fromEntries(own),
      store: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
    allowPositionals: true,
  });
  return { values, positionals: positionals.map((positional) => positional.replace(NEGATIVE, '')) };
}

/** Stands before a negative number while options are read; no argument has it. */
const NEGATIVE = '\0';

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value.replace(NEGATIVE, '') : undefined;
}

/** A store that can have something: a mistyped path must not make a new, empty file that looks sound. */
function existingStore(url: string | undefined): string {
  if (url === undefined || url === '') {
    throw new UsageError('--store URL is required, or CREDITS_STORE in the environment');
  }
  if (url === 'memory:')
    throw new UsageError("memory: is a process's own, and gone with it: no other can look into it");
  const file = /^sqlite:(.+)/s.exec(url)?.[1];
  if (file !== undefined && !existsSync(file)) throw new Error(`there is no file ${file}`);
  return url;
}

/** What happened, with its causes. */
function explain(error: unknown): string {
  const reasons: string[] = [];
  let cause = error;
  for (; cause instanceof Error; cause = cause.cause) {
    const { message } = cause;
    if (message !== '' && !reasons.some((earlier) => earlier.includes(message))) reasons.push(message);
  }
  if (typeof cause === 'string') reasons.push(cause);
  return reasons.join(': ');
}

function isPrefix(words: readonly string[], args: readonly string[]): boolean {
  return words.every((word, n) => word === args[n]);
}

function positionalCounts({ positionals }: Command): [least: number, most: number] {
  const names = positionals.split(' ').filter((name) => name !== '');
  return [names.filter((name) => !name.startsWith('[')).length, names.length];
}

function synopsis({ name, positionals, options }: Command): string {
  const flags = Object.entries(options).map(([flag, { value }]) => `--${flag} ${value}`);
  return [name, positionals, ...flags].filter((part) => part !== '').join(' ');
}

function overview(): string {
  const width = Math.max(...COMMANDS.map(({ name }) => name.length));
  const list = COMMANDS.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  return [`Usage: ${NAME} COMMAND --store URL`, '', ...list, '', COMMON, '', EXIT_CODES].join('\n');
}

function help(command: Command): string {
  const own = Object.entries(command.options).map(([flag, { value, help: meaning }]) => {
    return `  --${`${flag} ${value}`.padEnd(16)}${meaning}`;
  });
  return [`Usage: ${NAME} ${synopsis(command)}`, '', `${command.summary}.`, '', ...own, COMMON].join('\n');
}

const COMMON = `  --store URL       sqlite:FILE, redis://HOST and so on; CREDITS_STORE in the environment by default
  --json            print JSON, an object a line
  --help            say this`;

const EXIT_CODES =
  'Ends with 0 if all is well, 1 if something is wrong or failed, 2 if it was called wrongly.';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Whoever read our output has read enough.
  if (error.code === 'EPIPE') process.exit(OK);
  throw error;
});
process.exitCode = await main(process.argv.slice(2));
