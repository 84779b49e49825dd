import { afterEach, describe, expect, it, vi } from 'vitest';

import type { GuardResult, ResponseEnded } from '../../../src/index.ts';
import { chunk, DONE, end, error, hang, head, type Script, sequence, stream } from '../../../src/testing.ts';
import { type Gateway, type GatewayOptions, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, event, STREAM, USAGE } from '../../helpers/provider.ts';

const REFUSAL = { refuse: { code: 'flagged', message: 'This was flagged.' } };
const EVENTS = { 'content-type': 'text/event-stream' };

let gateway: Gateway;
let responses: ResponseEnded[] = [];
/** What the guard is to answer, and how it was aborted. */
let verdict = Promise.withResolvers<GuardResult>();
let signal: AbortSignal | undefined;

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
});

async function start(options: GatewayOptions = {}): Promise<void> {
  responses = [];
  verdict = Promise.withResolvers<GuardResult>();
  gateway = await startGateway({
    guard: {
      parallel: true,
      run: async (request) => {
        ({ signal } = request);
        expect(request.messages()).toEqual(QUESTION.messages);
        return verdict.promise;
      },
    },
    hooks: [{ onResponse: (ended) => responses.push(ended) }],
    ...options,
  });
}

/** Resolves once an answer of the provider has arrived, as far as it is sent with its head. */
function answered(): Promise<void> {
  return vi.waitFor(() => {
    expect(gateway.router.health()[0]?.firstByteMs).toBeDefined();
  });
}

/** Resolves once the provider's first answer counts as a failure. */
function failed(): Promise<void> {
  return vi.waitFor(() => {
    expect(gateway.router.health()[0]?.failuresInARow).toBe(1);
  });
}

