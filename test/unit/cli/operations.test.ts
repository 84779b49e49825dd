import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { ACCOUNT_API } from '../../../src/account/account-router.ts';
import { endpoints as accountEndpoints } from '../../../src/account/endpoints.ts';
import { ADMIN_API } from '../../../src/admin/admin-router.ts';
import { endpoints } from '../../../src/admin/endpoints.ts';
import { openApi } from '../../../src/json-api/openapi.ts';
import { optionsOf } from '../../../src/cli/commands/arguments.ts';
import { COMMANDS } from '../../../src/cli/main.ts';
import { createAccountClient, createAdminClient } from '../../../src/client/admin-client.ts';

/** The commands that do what an operation does. */
const COMMANDS_OF: Readonly<Record<string, readonly string[]>> = {
  getMe: ['whoami'],
  listAccounts: ['accounts', 'credits balance'],
  getAccount: ['accounts get'],
  updateAccount: ['accounts update', 'freeze', 'unfreeze', 'credits limit'],
  deleteAccount: ['delete'],
  getEndUser: ['accounts end-user'],
  listGrants: ['credits grants'],
  createGrant: ['credits grant'],
  createAdjustment: ['credits adjust'],
  listJournal: ['journal'],
  getStatement: ['credits statement'],
  listAllowances: ['credits allowances'],
  setAllowance: ['credits allow'],
  endAllowance: ['credits end'],
  refundRequest: ['credits refund'],
  listKeys: ['keys list'],
  createKey: ['keys create'],
  getKey: ['keys get'],
  updateKey: ['keys update'],
  revokeKey: ['keys revoke'],
  pauseKey: ['keys pause'],
  resumeKey: ['keys resume'],
  findKey: ['keys find'],
  revokeFoundKey: ['keys revoke'],
  rotateKey: ['keys rotate'],
  createSession: ['sessions create'],
  revokeSession: ['sessions revoke'],
  queryUsage: ['usage'],
  listModels: ['models'],
  listRequests: ['requests list'],
  getRequest: ['requests show'],
  listProviders: ['providers'],
  ejectProvider: ['providers eject'],
  readmitProvider: ['providers readmit'],
  setWeight: ['providers weight'],
  listTargets: ['health'],
  listRunningRequests: ['requests running'],
  getStatus: ['status', 'requests waiting'],
  verifyAccounts: ['verify'],
};

/** Operations without a command. */
const WITHOUT_COMMAND = {
  getDescription: 'the OpenAPI document, for programs',
  getPage: 'the console, for a browser',
};

/** Commands without an operation. */
const WITHOUT_OPERATION = {
  demo: 'runs a server',
  init: 'writes a config',
  serve: 'runs a server',
  check: 'reads a config',
  completion: 'is for a shell',
  migrate: 'no gateway runs meanwhile',
  'credits compact': 'deletes lines of the journal, which must have been exported',
};

/** They print one thing, or what they have changed. */
const listing = COMMANDS.filter(({ printsRows }) => printsRows).map(({ name }) => name);

function operationsOf(document: Buffer): string[] {
  const { paths } = JSON.parse(document.toString()) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId: string }>>>>;
  };
  return Object.values(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
}

describe('operations of the account API, which is for customers', () => {
  const client = createAccountClient({ baseURL: 'http://localhost/account', apiKey: 'x' });

  it.each(operationsOf(openApi(accountEndpoints, ACCOUNT_API)))('%s is a function of the client', (name) => {
    expect(client).toHaveProperty(name, expect.any(Function));
  });
});

describe('operations of the admin API', () => {
  const client = createAdminClient({ baseURL: 'http://localhost/admin', token: 'x' });
  const names = operationsOf(openApi(endpoints, ADMIN_API));

  it('are all listed here', () => {
    expect([...names].sort()).toEqual([...Object.keys(COMMANDS_OF), ...Object.keys(WITHOUT_COMMAND)].sort());
  });

  it.each(names)('%s is a function of the client', (name) => {
    expect(client).toHaveProperty(name, expect.any(Function));
  });

  it.each(Object.entries(COMMANDS_OF))('%s has the commands %j', (_name, commands) => {
    expect(COMMANDS.map(({ name }) => name)).toEqual(expect.arrayContaining([...commands]));
  });

  it('leave only commands that need none', () => {
    const used = new Set(Object.values(COMMANDS_OF).flat());
    const others = COMMANDS.map(({ name }) => name).filter((name) => !used.has(name));
    expect(others.sort()).toEqual(Object.keys(WITHOUT_OPERATION).sort());
  });
});

describe('commands that print rows', () => {
  it('are these', () => {
    expect(listing).toEqual([
      'check',
      'health',
      'models',
      'providers',
      'requests running',
      'requests waiting',
      'accounts',
      'keys list',
      'credits balance',
      'credits grants',
      'credits allowances',
      'credits statement',
      'usage',
      'requests list',
      'journal',
      'verify',
    ]);
  });

  it.each(listing)('%s takes --json and --csv, which its help says', (name) => {
    const command = COMMANDS.find((each) => each.name === name);
    const options = command ? optionsOf(command) : {};
    expect(options['json']?.help).toBe('print JSON, one object per line');
    expect(options['csv']?.help).toBe('print CSV, for spreadsheets');
  });

  it('make their tables in one place, but for those beside other text', () => {
    const folder = new URL('../../../src/cli/', import.meta.url);
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.ts'),
    );
    const makers = files.filter((file) =>
      /terminal\/table\.ts|\/table\.ts'/.test(readFileSync(new URL(file, folder), 'utf8')),
    );
    // The sums of a statement, and the attempts of one request.
    expect(makers.sort()).toEqual(['commands/plans.ts', 'commands/requests.ts', 'terminal/listing.ts']);
  });

  it('all other commands on a store or a gateway take --json', () => {
    for (const command of COMMANDS.filter(({ store, asksGateway }) => store ?? asksGateway)) {
      expect(Object.keys(optionsOf(command)), command.name).toContain('json');
    }
  });
});
