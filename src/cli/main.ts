import { once } from 'node:events';
import { readFileSync } from 'node:fs';

import {
  accountsCommand,
  getAccountCommand,
  getEndUserCommand,
  updateAccountCommand,
} from './commands/accounts.ts';
import { parseArguments, requireArguments } from './commands/arguments.ts';
import { checkCommand } from './commands/check.ts';
import {
  type Command,
  type GatewayCommand,
  type Invocation,
  NotFoundError,
  requireAccount,
  type StoreCommand,
  UsageError,
} from './commands/command.ts';
import { completionCommand } from './commands/completion.ts';
import {
  adjustCommand,
  balanceCommand,
  compactCommand,
  grantCommand,
  grantsCommand,
} from './commands/credits.ts';
import { findStore } from './commands/find-store.ts';
import { freezeCommand, unfreezeCommand } from './commands/freeze.ts';
import { familyHelp, help, NAME, overview, synopsis } from './commands/help.ts';
import { withGateway } from './commands/gateway.ts';
import { healthCommand, statusCommand, whoamiCommand } from './commands/gateway-state.ts';
import { initCommand } from './commands/init.ts';
import {
  createKeyCommand,
  findKeyCommand,
  getKeyCommand,
  listKeysCommand,
  pauseKeyCommand,
  resumeKeyCommand,
  revokeKeyCommand,
  rotateKeyCommand,
  updateKeyCommand,
} from './commands/keys.ts';
import { journalCommand } from './commands/journal.ts';
import { migrateCommand } from './commands/migrate.ts';
import { modelsCommand } from './commands/models.ts';
import { demoCommand } from './commands/demo.ts';
import {
  allowancesCommand,
  allowCommand,
  creditLimitCommand,
  deleteAccountCommand,
  endAllowanceCommand,
  refundCommand,
  statementCommand,
} from './commands/plans.ts';
import {
  ejectProviderCommand,
  providersCommand,
  readmitProviderCommand,
  weightCommand,
} from './commands/providers.ts';
import { listingLines } from './terminal/listing.ts';
import { Progress } from './terminal/progress.ts';
import {
  listRequestsCommand,
  listRunningRequestsCommand,
  listWaitingRequestsCommand,
  showRequestCommand,
} from './commands/requests.ts';
import { createSessionCommand, revokeSessionCommand } from './commands/sessions.ts';
import { serveCommand } from './commands/serve.ts';
import { usageCommand } from './commands/usage.ts';
import { verifyCommand } from './commands/verify.ts';
import { ConfigError } from './config/config-error.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { openStore } from '../ledger/stores/open-store.ts';
import { didYouMean } from '../platform/did-you-mean.ts';

/** All commands, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  demoCommand,
  initCommand,
  serveCommand,
  checkCommand,
  completionCommand(() => COMMANDS),
  statusCommand,
  healthCommand,
  modelsCommand,
  providersCommand,
  ejectProviderCommand,
  readmitProviderCommand,
  weightCommand,
  listRunningRequestsCommand,
  listWaitingRequestsCommand,
  whoamiCommand,
  accountsCommand,
  getAccountCommand,
  getEndUserCommand,
  updateAccountCommand,
  deleteAccountCommand,
  createKeyCommand,
  listKeysCommand,
  getKeyCommand,
  findKeyCommand,
  updateKeyCommand,
  rotateKeyCommand,
  pauseKeyCommand,
  resumeKeyCommand,
  revokeKeyCommand,
  createSessionCommand,
  revokeSessionCommand,
  balanceCommand,
  grantCommand,
  grantsCommand,
  adjustCommand,
  allowCommand,
  allowancesCommand,
  endAllowanceCommand,
  creditLimitCommand,
  refundCommand,
  statementCommand,
  compactCommand,
  usageCommand,
  listRequestsCommand,
  showRequestCommand,
  journalCommand,
  freezeCommand,
  unfreezeCommand,
  verifyCommand,
  migrateCommand,
];

/** Words for a command that is named otherwise here. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ['accounts delete', 'delete'],
  ['accounts freeze', 'freeze'],
  ['accounts list', 'accounts'],
  ['accounts show', 'accounts get'],
  ['accounts unfreeze', 'unfreeze'],
  ['audit', 'verify'],
  ['credits trim', 'credits compact'],
  ['keys limit', 'keys update'],
  ['keys show', 'keys get'],
  ['me', 'whoami'],
  ['prices', 'models'],
  ['providers list', 'providers'],
  ['running', 'requests running'],
  ['plans', 'credits allowances'],
  ['outbox', 'requests waiting'],
  ['refund', 'credits refund'],
  ['statement', 'credits statement'],
]);

/** Exit codes. */
const [OK, FAILED, USAGE_ERROR] = [0, 1, 2];

const progress = new Progress(process.stderr);

/**
 * Runs a command.
 *
 * @param args - words of the command line, without the program's name
 * @returns the exit code: 0 success, 1 failure, 2 usage error
 */
export async function main(args: readonly string[]): Promise<number> {
  try {
    return await runCommand(args);
  } catch (error) {
    // A TypeError names an invalid argument, of the command or of a store.
    const isMisused = error instanceof UsageError || error instanceof TypeError;
    const isJson = args.includes('--json');
    progress.clear();
    if (error instanceof NotFoundError && isJson) console.log(JSON.stringify(error.facts));
    console.error(`${NAME}: ${explain(error)}`);
    const { hint = `Try npx ${NAME} --help` } = error instanceof UsageError ? error : {};
    if (isMisused && hint !== '') console.error(hint);
    return isMisused ? USAGE_ERROR : FAILED;
  }
}

