import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { completion, type FakeProvider, respond, startFakeProvider } from '../../../src/testing.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import type { Ended } from '../../helpers/cli.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { run } from './run-in-process.ts';

describe('the commands providers', () => {
  let main: FakeProvider;
  let gateway: Gateway;
  let door: AdminDoor;

  beforeEach(async () => {
    main = await startFakeProvider();
    gateway = await startGateway({
      providers: { main: { baseURL: main.baseURL, apiKey: 'sk-main-0123456789-wxyz' } },
      models: {
        'acme/fast': {
          targets: ['main/vendor/large'],
          pricing: PRICING,
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
      },
      retries: false,
    });
    door = await startAdmin({ router: gateway.router });
  });

  afterEach(async () => {
    await door.close();
    await gateway.close();
    await main.close();
  });

  const command = (...args: string[]): Promise<Ended> =>
    run(['providers', ...args, '--url', door.baseURL], { folder: '.', env: { ADMIN_TOKEN: OPERATOR_TOKEN } });

  async function ask(): Promise<Response> {
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    await response.text();
    await settled;
    return response;
  }

  it('show states, errors and keys as tables', async () => {
    main.answer(respond(503, { error: { message: 'no capacity', code: 'overloaded' } }));
    const { headers } = await ask();
    main.answer(completion());
    await ask();
    const { stdout, stderr, code } = await command();
    expect([code, stderr]).toEqual([0, '']);
    const rows = stdout.split('\n').map((line) => line.split(/ {2,}/));
    expect(rows[0]).toEqual([
      'PROVIDER',
      'MODEL',
      'STATE',
      'SINCE',
      'RETRY AT',
      'RUNNING',
      'REQUESTS',
      'ERRORS',
      'FIRST BYTE P50 MS',
      'FIRST BYTE P95 MS',
      'TOKENS PER SECOND',
      'PROMPT TOKENS',
      'CACHED TOKENS',
    ]);
    expect(rows[1]?.slice(0, 3)).toEqual(['main', '–', 'healthy']);
    expect(rows[2]?.slice(0, 3)).toEqual(['main', 'vendor/large', 'healthy']);
    expect(rows[2]?.slice(5, 8)).toEqual(['0', '2', '1']);

    const errors = (await command('--errors')).stdout.split('\n');
    const id = headers.get('x-request-id');
    expect(errors[1]).toMatch(
      new RegExp(`^\\S+Z +main +vendor/large +${id} +503 +upstream_error_status +overloaded +no capacity$`),
    );
    expect(JSON.parse((await command('--errors', '--json')).stdout)).toMatchObject({
      provider: 'main',
      request_id: id,
    });
    expect((await command('--keys')).stdout).toMatch(/^main +key 1 of 1 +…wxyz +available +–/m);
  });

  it('show what is used of limits, and how many requests wait', async () => {
    expect((await command('--limits')).stdout).toBe('no limits\n');
    expect((await command('--waiting')).stdout).toBe('no model has the option wait\n');
    gateway.router.reload({
      models: {
        'acme/fast': {
          targets: [
            {
              provider: 'main',
              model: 'vendor/large',
              limits: { requestsPerMinute: 9, concurrentRequests: 2 },
            },
          ],
          pricing: PRICING,
          maxOutputTokens: 1000,
          wait: {},
        },
      },
    });
    main.answer(completion());
    await ask();
    expect((await command('--limits', '--csv')).stdout).toBe(
      'provider,model,key,name,used,left,limit,processes\n' +
        'main,vendor/large,key 1 of 1,requests_per_minute,1,8,9,\n' +
        'main,vendor/large,key 1 of 1,concurrent_requests,0,2,2,\n',
    );
    expect(JSON.parse((await command('--waiting', '--json')).stdout)).toEqual({
      model: 'acme/fast',
      waiting: 0,
      most: 200,
    });
  });

  it('print JSON and CSV', async () => {
    const { stdout } = await command('--json');
    expect(JSON.parse(stdout)).toEqual((await door.ask('GET', '/providers')).body.data[0]);
    expect((await command('--csv')).stdout).toBe(
      'provider,model,state,since,retry_at,running,requests,errors,first_byte_p50_ms,first_byte_p95_ms,tokens_per_second,prompt_tokens,cached_tokens\n' +
        'main,,unused,,,0,0,0,,,,,\n',
    );
    expect((await command('--csv', '--errors')).stdout.split('\n')).toHaveLength(2);
    expect((await command('--errors')).stdout).toBe('no errors\n');
  });

  it('eject and readmit, by the name of the operator that the token is', async () => {
    const eject = await command('eject', 'main/vendor/large', '--reason', 'wrong answers', '--for', '600');
    expect(eject.stdout).toMatch(
      /^main\/vendor\/large: ejected until 20\S+Z, in the process that answered\n$/,
    );
    expect(gateway.router.providers.list()).toMatchObject([
      { targets: [{ model: 'vendor/large', ejection: { by: 'ada', reason: 'wrong answers' } }] },
    ]);
    expect((await gateway.post(QUESTION)).status).toBe(503);
    expect((await command('readmit', 'main/vendor/large')).stdout).toBe(
      'main/vendor/large: unused, in the process that answered\n',
    );
    expect((await command('eject', 'main')).stdout).toBe('main: ejected, in the process that answered\n');
    expect((await command('readmit', 'main')).stdout).toBe('main: unused, in the process that answered\n');
    expect((await ask()).status).toBe(200);
  });

  it.each([
    [['eject', 'nobody'], 1, 'There is no provider "nobody". Providers: main.'],
    [['eject', 'main/none'], 1, 'target must be one of vendor/large, got "none".'],
    [['eject', 'main', '--for', 'ever'], 2, '--for must be a whole number, got "ever"'],
    [['weight', 'acme/fast', 'main', 'x'], 2, 'WEIGHT must be a number of 0 or more, got "x"'],
    [['weight', 'acme/none', 'main', '1'], 1, 'There is no model "acme/none".'],
    [['weight', 'acme/fast', 'no', '1'], 1, 'acme/fast has no target "no". Targets: main/vendor/large.'],
    [
      ['weight', 'acme/fast', 'main', '1'],
      1,
      'Requests of acme/fast are not spread by weight: its strategy is ordered.',
    ],
    [['--errors', '--keys'], 2, '--errors and --keys exclude each other'],
    [['--limits', '--waiting'], 2, '--limits and --waiting exclude each other'],
    [['--csv', '--json'], 2, '--json and --csv exclude each other'],
  ])('say what is wrong with %j', async (args, code, message) => {
    const ended = await command(...args);
    expect(ended.code).toBe(code);
    expect(ended.stderr).toContain(message);
  });

  it('say what is wrong with the URL or the token', async () => {
    const ofEnv = (url: string, env: Record<string, string>): Promise<Ended> =>
      run(['providers', '--url', url], { folder: '.', env });
    expect(await ofEnv(door.baseURL, {})).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'the admin API requires a token: set ADMIN_TOKEN, or use --env-file FILE',
      ),
    });
    expect(await ofEnv('localhost', { ADMIN_TOKEN: 'x' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        '--url must be an absolute http(s) URL without a query and without a password, got "localhost"',
      ),
    });
    const wrong = await ofEnv(door.baseURL, { ADMIN_TOKEN: 'wrong-token' });
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).not.toContain('wrong-token');
  });
});
