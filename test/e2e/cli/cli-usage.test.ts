import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { completion, error, startFakeProvider } from '../../../src/testing.ts';
import { type Ended, runCli } from '../../helpers/cli.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-usage-'));
const store = `sqlite:${join(folder, 'credits.db')}`;
/** Model IDs are what a host says, or a client behind a pattern. */
const [ODD, MINUS] = ['=1+1,"x"', '-1+cmd'] as const;

/** Of acme two answers and a refusal by one model, of zeta one by each of two others: 9 tokens of prompt, 12 of completion each. */
beforeAll(async () => {
  const provider = await startFakeProvider();
  const pricing = { input: '1', output: '3' };
  const model = { targets: [{ provider: 'p', model: 'm', cost: pricing }], pricing, maxOutputTokens: 100 };
  const router = createChatCompletionsRouter({
    store,
    providers: { p: { baseURL: provider.baseURL } },
    models: { fast: model, [ODD]: model, [MINUS]: model },
    retries: false,
  });
  const ask = async (key: string, name: string): Promise<void> => {
    const request = new Request('http://127.0.0.1/v1/chat/completions', {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: name, messages: [] }),
    });
    await (await router.fetch(request)).text();
  };
  provider.answer(completion(), completion(), error(503), completion(), completion());
  for (const [account, models] of [
    ['acme', ['fast', 'fast', 'fast']],
    ['zeta', [ODD, MINUS]],
  ] as const) {
    const { key } = await router.keys.create({ account });
    await router.credits.grant(account, '1.00', { id: 'g' });
    for (const name of models) await ask(key, name);
  }
  await router.close();
  await provider.close();
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const usage = (...args: string[]): Promise<Ended> => runCli(['usage', ...args, '--store', store]);

describe('usage', () => {
  it('is a table, with the total where there is more than a row', async () => {
    const { code, stdout } = await usage('--by', 'account,model');
    expect(code).toBe(0);
    expect(stdout).toBe(
      [
        'ACCOUNT  MODEL     REQUESTS  ERRORS  ABORTED  PROMPT  CACHED  COMPLETION  REASONING    CHARGED       COST',
        'acme     fast             3       1        0      18       0          24          0   $0.00009   $0.00009',
        'zeta     -1+cmd           1       0        0       9       0          12          0  $0.000045  $0.000045',
        'zeta     =1+1,"x"         1       0        0       9       0          12          0  $0.000045  $0.000045',
        'TOTAL                     5       1        0      36       0          48          0   $0.00018   $0.00018',
        '',
      ].join('\n'),
    );
  });

  it('is by day of the last thirty, unless configured otherwise', async () => {
    const { stdout } = await usage('--account', 'zeta');
    const today = new Date().toISOString().slice(0, 10);
    expect(stdout.split('\n').map((line) => line.split(/ +/).slice(0, 2))).toEqual([
      ['DAY', 'REQUESTS'],
      [today, '2'],
      [''],
    ]);
    expect(await usage('--to', '2020-01-31')).toEqual({ code: 0, stdout: 'no usage\n', stderr: '' });
    expect((await usage('--from', '2020-01-01', '--by', 'total', '--json')).stdout).toMatch(
      /^{"requests":5,/,
    );
  });

  it('is CSV, which no spreadsheet takes for formulas', async () => {
    const { stdout } = await usage('--by', 'model', '--csv');
    expect(stdout.split('\n')).toEqual([
      'model,requests,errors,aborted,promptTokens,cachedTokens,completionTokens,reasoningTokens,charged,cost',
      `'-1+cmd,1,0,0,9,0,12,0,0.000045,0.000045`,
      `"'=1+1,""x""",1,0,0,9,0,12,0,0.000045,0.000045`,
      'fast,3,1,0,18,0,24,0,0.00009,0.00009',
      '',
    ]);
  });

  it('is JSON, an object a line', async () => {
    const { stdout } = await usage('--by', 'account', '--model', 'fast', '--json');
    expect(JSON.parse(stdout)).toEqual({
      account: 'acme',
      requests: 3,
      errors: 1,
      aborted: 0,
      promptTokens: 18,
      cachedTokens: 0,
      completionTokens: 24,
      reasoningTokens: 0,
      charged: '0.00009',
      cost: '0.00009',
    });
  });

  it('groups by the name that the API has for it, too', async () => {
    for (const group of ['provider', 'user,day', 'model', 'tag:feature', 'total']) {
      const { code, stdout } = await usage('--group-by', group, '--csv');
      expect([group, code]).toEqual([group, 0]);
      expect(stdout).toBe((await usage('--by', group, '--csv')).stdout);
    }
    expect((await usage('--group-by=week')).stderr).toContain('--by must be one of day, account, key, model');
    expect((await usage('--help')).stdout).not.toContain('--group-by');
  });

  it.each<[string, string[], string]>([
    [
      'an unknown group',
      ['--by', 'day,week'],
      '--by must be one of day, account, key, model, user, provider, total, got "week"',
    ],
    ['a group twice', ['--by', 'day,day'], '--by must name each group once, got "day,day"'],
    ['a day that is none', ['--from', '2026-02-30'], 'from must be a day'],
    [
      'days the wrong way round',
      ['--from', '2026-02-03', '--to', '2026-02-01'],
      'from must be a day not after to',
    ],
    ['two forms', ['--json', '--csv'], '--json and --csv exclude each other'],
  ])('refuses %s', async (_what, args, message) => {
    const { code, stderr } = await usage(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});
