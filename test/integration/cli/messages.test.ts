import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { run } from './run-in-process.ts';

const SESSION = ['sessions', 'create', 'acme', '--max-spend', '1', '--origins', 'https://chat.example.com'];

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-messages-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** Makes `credits.db` with an account, and a config that can sign sessions. */
async function grantAcme(): Promise<void> {
  const config = {
    store: `sqlite:${folder}/credits.db`,
    providers: {},
    models: {},
    sessions: { secret: 'a secret of the test, of 32 characters or more' },
  };
  writeFileSync(join(folder, 'chat-completions-router.config.json'), JSON.stringify(config));
  await run(['credits', 'grant', 'acme', '5.00', '--id', 'welcome'], { folder });
}

describe('a command', () => {
  it('that may create a store says who does, where its file does not exist', async () => {
    const { code, stderr } = await run(['keys', 'create', 'acme', '--store', 'sqlite:./no.db'], { folder });
    expect(code).toBe(1);
    expect(stderr).toBe(
      'chat-completions-router: file not found: ./no.db; the app creates it when it gets its first request, and this command creates the store of a --config FILE\n',
    );
    expect(existsSync(join(folder, 'no.db'))).toBe(false);
  });

  it.each<[string, string[], string]>([
    ['an adjustment of nothing', ['credits', 'adjust', 'acme', '0'], 'delta must not be 0, got 0'],
    [
      'a limit of nothing',
      ['keys', 'create', 'acme', '--requests-per-minute', '0'],
      '--requests-per-minute must be 1 or more, got 0',
    ],
    [
      'a limit of nothing for end users',
      ['accounts', 'update', 'acme', '--end-users', 'tokens-per-minute=0'],
      'tokens-per-minute of --end-users must be 1 or more, got 0',
    ],
    ['a session without time', [...SESSION, '--ttl', '0'], '--ttl must be 1 or more, got 0'],
    ['a session of a month', [...SESSION, '--ttl', '2592000'], '--ttl must be at most 86400, got 2592000'],
    [
      'usage by what goes not together',
      ['usage', '--by', 'user,model'],
      '--by: user goes with day and account alone, not with model',
    ],
    [
      'usage by end user of a model',
      ['usage', '--by', 'day,tag:feature', '--model', 'm'],
      '--by: tag:feature goes with day and account alone, not with --model',
    ],
    [
      'an unknown subcommand',
      ['keys', 'bogus'],
      'unknown command "keys bogus"; keys takes create, list, get',
    ],
    [
      'an option given twice',
      ['keys', 'create', 'acme', '--budget', '1.00/hour', '--budget=20.00/month'],
      '--budget is given twice',
    ],
    ['no subcommand', ['keys', '--json'], 'keys requires a subcommand: create, list, get'],
  ])('names what was typed: %s', async (_what, args, message) => {
    await grantAcme();
    const env = { CREDITS_STORE: 'sqlite:./credits.db' };
    const needed = args[1] === 'adjust' ? ['--id', 'a1', '--reason', 'none'] : [];
    const { code, stderr } = await run([...args, ...needed], { folder, env });
    expect(stderr).toContain(`chat-completions-router: ${message}`);
    expect(code).toBe(2);
  });

  it.each([
    ['standalone', 'npx chat-completions-router serve --env-file .env'],
    ['express', 'node --env-file=.env APP   # your app, with these variables'],
    ['next', 'npx chat-completions-router credits grant acme 5.00 --id welcome --env-file .env'],
  ])('ends with how to start with the keys in .env: init of %s', async (app, last) => {
    const { stdout } = await run(['init', '--app', app, '--providers', 'openai'], { folder });
    expect(stdout).toMatch(/Put into \.env, .*OPENAI_API_KEY=\n/s);
    expect(stdout.trimEnd().split('\n').at(-1)).toBe(`  ${last}`);
  });

  it('ends without a start of the app where no key is missing', async () => {
    const env = { OPENAI_API_KEY: 'sk-test' };
    const { stdout } = await run(['init', '--app', 'express', '--providers', 'openai'], { folder, env });
    expect(stdout).not.toContain('.env');
  });

  it('says up to where a journal was compacted, which may end before', async () => {
    await grantAcme();
    const env = { CREDITS_STORE: 'sqlite:./credits.db' };
    const { stdout } = await run(['credits', 'compact', 'acme', '99999'], { folder, env });
    expect(stdout).toBe('acme: compacted up to 1\n');
  });
});

describe('a date', () => {
  const env = { CREDITS_STORE: 'sqlite:./credits.db' };

  it.each([
    '2027-01-31T00:00',
    '2027-01-31 10:00',
    '2027-01-31T24:00',
    '2027-01-31 (x)',
    '2027-01-31 PST',
    '2027-01-31T10:00+0100',
    '2027-02-31T10:00Z',
  ])('is not of the time zone of the machine, or anything else: %s', async (value) => {
    await grantAcme();
    const allow = ['credits', 'allow', 'acme', '5', '--id', 'pro', '--per', 'month'];
    for (const args of [
      ['credits', 'grant', 'acme', '1', '--id', 'g', '--expires'],
      ['keys', 'create', 'acme', '--expires'],
      [...allow, '--anchor'],
      [...allow, '--until'],
      ['requests', 'list', '--from'],
      ['requests', 'list', '--to'],
    ]) {
      const { code, stderr } = await run([...args, value], { folder, env });
      expect([code, stderr.split('\n')[0]]).toEqual([
        2,
        `chat-completions-router: ${args.at(-1)} must be a day such as 2027-01-31, in UTC, or a time with Z or an offset such as 2027-01-31T00:00Z, got ${JSON.stringify(value)}`,
      ]);
    }
  });

  it.each([
    ['2099-01-31', '2099-01-31T00:00:00.000Z'],
    ['2099-01-31T12:00Z', '2099-01-31T12:00:00.000Z'],
    ['2099-01-31T12:00:01.5+01:00', '2099-01-31T11:00:01.500Z'],
    // As Python and Go write it.
    ['2099-01-31T12:00:01.123456+00:00', '2099-01-31T12:00:01.123Z'],
    ['2099-01-31T12:00:01.123456789Z', '2099-01-31T12:00:01.123Z'],
  ])('is a day in UTC, or a time with its zone: %s', async (value, expiresAt) => {
    await grantAcme();
    const created = await run(['keys', 'create', 'acme', '--json', '--expires', value], { folder, env });
    expect(JSON.parse(created.stdout)).toMatchObject({ expiresAt });
  });
});
