import { afterEach, describe, expect, it, onTestFinished } from 'vitest';

import type { Authenticate, ModelOptions, ResponseEnded } from '../../../src/index.ts';
import { createPrometheusMetrics } from '../../../src/prometheus.ts';
import {
  clientsOf,
  type Gateway,
  type GatewayOptions,
  PRICING,
  QUESTION,
  startGateway,
} from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Script, startProvider } from '../../helpers/provider.ts';

const OK = answerJson(completionBody());

let gateway: Gateway;
let ended: ResponseEnded[];
let metrics: ReturnType<typeof createPrometheusMetrics>;

afterEach(() => gateway.close());

async function start(
  model: Partial<ModelOptions> = {},
  concurrentRequests = 1,
  options: Partial<GatewayOptions> = {},
  others: Readonly<Record<string, Pick<ModelOptions, 'targets'>>> = {},
): Promise<void> {
  ended = [];
  metrics = createPrometheusMetrics();
  const terms = { wait: {}, pricing: PRICING, contextWindow: 8192, maxOutputTokens: 1000 };
  gateway = await startGateway({
    models: {
      ...Object.fromEntries(
        Object.entries(others).map(([id, { targets }]) => [id, { ...terms, targets }] as const),
      ),
      'acme/fast': {
        ...terms,
        targets: [{ provider: 'loopback', model: 'upstream-model', limits: { concurrentRequests } }],
        ...model,
      },
    },
    hooks: [metrics.hooks, { onResponse: (event: ResponseEnded) => void ended.push(event) }],
    ...options,
  });
}

/** Answers when it is told to, one request after the other. */
function heldAnswers(): {
  readonly script: Script;
  readonly answer: () => void;
  readonly count: () => number;
} {
  const held: (() => void)[] = [];
  return {
    script: (response, request) => {
      held.push(() => OK(response, request));
    },
    answer: () => held.shift()?.(),
    count: () => held.length,
  };
}

const ask = (init?: RequestInit): Promise<Response> => gateway.post(QUESTION, init);
const waiting = (): number => Number(/^ccr_requests_waiting (\d+)$/m.exec(metrics.text())?.[1]);

async function codeOf(response: Response): Promise<string> {
  const { error } = (await response.json()) as { error: { code: string } };
  return error.code;
}