describe('a guard beside its request', () => {
  it('lets the answer through byte for byte once it has passed, and not a byte before', async () => {
    await start();
    gateway.provider.script = stream(...STREAM);
    const asking = gateway.post({ ...QUESTION, stream: true, stream_options: { include_usage: true } });
    let hasBegun = false;
    void asking.then(() => {
      hasBegun = true;
    });
    await answered();
    await (await gateway.fetch('/models')).text();
    expect(hasBegun).toBe(false);
    verdict.resolve(undefined);
    const answer = await asking;
    expect(await answer.text()).toBe(STREAM.join(''));
    expect(responses.find(({ admitted }) => admitted)).toMatchObject({
      status: 200,
      ending: 'finished',
      hookCalls: [{ hook: 'guard', result: 'passed' }],
    });
  });

  it('that passed before the answer came is not waited for', async () => {
    await start();
    verdict.resolve(undefined);
    gateway.provider.script = answerJson(completionBody());
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });

  it('holds a long answer back in bounded memory, and passes it whole', async () => {
    await start();
    const words = Array.from({ length: 2000 }, (_, n) => chunk(`${n} ${'word '.repeat(200)}`));
    gateway.provider.script = stream(
      ...words,
      chunk('.', 'stop'),
      event({ choices: [], usage: USAGE }),
      DONE,
    );
    const asking = gateway.post({ ...QUESTION, stream: true });
    await answered();
    verdict.resolve(undefined);
    const text = await (await asking).text();
    expect(text).toContain('1999 word');
    expect(text.endsWith(DONE)).toBe(true);
  });

  it('can not replace messages, as they were sent', async () => {
    await start();
    gateway.provider.script = hang;
    const asking = gateway.post(QUESTION);
    await gateway.provider.next();
    verdict.resolve({ messages: [{ role: 'user', content: '***' }] });
    const answer = await asking;
    expect(await answer.json()).toMatchObject({ error: { code: 'guard_unavailable' } });
    await vi.waitFor(() => {
      expect(gateway.errors[0]?.cause).toMatchObject({
        message: 'guard must not return messages if it is parallel: they were sent',
      });
    });
  });

  it('that fails passes the answer with onError pass', async () => {
    const guard = {
      parallel: true,
      onError: 'pass',
      run: async () => Promise.reject(new Error('down')),
    } as const;
    await start({ guard });
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(gateway.errors).toMatchObject([{ code: 'guard_unavailable' }]);
  });

  it('that takes too long refuses, and cuts the call', async () => {
    const guard = {
      parallel: true,
      timeoutMs: 30,
      run: async () => new Promise<undefined>(() => {}),
    } as const;
    await start({ guard });
    gateway.provider.script = hang;
    const answer = await gateway.post(QUESTION);
    expect(await answer.json()).toMatchObject({ error: { code: 'guard_unavailable' } });
    expect(await gateway.provider.received[0]?.aborted).toBeGreaterThan(0);
  });

  it('is aborted when the provider has failed: the client gets that error at once', async () => {
    await start({ retries: false });
    gateway.provider.script = (response) => response.socket?.resetAndDestroy();
    const answer = await gateway.post(QUESTION);
    expect(answer.status).toBe(502);
    expect(signal?.aborted).toBe(true);
    // Too late to matter.
    verdict.resolve(REFUSAL);
    await (await gateway.fetch('/models')).text();
    expect(responses.find(({ admitted }) => admitted)).toMatchObject({
      errorCode: 'upstream_unreachable',
      hookCalls: [{ hook: 'guard', result: 'aborted' }],
    });
  });

  it('is aborted when the client leaves, whose call is charged as ever', async () => {
    await start();
    gateway.provider.script = hang;
    const settled = gateway.nextSettled();
    const client = new AbortController();
    const asking = gateway.post(QUESTION, { signal: client.signal }).catch(() => {});
    await gateway.provider.next();
    client.abort();
    await asking;
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.000013' });
    expect(signal?.aborted).toBe(true);
  });

  it.each<[string, Script]>([
    ['a whole answer', answerJson(completionBody())],
    ['a whole stream', (response) => response.writeHead(200, EVENTS).end(STREAM.join(''))],
  ])('that held %s back has a client that leaves then pay what the provider bills', async (_, script) => {
    await start();
    gateway.provider.script = script;
    const settled = gateway.nextSettled();
    const client = new AbortController();
    const asking = gateway.post({ ...QUESTION, stream: true }, { signal: client.signal }).catch(() => {});
    await answered();
    client.abort();
    await asking;
    expect(await settled).toMatchObject({
      ending: 'client_gone',
      charged: '0.000045',
      usageSource: 'upstream',
    });
    await vi.waitFor(() => {
      expect(responses.find(({ admitted }) => admitted)).toMatchObject({
        status: 499,
        ending: 'client_gone',
        hookCalls: [{ hook: 'guard', result: 'aborted' }],
      });
    });
  });
});

describe('a router that is closed while a guard holds an answer back', () => {
  it('passes none of it on', async () => {
    await start({ closeTimeoutMs: 20 });
    gateway.provider.script = stream(chunk('Hello'), hang);
    const settled = gateway.nextSettled();
    const asking = gateway.post({ ...QUESTION, stream: true });
    await answered();
    await gateway.router.close();
    const answer = await asking;
    expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: 'router_closing' } }]);
    expect(await settled).toMatchObject({ ending: 'closed', voided: true });
    expect(signal?.aborted).toBe(true);
  });
});

/** Where the provider is when the guard refuses. QUESTION is estimated at 13 tokens, of 1,000 nano-dollars each. */
const CUTS: readonly (readonly [
  where: string,
  script: Script,
  /** Resolves when it is there. */
  there: () => Promise<unknown>,
  aborted: object,
  drained: object,
])[] = [
  [
    'before the head',
    sequence(async (response) => afterRefusal(response), answerJson(completionBody())),
    async () => gateway.provider.next(),
    { charged: '0.000013', usageSource: 'estimated' },
    { charged: '0.000045', usageSource: 'upstream' },
  ],
  [
    'after the head',
    sequence(head(200, EVENTS), async (response) => afterRefusal(response), ...STREAM, end),
    answered,
    { charged: '0.000013', usageSource: 'estimated' },
    { charged: '0.000045', usageSource: 'upstream' },
  ],
  [
    'after the whole answer',
    answerJson(completionBody()),
    answered,
    { charged: '0.000045', usageSource: 'upstream' },
    { charged: '0.000045', usageSource: 'upstream' },
  ],
  [
    'after an error of the provider',
    error(400),
    answered,
    { charged: '0.00', voided: true },
    { charged: '0.00', voided: true },
  ],
  [
    'while it waits before a retry',
    (response) => response.writeHead(503, { 'retry-after-ms': '4000' }).end(),
    failed,
    { charged: '0.00', voided: true },
    { charged: '0.00', voided: true },
  ],
];

