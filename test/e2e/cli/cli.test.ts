import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { type Ended, runCli } from '../../helpers/cli.ts';
import { admission } from '../../helpers/redis-ledger.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const CLI = new URL('../../../dist/cli.js', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'ccr-cli-'));
let redis: RedisServer;
let file: string;
let store: string;
let files = 0;

beforeAll(async () => {
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
  rmSync(folder, { recursive: true });
});

/** A file with 5 USD of account `acme`. */
beforeEach(async () => {
  file = join(folder, `${(files += 1)}.db`);
  store = `sqlite:${file}`;
  const ledger = new SqliteStore(file);
  await ledger.grant({ account: 'acme', id: 'g1', amount: 5_000_000_000n });
  await ledger.close();
});

const run = (args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  runCli(args, { env });
const on = (...args: string[]): Promise<Ended> => run([...args, '--store', store]);
const ok = (...lines: string[]): Ended => ({
  code: 0,
  stdout: lines.map((line) => `${line}\n`).join(''),
  stderr: '',
});

const BALANCE = [
  'ACCOUNT  BALANCE  CREDIT LIMIT   HELD  TOTAL USED  TOTAL GRANTED  EXPIRED  WRITTEN OFF  STATE',
  'acme       $5.00         $0.00  $0.00       $0.00          $5.00    $0.00        $0.00  active',
];

function damage(): void {
  const database = new DatabaseSync(file);
  database.exec('UPDATE accounts SET available = available + 1');
  database.close();
}

describe('the command', () => {
  it('says what it can do', async () => {
    const { code, stdout } = await run(['--help']);
    expect(code).toBe(0);
    for (const name of [
      'verify',
      'credits grant',
      'credits compact',
      'journal',
      'freeze',
      'unfreeze',
      'migrate',
    ]) {
      expect(stdout).toContain(`\n  ${name} `);
    }
  });

  it('says which version it is', async () => {
    expect(await run(['--version'])).toEqual(ok('0.1.0'));
  });

  it('is in color where that is asked for, and only there', async () => {
    const colored = await run(['--help'], { FORCE_COLOR: '1' });
    expect(colored.stdout).toContain('\u001b[1mverify');
    expect((await run(['--help'])).stdout).not.toContain('\u001b');
  });

  it('shows what stands out in color on a terminal', async () => {
    await on('freeze', 'acme');
    const colored = await run(['accounts', '--store', store], { FORCE_COLOR: '1' });
    expect(colored.stdout).toContain('\u001b[1mBALANCE\u001b[22m');
    expect(colored.stdout).toContain('\u001b[33mfrozen\u001b[39m');
    expect((await on('accounts')).stdout).not.toContain('\u001b');
  });

  it('has an example of each command in its help', async () => {
    for (const words of [['init'], ['serve'], ['credits', 'grant'], ['verify']]) {
      const { stdout } = await run([...words, '--help']);
      expect(stdout).toMatch(
        new RegExp(`\\nExamples?:\\n\\n {2}npx chat-completions-router ${words.join(' ')}`),
      );
    }
    expect((await run(['init', '--help'])).stdout).toMatch(
      /^Usage: .* init \[FILE\] \[--app APP\] \[--json\]/,
    );
  });

  it('says of each command how it is called', async () => {
    const { code, stdout } = await run(['credits', 'grant', '--help']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Usage: chat-completions-router credits grant ACCOUNT AMOUNT --id ID/);
    expect(stdout).toContain('--store URL');
    expect((await run(['help', 'credits', 'grant'])).stdout).toBe(stdout);
  });

  it.each([
    ['keys', '--help'],
    ['keys', '-h'],
    ['help', 'keys'],
  ])('says which commands begin with one word: %s %s', async (...args) => {
    const { code, stdout } = await run(args);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Usage: chat-completions-router keys COMMAND …\n\n  keys create  Create/);
    expect(stdout).not.toContain('credits');
  });

  it('says that Node is too old, before anything of it is missed', async () => {
    const version = "Object.defineProperty(process, 'versions', { value: { node: '20.19.0' } })";
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(version)}`];
    expect(await runCli(['--version'], { flags })).toEqual({
      code: 1,
      stdout: '',
      stderr: 'chat-completions-router: requires Node >= 22.15, found 20.19.0\n',
    });
  });

  it.each<[string, string[], string]>([
    ['no command', [], ''],
    ['an unknown command', ['fly'], 'unknown command "fly"'],
    ['half a command', ['credits'], 'credits requires a subcommand: balance, grant, grants, adjust'],
    ['an unknown option', ['verify', '--fast'], 'unknown option --fast'],
    [
      'no store',
      ['verify'],
      'no store given; use --store URL, --config FILE, or CREDITS_STORE in the environment',
    ],
    ['two stores', ['verify', '--store', 'x', '--config', 'y'], '--store and --config exclude each other'],
    ['a word that is nearly one', ['verfiy'], 'unknown command "verfiy"; did you mean verify?'],
    ['a family that is nearly one', ['credis'], 'unknown command "credis"; did you mean credits?'],
    ['a subcommand that is nearly one', ['keys', 'creat', 'acme'], 'did you mean keys create?'],
    ['an old name of a command', ['audit', 'acme'], 'unknown command "audit"; did you mean verify?'],
    ['an old name of a subcommand', ['credits', 'trim', 'acme'], 'did you mean credits compact?'],
    [
      'words for another command',
      ['accounts', 'list'],
      'unknown command "accounts list"; did you mean accounts?',
    ],
    ['a word for another command', ['outbox'], 'unknown command "outbox"; did you mean requests waiting?'],
    ['words that are nearly some', ['credit', 'balance'], 'did you mean credits balance?'],
    [
      'an option that is nearly one',
      ['verify', '--stroe', 'x'],
      'unknown option --stroe; did you mean --store?',
    ],
    ['an option without its value', ['verify', '--store'], '--store requires a value: --store URL'],
    ['a value to an option that has none', ['verify', '--json=1'], '--json takes no value'],
    [
      'a store of its own',
      ['verify', '--store', 'memory:'],
      'memory: stores exist only inside their process',
    ],
    ['a store that is none', ['verify', '--store', 'mysql://x'], "store must be 'memory:', 'sqlite:FILE'"],
    ['too little', ['freeze'], 'ACCOUNT is missing\nUsage: chat-completions-router freeze ACCOUNT\n'],
    ['too much', ['freeze', 'acme', 'zeta'], 'unexpected argument "zeta"\n'],
    [
      'a config without its option',
      ['serve', './config.json'],
      'unexpected argument "./config.json"; did you mean --config ./config.json?',
    ],
    ['no config', ['serve'], 'no config in this folder: run npx chat-completions-router init\n'],
    ['a value that is nearly one', ['serve', '--log', 'jsn'], 'got "jsn"; did you mean "json"?'],
    ['a list with a value that is nearly one', ['usage', '--by', 'day,modle'], 'did you mean "model"?'],
  ])('ends with 2 when it is given %s', async (_what, args, message) => {
    const { code, stderr } = await run(args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });

  it('ends with 1 and the reason when the store is unavailable', async () => {
    const { code, stderr } = await run(['verify', '--store', 'redis://127.0.0.1:1']);
    expect(code).toBe(1);
    expect(stderr).toBe(
      'chat-completions-router: The credit store did not apply the command: connect ECONNREFUSED 127.0.0.1:1\n',
    );
  });

  it('makes no file of a mistyped path', async () => {
    const missing = join(folder, 'missing.db');
    const { code, stderr } = await run(['verify', '--store', `sqlite:${missing}`]);
    expect(code).toBe(1);
    expect(stderr).toBe(`chat-completions-router: file not found: ${missing}\n`);
    expect(existsSync(missing)).toBe(false);
  });

  it("shows no store's password", async () => {
    const { stderr } = await run(['verify', '--store', 'redis://:hunter2@[']);
    expect(stderr).toContain('store must name hosts');
    expect(stderr).not.toContain('hunter2');
  });

  it('finds its store in the environment', async () => {
    expect(await run(['credits', 'balance'], { CREDITS_STORE: store })).toEqual(ok(...BALANCE));
  });
});

describe('verify', () => {
  it('ends with 0 when nothing is wrong', async () => {
    expect(await on('verify')).toEqual(ok('1 account, 1 journal entry: no problems found'));
  });

  it('ends with 1 when something is, and says what', async () => {
    damage();
    const { code, stdout } = await on('verify', 'acme');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^ACCOUNT +INVARIANT +REQUEST +MESSAGE\nacme +I1 +– +granted is 5\.00, but available 5\.000000001 \+/,
    );
    expect(stdout).toMatch(/\n1 account, 1 journal entry: 1 finding\n$/);
  });

  it('finds a name that has changed on the disk, which no sum shows', async () => {
    const bytes = readFileSync(file);
    // The name is in the table and in its index: one of them.
    bytes.write('b', bytes.indexOf('acme'));
    writeFileSync(file, bytes);
    const { code, stdout } = await on('verify');
    expect(code).toBe(1);
    expect(stdout).toMatch(/\n– +– +– +the store is damaged: /);
  });

  it('says it in CSV, and the summary beside it', async () => {
    damage();
    const { stdout, stderr } = await on('verify', '--csv');
    expect(stdout).toMatch(/^account,invariant,requestId,message\nacme,I1,,"granted is 5\.00, but /);
    expect(stderr).toBe('1 account, 1 journal entry: 1 finding\n');
  });

  it('says it in JSON', async () => {
    damage();
    const lines = (await on('verify', '--json')).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { account: 'acme', invariant: 'I1' },
      { accounts: 1, lines: 1, findings: 1 },
    ]);
  });
});

describe('credits', () => {
  it('grants, once', async () => {
    const grant = [
      'credits',
      'grant',
      'acme',
      '2.50',
      '--id',
      'p1',
      '--expires',
      '2999-01-01',
      '--priority',
      '3',
    ];
    expect(await on(...grant)).toEqual(ok('acme: $7.50 available'));
    expect(await on(...grant)).toEqual(ok('acme: $7.50 available (already applied)'));
  });

  it('adjusts down', async () => {
    expect(await on('credits', 'adjust', 'acme', '-1.50', '--id', 'a1', '--reason', 'oops')).toEqual(
      ok('acme: $3.50 available'),
    );
  });

  it('ends with 1 when there is less than is to be taken', async () => {
    const { code, stderr } = await on('credits', 'adjust', 'acme', '-9', '--id', 'a1', '--reason', 'oops');
    expect(code).toBe(1);
    expect(stderr).toContain('the account has less than that available');
  });

  it.each<[string, string[], string]>([
    ['no amount', ['acme', 'much', '--id', 'p1'], 'amount must be a decimal string of USD'],
    [
      'no id',
      ['acme', '1'],
      '--id is missing\nUsage: chat-completions-router credits grant ACCOUNT AMOUNT --id ID [--expires DATE]',
    ],
    ['no date', ['acme', '1', '--id', 'p1', '--expires', 'soon'], '--expires must be a day'],
    [
      'a date that is past',
      ['acme', '1', '--id', 'p1', '--expires', '2020-01-01'],
      'expiresAt must be in the future',
    ],
    ['no priority', ['acme', '1', '--id', 'p1', '--priority', '-1'], '--priority must be a whole number'],
  ])('refuses a grant with %s', async (_what, args, message) => {
    const { code, stderr } = await on('credits', 'grant', ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });

  it('says that there is no such account', async () => {
    expect(await on('credits', 'balance', 'nobody')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'chat-completions-router: there is no account nobody\n',
    });
  });
});

describe('journal', () => {
  it('prints JSON lines, from a position on, which compact folds', async () => {
    await on('credits', 'grant', 'acme', '1', '--id', 'p1');
    const after = await on('journal', 'acme', '--after', '1', '--json');
    expect(JSON.parse(after.stdout)).toMatchObject({
      account: 'acme',
      position: 2,
      id: 'p1',
      amount: '1.00',
    });
    expect(await on('credits', 'compact', 'acme', '1')).toEqual(ok('acme: compacted up to 1'));
    const all = (await on('journal', '--json')).stdout.trimEnd().split('\n');
    expect(all.map((line) => JSON.parse(line) as object)).toMatchObject([
      { account: 'acme', type: 'compacted', position: 1, granted: '5.00' },
      { account: 'acme', type: 'grant', position: 2 },
    ]);
  });

  it('ends well when its reader has read enough', async () => {
    const ledger = new SqliteStore(file);
    const reason = 'x'.repeat(500);
    for (let n = 0; n < 400; n++) await ledger.adjust({ account: 'acme', id: `a${n}`, delta: 1n, reason });
    await ledger.close();
    const child = spawn(process.execPath, [CLI, 'journal', '--store', store], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const errors = text(child.stderr);
    await once(child.stdout, 'data');
    child.stdout.destroy();
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(await errors).toBe('');
  });
});

describe('keys', () => {
  const POLICY = [
    '--name=prod',
    '--budget=5.00/month',
    '--models=openai/*,acme/fast',
    '--requests-per-minute=60',
    '--tokens-per-minute=90000',
    '--concurrent-requests=4',
    '--markup=1.2',
    '--metadata=plan=pro,team=search',
    '--expires=2999-01-01T00:00Z',
  ];

  it('are made, and shown once', async () => {
    const created = await on('keys', 'create', 'acme', '--id', 'k1', '--name', 'prod');
    expect(created).toMatchObject({
      code: 0,
      stderr: 'acme: created key k1; its secret is shown only once\n',
    });
    expect(created.stdout).toMatch(/^sk-ccr-[0-9A-Za-z_-]{40,}\n$/);
    const list = await on('keys', 'list', 'acme');
    expect(list.stdout).toMatch(/^ID +NAME +STATE +CREATED +POLICY\nk1 +prod +active +20\S+Z +–\n$/);
  });

  it.each(['create acme', 'rotate acme k1'])(
    'give their secret alone to a shell: keys %s',
    async (command) => {
      await on('keys', 'create', 'acme', '--id', 'k1');
      const program = `KEY=$('${process.execPath}' '${CLI}' keys ${command} --store '${store}') && printf '[%s]' "$KEY"`;
      const shell = spawn('sh', ['-c', program], { stdio: ['ignore', 'pipe', 'pipe'] });
      const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
      expect(stdout).toMatch(/^\[sk-ccr-[0-9A-Za-z_-]{40,}\]$/);
      expect(stderr).toMatch(/^acme: (created|rotated) key .* its secret is shown only once.*\n$/);
    },
  );

  it('are made once with one id', async () => {
    await on('keys', 'create', 'acme', '--id', 'k1');
    const { code, stdout, stderr } = await on('keys', 'create', 'acme', '--id', 'k1');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('key k1 of account acme exists already');
  });

  it('get all that limits them, which shows', async () => {
    await on('keys', 'create', 'acme', '--id', 'k1', ...POLICY);
    const { stdout } = await on('keys', 'get', 'acme', 'k1', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      id: 'k1',
      name: 'prod',
      budget: { amount: '5.00', per: 'month' },
      models: ['openai/*', 'acme/fast'],
      requestsPerMinute: 60,
      tokensPerMinute: 90_000,
      concurrentRequests: 4,
      markup: { factor: '1.2' },
      metadata: { plan: 'pro', team: 'search' },
      expiresAt: '2999-01-01T00:00:00.000Z',
      spent: '0.00',
      budgetLeft: '5.00',
    });
    const text = await on('keys', 'get', 'acme', 'k1');
    expect(text.stdout).toContain('\nmetadata       plan=pro,team=search\n');
    expect(text.stdout).toContain(
      '\npolicy         $5.00/month · models openai/*,acme/fast · 60 requests/min · 90000 tokens/min · 4 at a time · × 1.2 · expires 2999-01-01T00:00Z\n',
    );
    expect(text.stdout).toMatch(/^budget left {4}\$5\.00, until \d{4}-\d\d-01T00:00Z$/m);
  });

  it('have names that steer no terminal, and end no line', async () => {
    await on('keys', 'create', 'acme', '--id', 'k1', '--name', 'a\n\u001b[31mb\u009bm\u202e');
    const shown = String.raw`a\u000a\u001b[31mb\u009bm\u202e`;
    expect((await on('keys', 'list', 'acme')).stdout).toContain(`k1  ${shown}  active`);
    expect((await on('keys', 'get', 'acme', 'k1')).stdout).toContain(`\nname           ${shown}\n`);
  });

  it('are changed in what is said, and keep the rest', async () => {
    await on('keys', 'create', 'acme', '--id', 'k1', ...POLICY);
    const gone = 'models,requests-per-minute,tokens-per-minute,concurrent-requests,markup,expires';
    expect(await on('keys', 'update', 'acme', 'k1', '--budget', '1/day', '--remove', gone)).toEqual(
      ok('acme: key k1: $1.00/day'),
    );
    const { stdout } = await on('keys', 'get', 'acme', 'k1', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ name: 'prod', metadata: { plan: 'pro' } });
    expect(await on('keys', 'update', 'acme', 'k1', '--remove', 'budget')).toEqual(
      ok('acme: key k1: no limits'),
    );
  });

  it('keep the part of their markup that is not said', async () => {
    await on('keys', 'create', 'acme', '--id', 'k1', '--markup', '1.2+0.01');
    const update = async (...args: string[]) => (await on('keys', 'update', 'acme', 'k1', ...args)).stdout;
    expect(await update('--markup', '1.3')).toBe('acme: key k1: × 1.3 · + $0.01 a request\n');
    expect(await update('--markup', '+0.02')).toBe('acme: key k1: × 1.3 · + $0.02 a request\n');
    expect(await update('--markup', '2+0')).toBe('acme: key k1: × 2 · + $0 a request\n');
    expect(await update('--remove', 'markup')).toBe('acme: key k1: no limits\n');
  });

  it('get another secret, and the one before it an end', async () => {
    const [before] = (await on('keys', 'create', 'acme', '--id', 'k1')).stdout.split('\n');
    const now = await on('keys', 'rotate', 'acme', 'k1');
    expect(now.stderr).toBe(
      'acme: rotated key k1; its secret is shown only once, the previous one has expired\n',
    );
    expect(now.stdout.split('\n')[0]).not.toBe(before);
    const later = await on('keys', 'rotate', 'acme', 'k1', '--overlap', '3600');
    expect(later.stderr).toMatch(/the previous one works until 20\S+Z\n$/);
  });

  it('are found by their secret, which is not shown', async () => {
    const [secret = ''] = (await on('keys', 'create', 'acme', '--id', 'k1')).stdout.split('\n');
    const found = await on('keys', 'find', secret);
    expect(found).toMatchObject({ code: 0, stderr: '' });
    expect(found.stdout).toMatch(/^id +k1\naccount +acme\nstate +active\n/);
    const json = await on('keys', 'find', secret, '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ id: 'k1', account: 'acme', state: 'active' });
    await on('keys', 'rotate', 'acme', 'k1');
    const gone = await on('keys', 'find', secret);
    expect(gone).toMatchObject({ code: 1, stdout: '' });
    expect(gone.stderr).toContain('no key has this secret');
    for (const { stdout, stderr } of [found, json, gone]) expect(stdout + stderr).not.toContain(secret);
  });

  it('are revoked for good', async () => {
    await on('keys', 'create', 'acme', '--id', 'k1');
    expect(await on('keys', 'revoke', 'acme', 'k1')).toEqual(ok('acme: revoked key k1'));
    expect((await on('keys', 'list', 'acme')).stdout).toMatch(/^k1 +– +revoked /m);
    const { code, stderr } = await on('keys', 'rotate', 'acme', 'k1');
    expect(code).toBe(1);
    expect(stderr).toContain('is revoked permanently');
  });

  it.each(['get', 'rotate', 'revoke'])('that are not there end %s with 1', async (command) => {
    const ended = await on('keys', command, 'acme', 'nope');
    expect(ended).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'chat-completions-router: account acme has no key nope\n',
    });
  });

  it.each<[string, string[], string]>([
    ['a budget without its period', ['--budget', '5.00'], '--budget must be as 5.00/month'],
    ['a budget of no money', ['--budget', '5.0.0/day'], 'budget.amount must be a decimal string of USD'],
    ['a limit of nothing', ['--requests-per-minute', '0'], '--requests-per-minute must be 1 or more, got 0'],
    ['no date', ['--expires', 'soon'], '--expires must be a day'],
    ['a day that no month has', ['--expires', '2027-02-31'], '--expires must be a day'],
    ['no pairs', ['--metadata', 'pro'], '--metadata must be as plan=pro'],
    ['a pair twice', ['--metadata', 'plan=pro,plan=free'], '--metadata must name each once'],
    ['no factor', ['--markup', 'much'], 'markup.factor must be'],
    ['no fee', ['--markup', '1.2+'], 'markup.fee must be'],
  ])('are refused with %s, and nothing is made', async (_what, args, message) => {
    const { code, stderr } = await on('keys', 'create', 'acme', ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect((await on('keys', 'list', 'acme')).stdout).toBe('acme: no keys\n');
  });

  it.each<[string, string[], string]>([
    ['no change', [], 'nothing to change; give at least one option'],
    [
      'an option that it has not',
      ['--remove', 'price'],
      '--remove must be one of name, budget, models, require, requests-per-minute',
    ],
    [
      'an option both ways',
      ['--budget', '1/day', '--remove', 'budget'],
      '--budget is given, and to be removed',
    ],
  ])('are not changed with %s', async (_what, args, message) => {
    const { code, stderr } = await on('keys', 'update', 'acme', 'k1', ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});

describe('accounts', () => {
  it('are listed with their balances, and those that are frozen', async () => {
    await on('credits', 'grant', 'zeta', '1.00', '--id', 'g1');
    await on('freeze', 'zeta');
    expect(await on('accounts')).toEqual(
      ok(
        'ACCOUNT  BALANCE   HELD  SPENT  GRANTED  STATE',
        'acme       $5.00  $0.00  $0.00    $5.00  active',
        'zeta       $1.00  $0.00  $0.00    $1.00  frozen',
      ),
    );
    expect((await on('credits', 'balance', 'zeta')).stdout).toMatch(/^zeta .* {2}frozen$/m);
    const lines = (await on('accounts', '--json')).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { id: 'acme', frozen: false },
      { id: 'zeta', frozen: true },
    ]);
  });

  it('say what they may owe, and what they lost', async () => {
    await on('credits', 'grant', 'acme', '1.00', '--id', 'g2', '--expires', '2999-01-01');
    const before = (await on('accounts', 'get', 'acme')).stdout;
    expect(before).not.toMatch(/credit limit|expired|written off/);
    await on('credits', 'limit', 'acme', '20.00');
    expect((await on('accounts', 'get', 'acme')).stdout).toMatch(/^credit limit +\$20\.00$/m);
  });

  it.each([
    ['keys', 'list', 'nobody'],
    ['credits', 'balance', 'nobody'],
    ['credits', 'adjust', 'nobody', '1', '--id', 'a1', '--reason', 'x'],
    ['credits', 'compact', 'nobody', '1'],
    ['journal', 'nobody'],
    ['usage', '--account', 'nobody'],
    ['verify', 'nobody'],
    ['freeze', 'nobody'],
    ['accounts', 'end-user', 'nobody', 'ann'],
  ])('that are not there get one answer: %s %s', async (...args) => {
    expect(await on(...args)).toEqual({
      code: 1,
      stdout: '',
      stderr: 'chat-completions-router: there is no account nobody\n',
    });
    expect((await on(...args, '--json')).stdout).toBe('{"account":"nobody","error":"no_account"}\n');
  });
});

describe('an end user', () => {
  it('is shown with what counts, of the account or of a key', async () => {
    expect(await on('accounts', 'end-user', 'acme', 'ann')).toMatchObject({
      code: 1,
      stderr: 'chat-completions-router: account acme has no limits of end users\n',
    });
    const ledger = new SqliteStore(file);
    const endUsers = { requestsPerMinute: 4 };
    await ledger.updateKey({ account: 'acme', key: '@', version: 0, name: '', endUsers });
    await ledger.close();
    expect(await on('accounts', 'end-user', 'acme', 'ann')).toEqual(
      ok(
        'end user       ann',
        'counters       its own',
        'spent          $0.00',
        'held           $0.00',
        'running        0',
        'requests left  4',
      ),
    );
    expect(JSON.parse((await on('accounts', 'end-user', 'acme', 'ann', '--json')).stdout)).toEqual({
      endUser: 'ann',
      shared: false,
      spent: '0.00',
      held: '0.00',
      running: 0,
      requestsLeft: 4,
    });
  });
});

describe('freeze', () => {
  it('stops an account, which unfreeze undoes', async () => {
    const ledger = new SqliteStore(file);
    expect(await on('freeze', 'acme')).toEqual(ok('acme: frozen'));
    expect((await ledger.snapshot('acme'))?.frozen).toBe(true);
    expect(await on('unfreeze', 'acme', '--json')).toEqual(ok('{"account":"acme","frozen":false}'));
    expect((await ledger.snapshot('acme'))?.frozen).toBe(false);
    await ledger.close();
  });

  it('ends with 1 when there is no such account', async () => {
    expect(await on('freeze', 'nobody')).toMatchObject({
      code: 1,
      stderr: 'chat-completions-router: there is no account nobody\n',
    });
  });
});

describe('migrate', () => {
  it('refuses while a gateway lives, unless it is forced', async () => {
    const gateway = createChatCompletionsRouter({ store, providers: {}, models: {} });
    await gateway.ready();
    const ledger = new SqliteStore(file);
    await expect.poll(async () => (await ledger.liveGateways()).size).toBe(1);
    await ledger.close();
    const to = `sqlite:${join(folder, 'alive.db')}`;
    const { code, stderr } = await on('migrate', '--to', to);
    expect(code).toBe(1);
    expect(stderr).toMatch(/a gateway uses the old store \(.+ pid \d+, last seen \d+ s ago\): stop it first/);
    expect(stderr).toContain('Or use --force');
    expect((await on('migrate', '--to', to, '--force')).code).toBe(0);
    await gateway.close();
    expect((await on('migrate', '--to', `sqlite:${join(folder, 'closed.db')}`)).code).toBe(0);
  });

  it('moves a file into Redis, and again without a change', async () => {
    const to = `${redis.url}?prefix=moved:`;
    const moved = ok('Moved 1 account with $5.00 available, and 0 keys: verified');
    expect(await on('migrate', '--to', to)).toEqual(moved);
    expect(await on('migrate', '--to', to)).toEqual(moved);
    expect(await run(['credits', 'balance', 'acme', '--store', to])).toEqual(ok(...BALANCE));
    const ledger = new RedisStore(to);
    expect((await ledger.snapshot('acme'))?.lots).toMatchObject([{ id: 'import:lot:g1' }]);
    await ledger.close();
    expect((await run(['verify', '--store', to])).code).toBe(0);
  });

  it('refuses a store that would be gone with it', async () => {
    const { code, stderr } = await on('migrate', '--to', 'memory:');
    expect(code).toBe(2);
    expect(stderr).toContain('--to memory: would be lost');
  });

  it('refuses while requests run, and says which', async () => {
    const ledger = new SqliteStore(file);
    const { now } = await ledger.grant({ account: 'acme', id: 'g1', amount: 5_000_000_000n });
    const requestId = `${now.toString(36).padStart(9, '0')}gate000001`;
    await ledger.admit({ ...admission(1, 1n), requestId, leaseMs: 60_000 });
    await ledger.close();
    const { code, stderr } = await on('migrate', '--to', `sqlite:${join(folder, 'refused.db')}`);
    expect(code).toBe(1);
    expect(stderr).toContain(`account acme can't be migrated: request ${requestId} holds 0.000000001`);
  });
});
