import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { resolveProvider } from '../../../src/catalog/resolve-provider.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { ProviderKeys } from '../../../src/upstream/provider-keys.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Script } from '../../helpers/provider.ts';

const settings = resolveSettings({ store: 'memory:', providers: {}, models: {} });

/** What some say of a key with a 400. */
const REFUSED_WITH_400 = [
  [
    'LiteLLM 1.83 without a database',
    '{"error":{"message":"No connected db.","type":"no_db_connection","param":null,"code":"400"}}',
  ],
  [
    'Gemini',
    '[{\n  "error": {\n    "code": 400,\n    "message": "API key not valid. Please pass a valid API key.",\n' +
      '    "status": "INVALID_ARGUMENT",\n    "details": [\n      {\n' +
      '        "@type": "type.googleapis.com/google.rpc.ErrorInfo",\n        "reason": "API_KEY_INVALID",\n' +
      '        "domain": "googleapis.com"\n      }\n    ]\n  }\n}\n]',
  ],
  [
    'xAI',
    '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: sk***et. ' +
      'You can obtain an API key from https://console.x.ai."}',
  ],
] as const;

describe('the keys of a provider', () => {
  const provider = resolveProvider('groq', { apiKeys: ['sk-1', async () => 'sk-2', () => 'sk-3'] }, settings);
  let now = 0;
  let keys: ProviderKeys;

  beforeEach(() => {
    now = 0;
    keys = new ProviderKeys(() => now);
  });

  const turn = (): Promise<string[]> => Promise.all(keys.keysFor(provider).map(async (key) => key.read()));
  const setAside = (name: string): void =>
    keys
      .keysFor(provider)
      .find((key) => key.name === name)!
      .eject();

  it('are used in turn', async () => {
    expect(await turn()).toEqual(['sk-1', 'sk-2', 'sk-3']);
    expect(await turn()).toEqual(['sk-2', 'sk-3', 'sk-1']);
    expect(await turn()).toEqual(['sk-3', 'sk-1', 'sk-2']);
    expect(await turn()).toEqual(['sk-1', 'sk-2', 'sk-3']);
  });

  it('that were set aside come back after a minute', async () => {
    setAside('key 1 of 3');
    expect(await turn()).toEqual(['sk-2', 'sk-3']);
    now = 59_999;
    expect(await turn()).toEqual(['sk-3', 'sk-2']);
    now = 60_000;
    expect(await turn()).toEqual(['sk-1', 'sk-2', 'sk-3']);
  });

  it('that were all set aside are used as that which was set aside first', async () => {
    for (const name of ['key 2 of 3', 'key 1 of 3', 'key 3 of 3']) {
      now += 1;
      setAside(name);
    }
    expect(await turn()).toEqual(['sk-2']);
    keys.keysFor(provider)[0]!.eject();
    now += 1;
    expect(await turn()).toEqual(['sk-1']);
  });

  it('that are limited for a model are used for others, and for it when the limit is over', async () => {
    const [first, second] = keys.keysFor(provider, 'm');
    first!.limit('m', 5000);
    expect(keys.waitMs(provider, 'm')).toBe(0);
    const namesFor = (model: string): string[] => keys.keysFor(provider, model).map(({ name }) => name);
    expect(namesFor('m')).toEqual(['key 2 of 3', 'key 3 of 3']);
    expect(namesFor('other')).toHaveLength(3);
    second!.limit('m', 7000);
    keys
      .keysFor(provider, 'm')
      .find(({ name }) => name === 'key 3 of 3')!
      .limit('m', 6000);
    now = 1000;
    expect(keys.waitMs(provider, 'm')).toBe(4000);
    expect(namesFor('m')).toEqual(['key 1 of 3']);
    now = 6000;
    expect(namesFor('m').toSorted()).toEqual(['key 1 of 3', 'key 3 of 3']);
  });

  it('are limited until the last of their limits is over', () => {
    const only = resolveProvider('openai', { apiKey: 'sk-1' }, settings);
    const [key] = keys.keysFor(only, 'm');
    for (const forMs of [5000, 1000, 6000, 2000]) key!.limit('m', forMs);
    expect(keys.waitMs(only, 'm')).toBe(6000);
  });

  it('have a bounded memory of limits', () => {
    const [key] = keys.keysFor(provider);
    for (let i = 0; i < 1000; i++) key!.limit(`m${i}`, 5000);
    const isFree = (model: string): boolean =>
      keys.keysFor(provider, model).some(({ name }) => name === key!.name);
    expect([isFree('m0'), isFree('m999')]).toEqual([true, false]);
  });

  it('have turns of their own at each provider', async () => {
    const other = resolveProvider('openai', { apiKeys: ['sk-a', 'sk-b'] }, settings);
    await turn();
    expect(await keys.keysFor(other)[0]!.read()).toBe('sk-a');
  });

  it('are none where it takes none', () => {
    expect(keys.keysFor(resolveProvider('ollama', {}, settings))).toEqual([]);
  });
});