describe('a request for a model whose targets are full', () => {
  it('waits for its turn, holds nothing meanwhile, and says how long it took', async () => {
    await start();
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const before = await gateway.router.credits.balance('acct');
    const second = ask();
    await expect.poll(waiting).toBe(1);
    expect(await gateway.router.credits.balance('acct')).toEqual(before);
    answer();
    const firstAnswer = await first;
    expect(firstAnswer.headers.get('x-ccr-waited-ms')).toBeNull();
    await expect.poll(count).toBe(1);
    answer();
    const secondAnswer = await second;
    expect(secondAnswer.status).toBe(200);
    expect(secondAnswer.headers.get('x-ccr-waited-ms')).toMatch(/^\d+$/);
    await expect.poll(() => ended.length).toBe(2);
    expect(ended.map(({ waited }) => waited?.outcome)).toEqual([undefined, 'served']);
    expect(metrics.text()).toContain('ccr_wait_seconds_count{model="acme/fast",outcome="served"} 1');
    expect(waiting()).toBe(0);
  });

  it('is refused when its time is over', async () => {
    await start({ wait: { upToMs: 20 } });
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const late = await ask();
    expect([late.status, await codeOf(late)]).toEqual([429, 'upstream_at_capacity']);
    expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(0);
    // Node's timers count whole milliseconds: one may be over a fraction of one early.
    expect(Number(late.headers.get('x-ccr-waited-ms'))).toBeGreaterThanOrEqual(19);
    answer();
    expect((await first).status).toBe(200);
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('is not served with the room of one that is sent again', async () => {
    await start();
    let refuse: (() => void) | undefined;
    gateway.provider.script = (response, request) => {
      refuse = () =>
        answerJson('{"error":{"message":"busy"}}', 503, { 'retry-after-ms': '1' })(response, request);
    };
    const first = gateway.post({ ...QUESTION, user: 'first' });
    await expect.poll(() => refuse !== undefined).toBe(true);
    const second = gateway.post({ ...QUESTION, user: 'second' });
    await expect.poll(waiting).toBe(1);
    gateway.provider.script = OK;
    refuse?.();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    expect(gateway.provider.received.map(({ json }) => (json as { user?: string }).user)).toEqual([
      'first',
      'first',
      'second',
    ]);
  });

  it('is not sent to a target that an operator ejects meanwhile', async () => {
    await start();
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    await gateway.router.providers.eject('loopback', { target: 'upstream-model' });
    answer();
    expect((await first).status).toBe(200);
    const refused = await second;
    expect([refused.status, await codeOf(refused)]).toEqual([503, 'targets_ejected']);
    expect(gateway.provider.received).toHaveLength(1);
    expect(waiting()).toBe(0);
    await expect.poll(() => ended.map(({ waited }) => waited?.outcome)).toEqual([undefined, 'refused']);
  });

  it('is refused where the line is full', async () => {
    await start({ wait: { most: 1 } });
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    const third = await ask();
    expect([third.status, await codeOf(third)]).toEqual([429, 'waiting_line_full']);
    gateway.provider.script = OK;
    answer();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
  });

  it('does not wait with a key of its own', async () => {
    const authenticate: Authenticate = (_key, { headers }) => ({
      account: 'acct',
      ...(headers['x-own'] === '1' && { upstreamKeys: { loopback: 'sk-own' } }),
    });
    await start({ wait: { most: 1 } }, 1, { authenticate });
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    gateway.provider.script = OK;
    const own = await ask({ headers: { 'x-own': '1' } });
    expect(own.status).toBe(200);
    expect(gateway.provider.received.at(-1)?.headers.authorization).toBe('Bearer sk-own');
    answer();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
  });

  it.each([false, true])(
    'leaves its place when its client leaves, and nothing behind: stream %s',
    async (stream) => {
      await start();
      const { script, answer, count } = heldAnswers();
      gateway.provider.script = script;
      const first = ask();
      await expect.poll(count).toBe(1);
      const leaving = new AbortController();
      const left = gateway.post({ ...QUESTION, stream }, { signal: leaving.signal });
      await expect.poll(waiting).toBe(1);
      leaving.abort();
      await expect(left).rejects.toThrow('aborted');
      await expect.poll(waiting).toBe(0);
      answer();
      expect((await first).status).toBe(200);
      expect(gateway.provider.received).toHaveLength(1);
      expect(await gateway.router.accounts.verify()).toMatchObject({ findings: [] });
      await expect.poll(() => ended.map(({ waited }) => waited?.outcome)).toContain('left');
    },
  );

  it('pays when its turn comes, or is refused for its credits then', async () => {
    await start();
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    const settled = gateway.nextSettled();
    await gateway.router.accounts.freeze('acct');
    answer();
    await first;
    await settled;
    const refused = await second;
    expect(refused.status).toBe(403);
    expect(refused.headers.get('x-ccr-waited-ms')).toMatch(/^\d+$/);
    // It gives its place back.
    await gateway.router.accounts.unfreeze('acct');
    gateway.provider.script = OK;
    expect((await ask()).status).toBe(200);
  });

  it('is refused at once when the router closes', async () => {
    await start();
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    const closed = gateway.router.close();
    const refused = await second;
    expect(refused.status).toBe(503);
    answer();
    await first;
    await closed;
    expect(ended.map(({ waited }) => waited?.outcome)).toEqual(['refused', undefined]);
  });

  it('keeps the options that it came with, also if they are replaced meanwhile', async () => {
    await start();
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    const spare = await startProvider();
    onTestFinished(() => spare.close());
    gateway.router.reload({
      providers: { spare: { baseURL: spare.baseURL, apiKey: 'sk-spare' } },
      models: {
        'acme/fast': {
          targets: ['spare/other'],
          pricing: PRICING,
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
      },
    });
    expect((await ask()).status).toBe(200);
    expect(spare.received).toHaveLength(1);
    gateway.provider.script = OK;
    answer();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    expect([gateway.provider.received.length, spare.received.length]).toEqual([2, 1]);
  });

  it('leaves its room to one that was sent and failed, and has reserved it, while another target is full', async () => {
    await start();
    const { baseURL } = gateway.provider;
    const limits = { concurrentRequests: 1 };
    const full = { provider: 'full', model: 'full', limits };
    const spare = { provider: 'loopback', model: 'spare', limits };
    const terms = { pricing: PRICING, contextWindow: 8192, maxOutputTokens: 1000 };
    let reads = 0;
    const others: Promise<Response>[] = [];
    const apiKey = async (): Promise<string> => {
      reads += 1;
      if (reads > 1) {
        others.push(gateway.post({ ...QUESTION, model: 'acme/spare' }));
        await expect.poll(waiting).toBe(1);
      }
      return 'sk-full';
    };
    gateway.router.reload({
      providers: { loopback: { baseURL, apiKey: 'sk-1' }, full: { baseURL, apiKey } },
      models: {
        'acme/fast': { ...terms, targets: ['loopback/broken', full, spare] },
        'acme/full': { ...terms, targets: [full] },
        'acme/spare': { ...terms, wait: {}, targets: [spare] },
      },
    });
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = (response, request) => {
      const { model } = JSON.parse(request.body.toString()) as { model: string };
      const broken = answerJson('{"error":{"message":"broken"}}', 500);
      const scripts: Readonly<Record<string, Script>> = { broken, full: script };
      (scripts[model] ?? OK)(response, request);
    };
    others.push(gateway.post({ ...QUESTION, model: 'acme/full' }));
    await expect.poll(count).toBe(1);
    expect((await ask()).status).toBe(200);
    answer();
    await Promise.all(others);
    expect(reads).toBe(1);
  });

  it('is not overtaken by one that came after a reload', async () => {
    await start();
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = gateway.post({ ...QUESTION, user: 'second' });
    await expect.poll(waiting).toBe(1);
    gateway.router.reload({});
    const third = gateway.post({ ...QUESTION, user: 'third' });
    await expect.poll(waiting).toBe(2);
    gateway.provider.script = OK;
    answer();
    await Promise.all([first, second, third]);
    expect(gateway.provider.received.map(({ json }) => (json as { user?: string }).user)).toEqual([
      undefined,
      'second',
      'third',
    ]);
  });

  it('of another model, whose target has room, does not wait for it', async () => {
    await start(
      {},
      1,
      {},
      {
        'acme/free': {
          targets: [{ provider: 'loopback', model: 'another-model', limits: { concurrentRequests: 1 } }],
        },
      },
    );
    const { script, answer, count } = heldAnswers();
    gateway.provider.script = script;
    const first = ask();
    await expect.poll(count).toBe(1);
    const second = ask();
    await expect.poll(waiting).toBe(1);
    gateway.provider.script = OK;
    expect((await gateway.post({ ...QUESTION, model: 'acme/free' })).status).toBe(200);
    expect(waiting()).toBe(1);
    answer();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
  });

  it('is one of fifty of five accounts: all are served, and the light ones don’t wait for the heavy one', async () => {
    await start({ wait: { upToMs: 20_000 } }, 2);
    const order: string[] = [];
    let release: (() => void)[] | undefined = [];
    gateway.provider.script = (response, request) => {
      order.push(String((request.json as { user?: string }).user));
      const answer = (): void => void OK(response, request);
      if (release) release.push(answer);
      else answer();
    };
    const accounts = ['heavy', 'a', 'b', 'c', 'd'];
    const clients = new Map(
      await Promise.all(
        accounts.map(async (account) => {
          await gateway.router.credits.grant(account, '5.00', { id: `for-${account}` });
          const { key } = await gateway.router.keys.create({ account, name: 'test' });
          return [account, clientsOf(gateway.baseURL, key)] as const;
        }),
      ),
    );
    const send = (account: string, n: number): Promise<Response>[] =>
      Array.from({ length: n }, () => clients.get(account)!.post({ ...QUESTION, user: account }));
    const answers = [...send('heavy', 34), ...['a', 'b', 'c', 'd'].flatMap((account) => send(account, 4))];
    await expect.poll(waiting).toBe(48);
    const held = release;
    release = undefined;
    for (const answer of held) answer();
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect(statuses).toEqual(Array.from({ length: 50 }, () => 200));
    expect(order).toHaveLength(50);
    expect(order.slice(-10)).toEqual(Array.from({ length: 10 }, () => 'heavy'));
  });
});