async function runCommand(args: readonly string[]): Promise<number> {
  const [word] = args;
  if (word === '--version' || word === '-v') {
    console.log(version());
    return OK;
  }
  if (word === undefined || ['--help', '-h'].includes(word)) {
    console.log(overview(COMMANDS));
    return word === undefined ? USAGE_ERROR : OK;
  }
  if (word === 'help') return runCommand([...args.slice(1), '--help']);
  const family = COMMANDS.filter(({ name }) => name.startsWith(`${word} `));
  const isCommand = COMMANDS.some(({ name }) => name === word);
  if (family.length > 0 && !isCommand && ['--help', '-h'].includes(args[1] ?? '')) {
    console.log(familyHelp(word, family));
    return OK;
  }
  const command = findCommand(args);
  const parsed = parseArguments(command, args.slice(command.name.split(' ').length));
  const { options, positionals } = parsed;
  if (options['help'] !== undefined) {
    console.log(help(command));
    return OK;
  }
  requireArguments(command, parsed, `Usage: ${NAME} ${synopsis(command)}`);
  const envFile = options['env-file'];
  if (envFile !== undefined) process.loadEnvFile(envFile);
  const isJson = options['json'] !== undefined;
  const format = isJson ? 'json' : options['csv'] === undefined ? 'table' : 'csv';
  const remark = (line: string): void => {
    progress.clear();
    console.error(line);
  };
  const invocation: Invocation = {
    positionals,
    options,
    print: (line, object) => {
      progress.clear();
      console.log(isJson ? JSON.stringify(object) : line);
    },
    list: async (listing) => {
      for await (const line of listingLines(listing, format)) {
        progress.clear();
        console.log(line);
        if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
      }
    },
    note: (line) => {
      if (!isJson) remark(line);
    },
    remark,
    progress: (line) => {
      progress.show(line);
    },
  };
  const succeeded = await runWith(command, invocation);
  progress.clear();
  return succeeded ? OK : FAILED;
}

async function runWith(command: Command, invocation: Invocation): Promise<boolean> {
  if (command.store) return runOnStore(command, invocation);
  return command.asksGateway ? runOnGateway(command, invocation) : command.run(invocation);
}

async function runOnGateway(command: GatewayCommand, invocation: Invocation): Promise<boolean> {
  return withGateway(invocation.options['url'], (gateway) => command.run({ ...invocation, gateway }));
}

/** A command that is run by hand may wait longer than a request. */
const STORE_TIMEOUT_MS = 30_000;

async function runOnStore(command: StoreCommand, invocation: Invocation): Promise<boolean> {
  const { store: url, config } = invocation.options;
  const found = await findStore({ store: url, config }, command.store === 'may-be-new');
  const opened: LedgerStore[] = [];
  const open = (where: string | LedgerStore): LedgerStore => {
    const store = openStore(where, { timeoutMs: STORE_TIMEOUT_MS });
    opened.push(store);
    return store;
  };
  try {
    const store = open(found);
    const account = accountOf(command, invocation);
    if (account !== undefined && command.store === 'exists') await requireAccount(store, account);
    return await command.run({
      ...invocation,
      store,
      open,
    });
  } finally {
    for (const store of opened) await store.close();
  }
}

/** The account that a command names, as an argument or option. */
function accountOf(command: StoreCommand, { positionals, options }: Invocation): string | undefined {
  return /^\[?ACCOUNT/.test(command.positionals) ? positionals[0] : options['account'];
}

/** @throws {UsageError} with a suggestion, for an unknown command */
function findCommand(args: readonly string[]): Command {
  // Of `accounts` and `accounts get`, the longer name.
  const [command] = COMMANDS.filter(({ name }) => isPrefix(name.split(' '), args)).toSorted(
    (one, other) => other.name.length - one.name.length,
  );
  const [word = ''] = args;
  const typed = args.slice(0, 2).join(' ');
  if (command && !SYNONYMS.has(typed)) return command;
  const names = COMMANDS.map(({ name }) => name);
  const families = [...new Set(names.map((name) => name.replace(/ .*/, '')))];
  const isFamily = families.includes(word);
  const near =
    SYNONYMS.get(typed) ??
    SYNONYMS.get(word) ??
    didYouMean(typed, names) ??
    (isFamily ? undefined : didYouMean(word, families));
  if (isFamily && (near === undefined || args.length === 1)) {
    const subcommands = names.filter((name) => name.startsWith(`${word} `)).map((name) => name.split(' ')[1]);
    const given = args[1];
    throw new UsageError(
      given === undefined || given.startsWith('-')
        ? `${word} requires a subcommand: ${subcommands.join(', ')}`
        : `unknown command ${JSON.stringify(typed)}; ${word} takes ${subcommands.join(', ')}`,
    );
  }
  const unknown = JSON.stringify(isFamily ? typed : word);
  throw new UsageError(`unknown command ${unknown}${near === undefined ? '' : `; did you mean ${near}?`}`);
}

/** The message of an error, with those of its causes. */
function explain(error: unknown): string {
  const reasons: string[] = [];
  let cause = error;
  for (; cause instanceof Error; cause = cause.cause) {
    const { message } = cause;
    if (message !== '' && !reasons.some((earlier) => earlier.includes(message))) reasons.push(message);
    // Its message has that of its cause already.
    if (cause instanceof ConfigError) break;
  }
  if (typeof cause === 'string') reasons.push(cause);
  return reasons.join(': ');
}

function isPrefix(words: readonly string[], args: readonly string[]): boolean {
  return words.every((word, n) => word === args[n]);
}

function version(): string {
  const manifest = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as unknown;
  return String(Reflect.get(Object(manifest), 'version'));
}
