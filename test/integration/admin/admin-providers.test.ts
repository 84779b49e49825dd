import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { HealthChange, ProviderOptions } from '../../../src/index.ts';
import {
  completion,
  type FakeProvider,
  respond,
  type Script,
  startFakeProvider,
} from '../../../src/testing.ts';
import { type AdminDoor, startAdmin } from '../../helpers/admin.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';

const KEY = 'sk-main-0123456789-wxyz';
const OVERLOADED = respond(503, {
  error: { message: `No capacity\nfor sk-proj-0123456789abcdef and ${KEY}`, code: 'overloaded' },
});
const LIMITS = {
  'x-ratelimit-limit-requests': '5000',
  'x-ratelimit-remaining-requests': '4999',
  'x-ratelimit-reset-requests': '12s',
};

const limits = { pricing: PRICING, contextWindow: 8192, maxOutputTokens: 1000 };

describe('what operators see of providers, and do with them', () => {
  let main: FakeProvider;
  let spare: FakeProvider;
  let gateway: Gateway;
  let door: AdminDoor;
  let providers: Record<'main' | 'spare' | 'idle', ProviderOptions>;
  let changes: HealthChange[];

  beforeEach(async () => {
    main = await startFakeProvider();
    spare = await startFakeProvider();
    changes = [];
    providers = {
      main: { baseURL: main.baseURL, apiKey: KEY },
      spare: { baseURL: spare.baseURL, apiKeys: ['sk-spare-first-one-1', 'sk-spare-second-one2'] },
      idle: { baseURL: 'http://127.0.0.1:9/v1' },
    };
    gateway = await startGateway({
      providers,
      models: {
        'acme/fast': { targets: ['main/large', 'spare/large'], ...limits },
        'acme/alone': { targets: ['main/alone'], ...limits },
      },
      retries: { perTarget: 0 },
      hooks: { onHealthChange: (change) => changes.push(change) },
    });
    door = await startAdmin({ router: gateway.router });
  });

  afterEach(async () => {
    await door.close();
    await gateway.close();
    await main.close();
    await spare.close();
  });

  /** One completion, to its settlement: then it is counted. */
  async function ask(fields: object = {}): Promise<Response> {
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, ...fields });
    await response.text();
    await settled;
    return response;
  }

  function answer(script: Script, other: Script = completion()): void {
    main.answer(script);
    spare.answer(other);
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- what it is, is what the tests say
  async function seen(name: string): Promise<any> {
    const { body } = await door.ask('GET', '/providers');
    return body.data.find((each: { name: string }) => each.name === name);
  }

  it('lists every provider of the options, also those that were never used', async () => {
    const { status, body } = await door.ask('GET', '/providers');
    expect(status).toBe(200);
    expect(body.data.map(({ name, state }: Record<string, string>) => `${name} ${state}`)).toEqual([
      'main unused',
      'spare unused',
      'idle unused',
    ]);
    expect(body.data[0]).toEqual({
      name: 'main',
      state: 'unused',
      changes_reach: 'this_process',
      running: 0,
      recent: { requests: 0, errors: 0 },
      history: [],
      errors: [],
      keys: [{ name: 'key 1 of 1', masked: '…wxyz', state: 'available', limits: [] }],
      limits: [],
      targets: [],
      unused_targets: 2,
    });
  });

  it('counts requests by the minute, with times to the first byte and tokens a second of streams', async () => {
    answer(completion({ tokens: { prompt: 9, completion: 60 }, content: ['one', ' two', ' three'] }));
    const before = Date.now();
    await ask({ stream: true });
    await ask({ stream: true });
    const provider = await seen('main');
    expect(provider).toMatchObject({ state: 'healthy', running: 0, unused_targets: 1 });
    const stats = {
      requests: 2,
      errors: 0,
      error_rate: 0,
      first_byte_p50_ms: expect.any(Number),
      first_byte_p95_ms: expect.any(Number),
      tokens_per_second: expect.any(Number),
      prompt_tokens: 18,
      cached_tokens: 0,
    };
    expect(provider.recent).toEqual(stats);
    expect(provider.targets).toMatchObject([{ model: 'large', state: 'healthy', recent: stats }]);
    expect(Date.parse(provider.since)).toBeGreaterThanOrEqual(before);
    const total = provider.history.reduce(
      (sum: number, { requests }: { requests: number }) => sum + requests,
      0,
    );
    expect(total).toBe(2);
    for (const { at } of provider.history) expect(Date.parse(at) % 60_000).toBe(0);
  });

  it('shows what is used of limits, by each key and for each target, and how many requests wait', async () => {
    const { main: provider, ...others } = providers;
    const target = { provider: 'main', model: 'large', limits: { concurrentRequests: 1 } };
    const model = { ...limits, targets: [target], wait: { most: 7 } };
    gateway.router.reload({
      providers: {
        ...others,
        main: { ...provider, limits: { requestsPerMinute: 3, tokensPerMinute: 9000 } },
      },
      models: { 'acme/fast': model, 'acme/alone': { ...limits, targets: ['idle/none'] } },
    });
    const held: (() => void)[] = [];
    main.answer((...given) => new Promise((resolve) => held.push(() => resolve(completion()(...given)))));
    const asked = [gateway.post(QUESTION), gateway.post(QUESTION)];
    await expect.poll(() => held.length).toBe(1);
    const waiting = async (): Promise<unknown> => (await door.ask('GET', '/providers')).body.waiting;
    await expect.poll(waiting).toEqual([{ model: 'acme/fast', waiting: 1, most: 7 }]);
    const tokens = expect.any(Number);
    expect((await seen('main')).limits).toEqual([
      {
        key: 'key 1 of 1',
        requests_per_minute: { limit: 3, used: 1, left: 2 },
        tokens_per_minute: { limit: 9000, used: tokens, left: tokens },
      },
      { key: 'key 1 of 1', model: 'large', concurrent_requests: { limit: 1, used: 1, left: 0 } },
    ]);
    held.shift()?.();
    await expect.poll(() => held.length).toBe(1);
    held.shift()?.();
    for (const response of await Promise.all(asked)) expect(response.status).toBe(200);
    await expect.poll(async () => (await seen('main')).running).toBe(0);
    expect((await seen('main')).limits).toMatchObject([
      { requests_per_minute: { used: 2, left: 1 } },
      { concurrent_requests: { used: 0, left: 1 } },
    ]);
    expect(await waiting()).toEqual([{ model: 'acme/fast', waiting: 0, most: 7 }]);
    expect(JSON.stringify(await door.ask('GET', '/providers'))).not.toContain(KEY);
  });

  it('sends a running request to no other target that is ejected meanwhile', async () => {
    main.answer(async (response, request) => {
      await gateway.router.providers.eject('spare');
      await OVERLOADED(response, request);
    });
    spare.answer(completion());
    expect((await gateway.post(QUESTION)).status).toBe(503);
    expect([main.requests.length, spare.requests.length]).toEqual([1, 0]);
  });

  it('tells the last errors in the words of the provider, with secrets masked', async () => {
    answer(OVERLOADED);
    const response = await ask();
    expect(response.status).toBe(200);
    expect(await seen('main')).toMatchObject({
      state: 'degraded',
      recent: { requests: 1, errors: 1, error_rate: 1 },
      errors: [
        {
          at: expect.any(String),
          model: 'large',
          request_id: response.headers.get('x-request-id'),
          status: 503,
          code: 'upstream_error_status',
          provider_code: 'overloaded',
          message: `No capacity for *** and ${'*'.repeat(KEY.length)}`,
        },
      ],
      targets: [{ model: 'large', state: 'degraded', failures_in_a_row: 1 }],
    });
    expect((await seen('spare')).state).toBe('healthy');
  });

  it('counts an error in an answer with status 200, which the client got', async () => {
    answer(respond(200, { error: { message: 'out of memory' } }));
    await ask({ model: 'acme/alone' });
    expect(await seen('main')).toMatchObject({
      recent: { requests: 1, errors: 1 },
      errors: [{ status: 200, code: 'upstream_invalid_response', message: 'out of memory' }],
    });
  });

  it('tells of connections that failed, by the code of the system', async () => {
    await main.close();
    answer(OVERLOADED);
    await ask();
    const { errors } = await seen('main');
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatchObject({ code: 'upstream_unreachable', provider_code: 'ECONNREFUSED' });
    expect(errors[0].status).toBeUndefined();
    main = await startFakeProvider();
  });

  it('keeps the last twenty errors of a provider, newest first', async () => {
    answer(OVERLOADED);
    const ids: (string | null)[] = [];
    for (let n = 0; n < 25; n++) {
      // An ejected target is still tried, where it is the only one.
      ids.unshift((await ask({ model: 'acme/alone' })).headers.get('x-request-id'));
    }
    const { errors } = await seen('main');
    expect(errors.map(({ request_id: id }: { request_id: string }) => id)).toEqual(ids.slice(0, 20));
  });

  it('says of an ejected target until when, and counts its provider degraded while another works', async () => {
    answer(OVERLOADED);
    for (let n = 0; n < 5; n++) await ask({ model: 'acme/alone' });
    const [alone] = (await seen('main')).targets;
    expect(alone).toMatchObject({
      model: 'alone',
      state: 'ejected',
      failures_in_a_row: 5,
      some_accounts_only: true,
    });
    expect(alone.retry_in_ms).toBeGreaterThan(0);
    expect(alone.retry_in_ms).toBeLessThanOrEqual(6000);
    expect(Date.parse(alone.retry_at)).toBeGreaterThan(Date.parse(alone.since));
    expect((await seen('main')).state).toBe('ejected');
    answer(completion());
    await ask();
    expect((await seen('main')).state).toBe('degraded');
  });

  it('names keys without showing them, with what is left of their limits', async () => {
    answer(OVERLOADED, (response, request) => {
      const isFirst = request.headers.authorization === 'Bearer sk-spare-first-one-1';
      if (isFirst)
        return respond(401, { error: { message: 'bad key sk-spare-first-one-1' } })(response, request);
      return respond(
        200,
        { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } },
        LIMITS,
      )(response, request);
    });
    const before = Date.now();
    await ask();
    const { keys, errors } = await seen('spare');
    expect(keys).toMatchObject([
      { name: 'key 1 of 2', masked: '…ne-1', state: 'refused', until: expect.any(String), limits: [] },
      {
        name: 'key 2 of 2',
        state: 'available',
        limits: [{ model: 'large', name: 'requests', limit: 5000, remaining: 4999 }],
      },
    ]);
    expect(Date.parse(keys[1].limits[0].reset_at)).toBeGreaterThanOrEqual(before + 12_000);
    expect(errors).toMatchObject([
      { status: 401, code: 'upstream_refused_credentials', message: `bad key ${'*'.repeat(20)}` },
    ]);
    expect(JSON.stringify(await seen('spare'))).not.toContain('sk-spare');
  });

  it('says of the only key what the provider said last', async () => {
    const stateOf = async (script: Script): Promise<string> => {
      answer(script);
      await ask({ model: 'acme/alone' });
      const [key] = (await seen('main')).keys;
      expect(key.until).toBeUndefined();
      return key.state;
    };
    expect(await stateOf(respond(401, { error: { message: 'no' } }))).toBe('refused');
    expect(await stateOf(completion())).toBe('available');
    expect(await stateOf(respond(429, { error: { message: 'slow' } }, { 'retry-after': '60' }))).toBe(
      'rate_limited',
    );
  });

  it('ejects a target by hand: it is not chosen, and who did it is told', async () => {
    answer(completion());
    const eject = { target: 'large', reason: 'wrong answers' };
    const { status, body } = await door.ask('POST', '/providers/main/eject', eject);
    expect(status).toBe(200);
    expect(body.targets).toMatchObject([
      { model: 'large', state: 'ejected', ejection: { by: 'ada', reason: 'wrong answers' } },
    ]);
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
    expect([main.requests.length, spare.requests.length]).toEqual([0, 3]);
    expect((await ask({ model: 'acme/alone' })).status).toBe(200);
    expect(door.audits).toMatchObject([
      {
        action: 'providers.eject',
        operator: 'ada',
        target: 'main/large',
        outcome: 'done',
        body: eject,
        before: { name: 'main', model: 'large' },
        after: { name: 'main', model: 'large', state: 'ejected', ejection: { reason: 'wrong answers' } },
      },
    ]);
    expect(changes).toEqual([
      {
        type: 'target_ejected',
        provider: 'main',
        model: 'large',
        failuresInARow: 0,
        byHand: true,
        by: 'ada',
        reason: 'wrong answers',
      },
    ]);
  });

  it('refuses the models of an ejected provider with a 503 until it is readmitted', async () => {
    answer(completion());
    await door.ask('POST', '/providers/main/eject', {});
    const refused = await gateway.post({ ...QUESTION, model: 'acme/alone' });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({
      error: { code: 'targets_ejected', type: 'upstream_error' },
    });
    expect(refused.headers.get('x-should-retry')).toBe('false');
    expect(refused.headers.has('retry-after')).toBe(false);
    expect((await ask()).status).toBe(200);
    expect((await seen('main')).state).toBe('ejected');

    const { body } = await door.ask('POST', '/providers/main/readmit', {});
    expect(body.ejection).toBeUndefined();
    expect((await ask({ model: 'acme/alone' })).status).toBe(200);
    expect(changes.map(({ type, model }) => [type, model])).toEqual([
      ['target_ejected', '*'],
      ['target_recovered', '*'],
    ]);
    expect(door.audits.map(({ action, target }) => [action, target])).toEqual([
      ['providers.eject', 'main'],
      ['providers.readmit', 'main'],
    ]);
  });

  it('says when an ejection for a time is over', async () => {
    answer(completion());
    const { body } = await door.ask('POST', '/providers/main/eject', { for_ms: 90_000 });
    expect(body.retry_in_ms).toBeGreaterThan(80_000);
    expect(body.retry_at).toBe(body.ejection.until);
    const refused = await gateway.post({ ...QUESTION, model: 'acme/alone' });
    expect(refused.headers.get('x-should-retry')).toBe('true');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(80);
  });

  it('readmits a target that failures have ejected', async () => {
    answer(OVERLOADED);
    for (let n = 0; n < 5; n++) await ask();
    expect((await seen('main')).targets).toMatchObject([{ state: 'ejected' }]);
    const { body } = await door.ask('POST', '/providers/main/readmit', { target: 'large' });
    expect(body.targets).toMatchObject([{ model: 'large', failures_in_a_row: 0 }]);
    expect(body.targets[0].retry_at).toBeUndefined();
    answer(completion());
    const asked = main.requests.length;
    await ask();
    expect(main.requests).toHaveLength(asked + 1);
  });

  it.each([
    ['/providers/nobody/eject', {}, 404, 'provider_not_found'],
    ['/providers/nobody/readmit', {}, 404, 'provider_not_found'],
    ['/providers/main/eject', { target: 'small' }, 400, 'invalid_value'],
    ['/providers/main/eject', { for_ms: 0 }, 400, 'invalid_value'],
    ['/providers/main/eject', { reason: 'x'.repeat(201) }, 400, 'invalid_value'],
    ['/providers/main/eject', { because: 'x' }, 400, 'unsupported_parameter'],
  ])('refuses POST %s with %j', async (path, sent, status, code) => {
    const { status: got, body } = await door.ask('POST', path, sent);
    expect([got, body.error.code]).toEqual([status, code]);
    expect((await seen('main')).state).toBe('unused');
  });

  it('does the same for the host, in JavaScript', async () => {
    const { providers } = gateway.router;
    const ejected = await providers.eject('spare', {
      target: 'large',
      forMs: 60_000,
      by: 'deploy',
      reason: 'leaked sk-proj-0123456789abcdef',
    });
    const ejection = { by: 'deploy', reason: 'leaked ***' };
    expect(ejected.targets).toMatchObject([{ state: 'ejected', ejection }]);
    expect(gateway.router.health()).toMatchObject([{ provider: 'spare', model: 'large', state: 'ejected' }]);
    expect((await providers.readmit('spare')).targets).toEqual([]);
    await expect(providers.eject('spare', { target: 'none' })).rejects.toThrow(
      new TypeError('target must be one of large, got "none"'),
    );
    await expect(providers.eject('none')).rejects.toThrow(
      new TypeError('provider must be one of main, spare, idle, got "none"'),
    );
  });
});
