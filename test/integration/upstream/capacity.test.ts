import { afterEach, describe, expect, it } from 'vitest';

import type { ProviderOptions, TargetOptions, UpstreamLimits } from '../../../src/index.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  beginStream,
  completionBody,
  DONE,
  type Provider,
  type Script,
  startProvider,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

const OK = answerJson(completionBody());

let gateway: Gateway;
let spare: Provider;

afterEach(async () => {
  await gateway.close();
  await spare.close();
});

interface Start {
  readonly provider?: Partial<ProviderOptions>;
  readonly target?: Partial<TargetOptions>;
  /** The model has a second target, without limits. */
  readonly hasSpare?: boolean;
  /** Limits of the second target's provider. */
  readonly spare?: UpstreamLimits;
  /** The client's own keys, by provider. */
  readonly byok?: Readonly<Record<string, string>>;
}

async function start({
  provider = {},
  target = {},
  hasSpare = false,
  spare: limits,
  byok,
}: Start): Promise<void> {
  spare = await startProvider();
  gateway = await startGateway({
    ...(byok && { authenticate: () => ({ account: 'acct', upstreamKeys: byok }) }),
  });
  const { baseURL } = gateway.provider;
  gateway.router.reload({
    providers: {
      loopback: { baseURL, ...(!provider.apiKeys && { apiKey: 'sk-1' }), onDisconnect: 'abort', ...provider },
      spare: { baseURL: spare.baseURL, apiKey: 'sk-spare', ...(limits && { limits }) },
    },
    models: {
      'acme/fast': {
        targets: [{ provider: 'loopback', model: 'a', ...target }, ...(hasSpare ? ['spare/b'] : [])],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
    },
  });
}

const ask = (init?: RequestInit): Promise<Response> => gateway.post(QUESTION, init);
const keysOf = ({ received }: Provider): (string | undefined)[] =>
  received.map(({ headers }) => headers.authorization?.slice('Bearer '.length));

/** Streams that have begun, and end when they are told to. */
function heldStreams(): { readonly script: Script; readonly end: () => void } {
  const ends: (() => void)[] = [];
  return {
    script: (response) => {
      beginStream(response);
      response.write(text('Hello'));
      ends.push(() => response.end(text('.', 'stop') + USAGE_EVENT + DONE));
    },
    end: () => ends.shift()?.(),
  };
}

async function expectAtCapacity(response: Response): Promise<void> {
  expect(response.status).toBe(429);
  const { error } = (await response.json()) as { error: object };
  expect(error).toMatchObject({ code: 'upstream_at_capacity', type: 'rate_limit_exceeded' });
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
}

describe('requests that run at the same time', () => {
  it('are as many as the limit; another one is refused, and nothing is sent or held for it', async () => {
    await start({ target: { limits: { concurrentRequests: 1 } } });
    const { script, end } = heldStreams();
    gateway.provider.script = script;
    const first = await gateway.post({ ...QUESTION, stream: true });
    const before = await gateway.router.credits.balance('acct');
    await expectAtCapacity(await ask());
    expect(await gateway.router.credits.balance('acct')).toEqual(before);
    expect(gateway.provider.received).toHaveLength(1);
    const settled = gateway.nextSettled();
    end();
    await first.text();
    await settled;
    gateway.provider.script = OK;
    expect((await ask()).status).toBe(200);
  });

  it('go to the next target that has room', async () => {
    await start({ target: { limits: { concurrentRequests: 1 } }, hasSpare: true });
    const { script, end } = heldStreams();
    gateway.provider.script = script;
    const first = await gateway.post({ ...QUESTION, stream: true });
    expect((await ask()).status).toBe(200);
    expect(spare.received).toHaveLength(1);
    end();
    await first.text();
  });

  it('count until a client leaves', async () => {
    await start({ target: { limits: { concurrentRequests: 1 } } });
    gateway.provider.script = heldStreams().script;
    const leaving = new AbortController();
    await gateway.post({ ...QUESTION, stream: true }, { signal: leaving.signal });
    const settled = gateway.nextSettled();
    leaving.abort();
    await settled;
    gateway.provider.script = OK;
    expect((await ask()).status).toBe(200);
  });

  it('count until a provider fails', async () => {
    await start({ target: { limits: { concurrentRequests: 1 } } });
    gateway.provider.script = (response) => response.destroy();
    expect((await ask()).status).toBe(502);
    gateway.provider.script = OK;
    expect((await ask()).status).toBe(200);
  });

  it('are not held up by a request that is refused before it is sent', async () => {
    await start({ target: { limits: { concurrentRequests: 1, requestsPerMinute: 1 } } });
    await gateway.router.credits.adjust('acct', '-5.00', { id: 'all', reason: 'test' });
    expect((await ask()).status).toBe(402);
    await gateway.router.credits.grant('acct', '5.00', { id: 'again' });
    expect((await ask()).status).toBe(200);
  });
});

describe('a request that goes on at a target with the key of the client', () => {
  async function failOver(): Promise<() => Promise<unknown>> {
    const limits = { concurrentRequests: 1, tokensPerMinute: 3000 };
    await start({ target: { limits }, hasSpare: true, byok: { spare: 'sk-own' } });
    gateway.provider.script = answerJson('{"error":{"message":"busy"}}', 503);
    const { script, end } = heldStreams();
    spare.script = script;
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(keysOf(spare)).toEqual(['sk-own']);
    return () => {
      end();
      return response.text();
    };
  }

  it('has no room any more at the target before', async () => {
    const end = await failOver();
    gateway.provider.script = OK;
    expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([2, 1]);
    await end();
  });

  it('counts its tokens nowhere', async () => {
    const end = await failOver();
    const used = (): unknown =>
      gateway.router.providers.list()[0]?.limits.map(({ tokensPerMinute }) => tokensPerMinute?.used);
    const before = used();
    expect(before).toEqual([expect.any(Number)]);
    const settled = gateway.nextSettled();
    await end();
    await settled;
    expect(used()).toEqual(before);
  });
});

describe('requests of a minute', () => {
  it('are as many as the limit of each key', async () => {
    await start({
      provider: { apiKeys: ['sk-1', 'sk-2'], limits: { requestsPerMinute: 2 } },
    });
    for (let n = 0; n < 4; n++) expect((await ask()).status).toBe(200);
    await expectAtCapacity(await ask());
    const asked = keysOf(gateway.provider);
    for (const key of ['sk-1', 'sk-2']) expect(asked.filter((each) => each === key)).toHaveLength(2);
  });

  it('go on at the next target', async () => {
    await start({ provider: { limits: { requestsPerMinute: 1 } }, hasSpare: true });
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([1, 2]);
  });

  it('count after a reload', async () => {
    await start({ target: { limits: { requestsPerMinute: 1 } } });
    expect((await ask()).status).toBe(200);
    gateway.router.reload({});
    await expectAtCapacity(await ask());
  });

  it('count each resend', async () => {
    await start({ target: { limits: { requestsPerMinute: 2 } }, hasSpare: true });
    gateway.provider.script = answerJson('{"error":{"message":"busy"}}', 503);
    // The first target fails twice, and is asked no third time.
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([2, 3]);
  });

  it('with the key of the client are not counted', async () => {
    await start({ provider: { limits: { requestsPerMinute: 1 } }, byok: { loopback: 'sk-own' } });
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
    expect(keysOf(gateway.provider)).toEqual(['sk-own', 'sk-own', 'sk-own']);
  });

  it('of a failed target are answered as it did, where the next one is full', async () => {
    await start({ spare: { requestsPerMinute: 1 }, hasSpare: true });
    gateway.provider.script = answerJson('{"error":{"message":"broken"}}', 500);
    expect((await ask()).status).toBe(200);
    expect((await ask()).status).toBe(500);
    gateway.provider.script = (response) => response.destroy();
    expect((await ask()).status).toBe(502);
    expect(spare.received).toHaveLength(1);
  });

  it('of the only target are not sent again where there is no room', async () => {
    await start({ provider: { limits: { requestsPerMinute: 1 } } });
    gateway.provider.script = answerJson('{"error":{"message":"busy"}}', 503);
    expect((await ask()).status).toBe(503);
    await expectAtCapacity(await ask());
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('of a failed target fail over to none that is full', async () => {
    await start({ target: { limits: { requestsPerMinute: 5 } }, hasSpare: true });
    spare.script = answerJson('{"error":{"message":"busy"}}', 503);
    gateway.provider.script = answerJson('{"error":{"message":"busy"}}', 503);
    expect((await ask()).status).toBe(503);
  });
});

describe('tokens of a minute', () => {
  const limits: UpstreamLimits = { tokensPerMinute: 1050 };

  it('are estimated from prompt and output limit, then counted as used', async () => {
    await start({ target: { limits } });
    // 21 tokens each, as the provider counts them; 1,000 and the prompt before that is known.
    for (let n = 0; n < 2; n++) {
      const settled = gateway.nextSettled();
      expect((await ask()).status).toBe(200);
      await settled;
    }
    await expectAtCapacity(await ask());
    expect((await gateway.post({ ...QUESTION, max_tokens: 100 })).status).toBe(200);
  });

  it('of a request that is larger than the limit are sent while nothing else counts', async () => {
    await start({ target: { limits: { tokensPerMinute: 10 } } });
    expect((await ask()).status).toBe(200);
    await expectAtCapacity(await ask());
  });
});

describe('a provider that says that nothing is left', () => {
  const USED_UP = answerJson(completionBody(), 200, {
    'x-ratelimit-remaining-requests': '0',
    'x-ratelimit-reset-requests': '30s',
  });

  it('is asked after the other targets', async () => {
    await start({ hasSpare: true });
    gateway.provider.script = USED_UP;
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([1, 2]);
  });

  it('is asked after the other targets as soon as so many were sent as it said are left', async () => {
    await start({ hasSpare: true });
    gateway.provider.script = answerJson(completionBody(), 200, {
      'x-ratelimit-remaining-requests': '2',
      'x-ratelimit-reset-requests': '30s',
    });
    expect((await ask()).status).toBe(200);
    const { script, end } = heldStreams();
    gateway.provider.script = script;
    // Their answers say nothing.
    const stream = { ...QUESTION, stream: true };
    const running = [await gateway.post(stream), await gateway.post(stream)];
    expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([3, 1]);
    end();
    end();
    await Promise.all(running.map((each) => each.text()));
  });

  it('is asked after the other targets by requests that need more tokens than it said are left, and by no others', async () => {
    await start({ hasSpare: true });
    gateway.provider.script = answerJson(completionBody(), 200, {
      'anthropic-ratelimit-tokens-remaining': '500',
      'anthropic-ratelimit-tokens-reset': new Date(Date.now() + 30_000).toISOString(),
    });
    expect((await ask()).status).toBe(200);
    expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([1, 1]);
    expect((await gateway.post({ ...QUESTION, max_tokens: 100 })).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([2, 1]);
  });

  it('is counted by no answer that a model is unknown: behind a wildcard, clients make up their names', async () => {
    await start({ hasSpare: true });
    gateway.provider.script = answerJson('{"error":{"message":"No such model"}}', 404, {
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-reset-requests': '30s',
    });
    expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([1, 1]);
    const { script, end } = heldStreams();
    gateway.provider.script = script;
    const running = await gateway.post({ ...QUESTION, stream: true });
    gateway.provider.script = answerJson(completionBody());
    expect((await ask()).status).toBe(200);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([3, 1]);
    end();
    await running.text();
  });

  it('is asked all the same where there is no other', async () => {
    await start({});
    gateway.provider.script = USED_UP;
    for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
  });
});