describe('a provider with several keys', () => {
  const SECRETS = ['sk-first-secret', 'sk-second-secret', 'sk-third-secret'];
  let gateway: Gateway;
  /** What is said to a key, where it isn't an answer. */
  let refusals: Map<string, Script>;

  const start = async (options: Parameters<typeof startGateway>[0] = {}): Promise<void> => {
    refusals = new Map();
    gateway = await startGateway({
      provider: { apiKey: undefined, apiKeys: SECRETS } as object,
      ...options,
    });
    gateway.provider.script = (response, request) =>
      (refusals.get(keyOf(request)) ?? answerJson(completionBody()))(response, request);
  };

  beforeEach(() => start());

  afterEach(async () => {
    await gateway.close();
  });

  const used = (): string[] => gateway.provider.received.map(keyOf);

  it('is asked with one after another', async () => {
    for (let i = 0; i < 4; i++) await gateway.post(QUESTION);
    expect(used()).toEqual([...SECRETS, 'sk-first-secret']);
  });

  it.each<[string, Script]>([
    ['401', answerJson('{"error":{"message":"Incorrect API key: sk-first"}}', 401)],
    ['402', answerJson('{"error":{"message":"Insufficient Balance"}}', 402)],
    ['403', answerJson('{}', 403)],
    ...REFUSED_WITH_400.map(([who, body]): [string, Script] => [`a 400 of ${who}`, answerJson(body, 400)]),
    [
      'a 429 of a spent quota',
      answerJson('{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}', 429),
    ],
    ['a 429 of an empty account', answerJson('{"error":{"code":"1113","message":"余额不足"}}', 429)],
    ['a 429 in Moonshot’s words', answerJson('{"error":{"type":"exceeded_current_quota_error"}}', 429)],
  ])('goes on with the next one after %s, which the client never sees', async (_status, script) => {
    refusals.set('sk-first-secret', script);
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(await response.text()).toBe(completionBody());
    expect(used()).toEqual(['sk-first-secret', 'sk-second-secret']);
    expect(await settled).toMatchObject({ charged: '0.000045' });

    await gateway.post(QUESTION);
    await gateway.post(QUESTION);
    expect(used().slice(2)).not.toContain('sk-first-secret');
  });

  it.each([
    [
      'OpenRouter',
      '{"error":{"code":403,"message":"acme/m requires moderation. Your input was flagged for \\"violence\\".",' +
        '"metadata":{"reasons":["violence"],"flagged_input":"…","provider_name":"Acme"}}}',
    ],
    [
      'xAI (sub2api #5359)',
      '{"code":"permission-denied","error":"Content violates usage guidelines. Team: t-1, API key ID: k-1, Model: m"}',
    ],
  ])('is not set aside for what a client has said: %s', async (_who, body) => {
    for (const secret of SECRETS) refusals.set(secret, answerJson(body, 403));
    for (const _ of [1, 2, 3, 4, 5, 6]) {
      const response = await gateway.post(QUESTION);
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual({
        error: {
          message: "The model's provider refused this request because of its content (403).",
          type: 'invalid_request_error',
          param: null,
          code: 'content_policy_violation',
        },
      });
    }
    expect(used()).toEqual([...SECRETS, ...SECRETS]);
    expect(gateway.router.health()).toMatchObject([{ state: 'healthy', failuresInARow: 0 }]);
    expect(gateway.errors).toEqual([]);
    await expect
      .poll(() => gateway.router.credits.balance('acct'))
      .toMatchObject({ balance: '5.00', held: '0.00' });
  });

  it('tells its operator which one it was, and never what it is', async () => {
    refusals.set(
      'sk-first-secret',
      answerJson('{"error":{"message":"Incorrect API key: sk-first-secret"}}', 401),
    );
    await gateway.post(QUESTION);
    expect(gateway.errors.map(({ message }) => message)).toEqual([
      'Provider "loopback": key 1 of 3 is not used for one minute: the provider rejected it (401)',
    ]);
    expect(gateway.errors).toMatchObject([
      {
        provider: 'loopback',
        model: 'upstream-model',
        cause: { message: 'Incorrect API key: ***', status: 401 },
      },
    ]);
    expect(JSON.stringify(gateway.errors)).not.toContain('secret');
  });

  it('is as one without a key once all were refused', async () => {
    for (const secret of SECRETS) refusals.set(secret, answerJson('{}', 401));
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_refused_credentials' } });
    expect(used()).toEqual(SECRETS);
    // Then the one that failed longest ago is tried, once a request: it may be paid again.
    refusals.clear();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(used().slice(3)).toEqual(['sk-first-secret']);
  });

  it.each(REFUSED_WITH_400)('is as one without a key where a 400 says so of all: %s', async (_who, body) => {
    for (const secret of SECRETS) refusals.set(secret, answerJson(body, 400));
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(response.status).toBe(502);
    expect(await response.json()).toEqual({
      error: {
        message:
          "The model's provider rejected this server's own credentials (400). The operator has been notified.",
        type: 'upstream_error',
        param: null,
        code: 'upstream_refused_credentials',
      },
    });
    expect(used()).toEqual(SECRETS);
  });

  it('shows the client a 429 where all quotas are spent', async () => {
    const body = '{"error":{"code":"insufficient_quota"}}';
    for (const secret of SECRETS) refusals.set(secret, answerJson(body, 429, { 'retry-after': '60' }));
    const response = await gateway.post(QUESTION);
    expect([response.status, await response.text()]).toEqual([429, body]);
    expect(used()).toEqual(SECRETS);
  });

  const HASTE = '{"error":{"code":"rate_limit_exceeded"}}';
  const hasty = (headers: Record<string, string>): Script => answerJson(HASTE, 429, headers);

  it('goes on with the next key after a 429 for haste, for as long as the first is limited', async () => {
    refusals.set('sk-first-secret', hasty({ 'retry-after': '30' }));
    for (const _ of [1, 2, 3, 4, 5]) expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(used().filter((key) => key === 'sk-first-secret')).toHaveLength(1);
    expect(gateway.errors).toEqual([]);
    expect(gateway.router.health()).toMatchObject([{ state: 'healthy', failuresInARow: 0 }]);
  });

  it('shows a 429 only where all keys are limited, with the shortest wait of them', async () => {
    refusals.set('sk-first-secret', hasty({ 'retry-after': '30' }));
    refusals.set('sk-second-secret', hasty({ 'retry-after-ms': '7000' }));
    refusals.set(
      'sk-third-secret',
      hasty({ 'x-ratelimit-reset-tokens': '2m', 'x-ratelimit-remaining-tokens': '0' }),
    );
    const response = await gateway.post(QUESTION);
    expect([response.status, await response.text()]).toEqual([429, HASTE]);
    expect(response.headers.get('retry-after')).toBe('7');
    expect(Number(response.headers.get('retry-after-ms'))).toBeGreaterThan(5000);
    expect(used()).toEqual(SECRETS);
    // Then the one that is free first is asked, and no other.
    expect((await gateway.post(QUESTION)).status).toBe(429);
    expect(used().slice(3)).toEqual(['sk-second-secret']);
  });

  const dead = answerJson('{"error":{"message":"Incorrect API key"}}', 401);
  const spent = answerJson('{"error":{"code":"insufficient_quota"}}', 429);

  it.each([
    ['the limited one is first', 0],
    ['the limited one is between', 1],
    ['the limited one is last', 2],
  ])('shows a 429 where one key is limited and the others are dead: %s', async (_, at) => {
    for (const [i, secret] of SECRETS.entries()) {
      refusals.set(secret, i === at ? hasty({ 'retry-after': '30' }) : i === (at + 1) % 3 ? dead : spent);
    }
    const response = await gateway.post(QUESTION);
    expect([response.status, await response.text()]).toEqual([429, HASTE]);
    expect(response.headers.get('retry-after')).toBe('30');
    expect(used()).toEqual(SECRETS);
  });

  it('shows the 429 of a spent quota where the other keys are dead, also those that are asked later', async () => {
    refusals.set('sk-first-secret', spent);
    for (const secret of SECRETS.slice(1)) refusals.set(secret, dead);
    expect((await gateway.post(QUESTION)).status).toBe(429);
    expect(used()).toEqual(SECRETS);
  });

  it('shows the 429 of a key that was limited before, where all others turn out to be dead', async () => {
    refusals.set('sk-first-secret', hasty({ 'retry-after': '30' }));
    expect((await gateway.post(QUESTION)).status).toBe(200);
    for (const secret of SECRETS.slice(1)) refusals.set(secret, dead);
    const response = await gateway.post(QUESTION);
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '30']);
    expect(used().slice(2)).toEqual(['sk-second-secret', 'sk-third-secret', 'sk-first-secret']);
  });

  it('shows no 429 while a key is free that was limited when the request began', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    await gateway.close();
    await start({ retries: false });
    const limitMs = 200;
    refusals.set('sk-first-secret', hasty({ 'retry-after-ms': String(limitMs) }));
    expect((await gateway.post(QUESTION)).status).toBe(200);
    refusals.clear();
    const late: Script = (response, request) => {
      vi.advanceTimersByTime(2 * limitMs);
      return hasty({ 'retry-after': '30' })(response, request);
    };
    for (const secret of ['sk-second-secret', 'sk-third-secret']) refusals.set(secret, late);
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(used().at(-1)).toBe('sk-first-secret');
  });

  it('leaves a key alone whose answer says that nothing is left', async () => {
    refusals.set(
      'sk-first-secret',
      answerJson(completionBody(), 200, {
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-requests': '1m0s',
        'x-ratelimit-remaining-tokens': '39000',
      }),
    );
    for (const _ of [1, 2, 3, 4, 5]) expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(used().filter((key) => key === 'sk-first-secret')).toHaveLength(1);
  });

  it('serves what all its keys together may, where each may ten requests', async () => {
    const counts = new Map<string, number>();
    gateway.provider.script = (response, request) => {
      const count = (counts.get(keyOf(request)) ?? 0) + 1;
      counts.set(keyOf(request), count);
      const script = count > 10 ? hasty({ 'retry-after': '60' }) : answerJson(completionBody());
      return script(response, request);
    };
    const statuses: number[] = [];
    for (let i = 0; i < 31; i++) statuses.push((await gateway.post(QUESTION)).status);
    expect(statuses).toEqual([...Array.from({ length: 30 }, () => 200), 429]);
  });

  it.each([
    ['400', 400, '{"error":{"code":"insufficient_quota"}}'],
    [
      'a 400 that repeats what its client has said',
      400,
      JSON.stringify({
        error: {
          message: `Invalid messages: ${REFUSED_WITH_400.map(([, body]) => body).join()}`,
          type: 'invalid_request_error',
          param: '"type":"no_db_connection"',
        },
      }),
    ],
    [
      'a 400 that repeats what its client has sent as the JSON that it was',
      400,
      JSON.stringify({
        detail: [
          {
            loc: ['body', 'tools'],
            input: { error: 'Incorrect API key provided', type: 'no_db_connection' },
          },
        ],
        error: { message: 'invalid', input: { type: 'no_db_connection', reason: 'API_KEY_INVALID' } },
      }),
    ],
  ])('keeps a key that was answered %s', async (_status, status, body) => {
    refusals.set('sk-first-secret', answerJson(body, status, { 'retry-after': '60' }));
    const response = await gateway.post(QUESTION);
    expect([response.status, await response.text()]).toEqual([status, body]);
    refusals.clear();
    for (let i = 0; i < 3; i++) await gateway.post(QUESTION);
    expect(used()).toEqual([...SECRETS, 'sk-first-secret']);
  });
});

it('goes on with the next key when one can’t be had', async () => {
  const gateway = await startGateway({
    provider: {
      apiKey: undefined,
      apiKeys: [() => undefined, () => Promise.reject(new Error('vault')), 'sk-third'],
    } as object,
  });
  expect((await gateway.post(QUESTION)).status).toBe(200);
  expect(gateway.provider.received.map(keyOf)).toEqual(['sk-third']);
  expect(gateway.errors).toHaveLength(2);
  await gateway.close();
});

function keyOf(request: { readonly headers: { readonly authorization?: string | undefined } }): string {
  return request.headers.authorization?.replace('Bearer ', '') ?? '';
}