let refused = Promise.withResolvers<void>();

/** A provider that goes on after the refusal, or whose connection was closed by then. */
async function afterRefusal(response: {
  once(event: 'close', listener: () => void): unknown;
}): Promise<void> {
  await Promise.race([refused.promise, new Promise<void>((resolve) => response.once('close', resolve))]);
}

describe.each(['abort', 'drain'] as const)(
  'a refusal beside the call, of a provider to %s',
  (onDisconnect) => {
    it.each(CUTS)(
      'cuts it %s: one error for the client, and one charge as of a client that left then',
      async (_, script, there, aborted, drained) => {
        refused = Promise.withResolvers<void>();
        await start({ provider: { onDisconnect } });
        gateway.provider.script = script;
        const settled = gateway.nextSettled();
        const asking = gateway.post({ ...QUESTION, stream: true });
        await there();
        verdict.resolve(REFUSAL);
        const answer = await asking;
        expect(answer.status).toBe(400);
        expect(await answer.json()).toMatchObject({
          error: { code: 'flagged', message: 'This was flagged.' },
        });
        refused.resolve();
        expect(await settled).toMatchObject({
          ending: 'refused',
          ...(onDisconnect === 'abort' ? aborted : drained),
        });
        await (await gateway.fetch('/models')).text();
        expect(gateway.settled).toHaveLength(1);
        expect(gateway.provider.received).toHaveLength(1);
        expect(responses.find(({ admitted }) => admitted)).toMatchObject({
          status: 400,
          errorCode: 'flagged',
          ending: 'refused',
          hookCalls: [{ hook: 'guard', result: 'refused' }],
        });
        expect(signal?.aborted).toBe(true);
      },
    );
  },
);

describe('a refusal behind the fetch handler', () => {
  it.each(['abort', 'drain'] as const)('is the whole response, of a provider to %s', async (onDisconnect) => {
    refused = Promise.withResolvers<void>();
    await start({ provider: { onDisconnect } });
    const [, [, script]] = CUTS as [never, (typeof CUTS)[number]];
    gateway.provider.script = script;
    const settled = gateway.nextSettled();
    const request = new Request('http://localhost/v1/chat/completions', {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...QUESTION, stream: true }),
    });
    const asking = gateway.router.fetch(request);
    await answered();
    verdict.resolve(REFUSAL);
    const answer = await asking;
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ error: { code: 'flagged' } });
    refused.resolve();
    const charged = onDisconnect === 'abort' ? '0.000013' : '0.000045';
    expect(await settled).toMatchObject({ ending: 'refused', charged });
    await gateway.router.settled(request);
    expect(responses[0]).toMatchObject({ status: 400, errorCode: 'flagged' });
  });
});

describe('a refusal before anything was sent', () => {
  it('costs nothing, and is no failure of the provider', async () => {
    await start({ guard: { parallel: true, run: () => REFUSAL } });
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(400);
    expect(await settled).toMatchObject({ voided: true, charged: '0.00', ending: 'refused' });
    expect(gateway.provider.received).toEqual([]);
    expect(responses[0]).toMatchObject({
      status: 400,
      errorCode: 'flagged',
      ending: 'refused',
      hookCalls: [{ hook: 'guard', result: 'refused' }],
    });
  });
});
