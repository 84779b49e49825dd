import { createHash } from 'node:crypto';

import { afterEach, describe, expect, it } from 'vitest';

import { type GuardRequest, InvalidRequestError, type ResponseEnded } from '../../../src/index.ts';
import { type Gateway, type GatewayOptions, QUESTION, startGateway } from '../../helpers/gateway.ts';

const REFUSAL = { refuse: { code: 'contains_secret', message: 'Remove the secret first.' } };
const SECRET_HEADER = 'a-value-of-a-header-that-is-secret';

let gateway: Gateway;
let responses: ResponseEnded[] = [];

/** Neither a hold nor a charge is left of a request that was refused before its hold. */
afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
});

async function start(options: GatewayOptions): Promise<void> {
  responses = [];
  gateway = await startGateway({ hooks: [{ onResponse: (ended) => responses.push(ended) }], ...options });
}

async function errorOf(answer: Response): Promise<{ status: number; code: string; message: string }> {
  const { error } = (await answer.json()) as { error: { code: string; message: string } };
  return { status: answer.status, code: error.code, message: error.message };
}

/** The body that the provider got. */
function sent(): string | undefined {
  return gateway.provider.received[0]?.body.toString();
}

describe('a guard', () => {
  it('sees whose request it is, its model and its messages, in any order of the body', async () => {
    const seen: GuardRequest[] = [];
    await start({
      dimensions: { user: true, tags: [{ name: 'feature', header: 'x-feature' }] },
      guard: (request) => {
        seen.push({ ...request, messages: () => [] });
        expect(request.messages()).toEqual([{ role: 'user', content: 'é "\n' }]);
        expect(request.messages()).not.toBe(request.messages());
        return undefined;
      },
    });
    const body =
      '{"messages" : [ {"role":"user","content":"\\u00e9 \\"\\n"} ],"user":"u-1","model":"acme/fast"}';
    const answer = await gateway.post(body, { headers: { 'x-feature': 'search' } });
    expect(answer.status).toBe(200);
    expect(seen[0]).toMatchObject({
      requestId: answer.headers.get('x-request-id'),
      caller: { account: 'acct', user: 'u-1', tags: { feature: 'search' } },
      model: 'acme/fast',
    });
    expect(sent()).toBe(body.replace('acme/fast', 'upstream-model'));
  });

  it.each([
    ['at once', () => REFUSAL],
    ['later', async () => Promise.resolve(REFUSAL)],
  ])('refuses %s with a code and a message of its own: nothing is held or sent', async (_, guard) => {
    await start({ guard });
    const answer = await gateway.post(QUESTION);
    expect(await answer.json()).toEqual({
      error: {
        message: 'Remove the secret first.',
        type: 'invalid_request_error',
        param: null,
        code: 'contains_secret',
      },
    });
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([400, 'false']);
    expect([gateway.provider.received, gateway.settled, gateway.errors]).toEqual([[], [], []]);
    expect(responses[0]).toMatchObject({
      status: 400,
      errorCode: 'contains_secret',
      admitted: false,
      hookCalls: [{ hook: 'guard', result: 'refused' }],
    });
  });

  it('chooses the status of a refusal', async () => {
    await start({ guard: () => ({ refuse: { ...REFUSAL.refuse, status: 451 } }) });
    expect((await gateway.post(QUESTION)).status).toBe(451);
  });

  it('replaces the messages, and no other byte', async () => {
    await start({
      guard: ({ messages }) => ({ messages: messages().map((one) => ({ ...one, content: '***' })) }),
    });
    const rest = '"temperature" : 0.50, "seed":12345678901234567890, "model":"acme/fast"';
    const answer = await gateway.post(`{"messages": [ {"role": "user", "content": "4111 1111"}] ,${rest}}`);
    expect(answer.status).toBe(200);
    const model = rest.replace('acme/fast', 'upstream-model');
    expect(sent()).toBe(`{"messages": [{"role":"user","content":"***"}] ,${model}}`);
    expect(responses[0]).toMatchObject({ hookCalls: [{ hook: 'guard', result: 'changed' }] });
  });

  it('that replaces messages has what it sends quoted: a longer prompt is held for', async () => {
    const long = 'word '.repeat(4000);
    await start({
      guard: () => ({ messages: [{ role: 'user', content: long }] }),
      models: {
        'acme/fast': {
          targets: ['loopback/upstream-model'],
          pricing: { input: '500', output: '1' },
          maxOutputTokens: 100,
        },
      },
    });
    // 20,000 bytes at 500,000 nano-dollars each are more than the balance of 5.00.
    const answer = await gateway.post(QUESTION);
    expect(await errorOf(answer)).toMatchObject({ status: 402, code: 'insufficient_credits' });
  });

  it('works on large bodies, which arrive in many chunks', async () => {
    const words = 'lorem ipsum '.repeat(200_000);
    await start({
      guard: ({ messages }) => ({ messages: [...messages(), { role: 'user', content: 'end' }] }),
      models: { 'acme/fast': { targets: ['loopback/upstream-model'], pricing: 'free' } },
    });
    const answer = await gateway.post({ ...QUESTION, messages: [{ role: 'user', content: words }] });
    expect(answer.status).toBe(200);
    expect(JSON.parse(sent() ?? '')).toEqual({
      model: 'upstream-model',
      messages: [
        { role: 'user', content: words },
        { role: 'user', content: 'end' },
      ],
    });
  });

  it('keeps an idempotency key with what the client sent, not with what became of it', async () => {
    let calls = 0;
    await start({ guard: () => ({ messages: [{ role: 'user', content: String(calls++) }] }) });
    const headers = { 'idempotency-key': createHash('sha256').update('one').digest('hex') };
    expect((await gateway.post(QUESTION, { headers })).status).toBe(200);
    expect((await gateway.post(QUESTION, { headers })).status).toBe(409);
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('is not asked for a model that the key may not use, or that is not there', async () => {
    let calls = 0;
    await start({
      guard: () => {
        calls++;
        return undefined;
      },
    });
    expect((await gateway.post({ ...QUESTION, model: 'acme/none' })).status).toBe(404);
    expect(calls).toBe(0);
  });
});

describe('a guard that fails', () => {
  const hang = async (): Promise<undefined> => new Promise(() => {});
  it.each<[string, () => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error(`no moderation with ${SECRET_HEADER}`);
      },
      /^no moderation with \*\*\*$/,
    ],
    ['rejects', async () => Promise.reject(new Error('down')), /^down$/],
    ['hangs', hang, /^The guard hook returned nothing within 20 ms\.$/],
    ['returns a boolean', () => true, /got a boolean$/],
    ['returns another object', () => ({ pass: true }), /got an object with pass$/],
    ['returns a list', () => [QUESTION.messages], /got a list$/],
    ['inherits its answer', () => Object.create({ refuse: {}, messages: [{}] }), /with no members$/],
    ['returns no messages', () => ({ messages: [] }), /one or more objects as messages$/],
    ['returns texts as messages', () => ({ messages: ['x'] }), /one or more objects as messages$/],
    ['returns lists as messages', () => ({ messages: [['x']] }), /one or more objects as messages$/],
    ['returns messages that are no JSON', () => ({ messages: [{ n: 1n }] }), /BigInt/],
    [
      'returns messages that are not a list in JSON',
      () => ({ messages: Object.assign([{}], { toJSON: () => ({}) }) }),
      /^guard returned messages that are no valid request: The field "messages" must be an array/,
    ],
    [
      'returns more than a body may have',
      () => ({ messages: [{ content: 'x'.repeat(2000) }] }),
      /^guard returned messages of 2016 characters, which make a body of 2\d{3} bytes; maxBodyBytes is 1000$/,
    ],
  ])('%s: the client gets a 503, the operator the reason', async (_, run, message) => {
    // @ts-expect-error -- what no typed app returns
    await start({ maxBodyBytes: 1000, guard: { run, timeoutMs: 20 } });
    const answer = await gateway.post(QUESTION, { headers: { 'x-secret': SECRET_HEADER } });
    expect(await errorOf(answer)).toMatchObject({
      status: 503,
      code: 'guard_unavailable',
      message: 'This request cannot be checked at the moment. Try again in a second.',
    });
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(gateway.provider.received).toEqual([]);
    expect(gateway.errors[0]?.cause).toMatchObject({ message: expect.stringMatching(message) });
    expect(responses[0]).toMatchObject({ hookCalls: [{ hook: 'guard', result: 'failed' }] });
  });

  it.each<[string, () => unknown]>([
    ['throws', () => JSON.parse('{')],
    ['hangs', hang],
    ['returns nonsense', () => 7],
    ['replaces messages with nonsense', () => ({ messages: 'all of them' })],
  ])('%s, with onError pass: the request is sent as it was, and the operator told', async (_, run) => {
    // @ts-expect-error -- what no typed app returns
    await start({ guard: { run, timeoutMs: 20, onError: 'pass' } });
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(sent()).toBe(JSON.stringify({ ...QUESTION, model: 'upstream-model' }));
    expect(gateway.errors).toMatchObject([{ code: 'guard_unavailable' }]);
  });

  it.each([
    { code: 'Not A Code', message: 'No.' },
    { code: 'c'.repeat(65), message: 'No.' },
    { code: 'fine', message: '' },
    { code: 'fine', message: 'm'.repeat(1001) },
    { code: 'fine', message: 'No.', status: 200 },
    { code: 'fine', message: 'No.', status: 500 },
    null,
    true,
  ])('to refuse properly never passes, whatever onError says: %j', async (refuse) => {
    // @ts-expect-error -- what no typed app returns
    await start({ guard: { run: () => ({ refuse }), onError: 'pass' } });
    expect(await errorOf(await gateway.post(QUESTION))).toMatchObject({ code: 'guard_unavailable' });
    expect(gateway.provider.received).toEqual([]);
  });

  it('with an error of the router has that sent to the client', async () => {
    await start({
      guard: {
        run: () => {
          throw new InvalidRequestError('invalid_value', 'Send a shorter list.', 'messages');
        },
        onError: 'pass',
      },
    });
    expect(await errorOf(await gateway.post(QUESTION))).toEqual({
      status: 400,
      code: 'invalid_value',
      message: 'Send a shorter list.',
    });
    expect(gateway.errors).toEqual([]);
  });
});

describe('a guard that still runs', () => {
  it('is aborted when the client leaves: nothing is held, and nobody waits for it', async () => {
    const asked = Promise.withResolvers<AbortSignal>();
    const over = Promise.withResolvers<ResponseEnded>();
    await start({
      guard: async ({ signal }) => {
        asked.resolve(signal);
        return new Promise(() => {});
      },
      hooks: [{ onResponse: over.resolve }],
    });
    const client = new AbortController();
    const asking = gateway.post(QUESTION, { signal: client.signal }).catch(() => {});
    const signal = await asked.promise;
    expect([signal.aborted, gateway.router.requests().length]).toEqual([false, 1]);
    client.abort();
    expect(await over.promise).toMatchObject({
      status: 499,
      admitted: false,
      hookCalls: [{ hook: 'guard', result: 'aborted' }],
    });
    expect(signal.aborted).toBe(true);
    await asking;
    expect([gateway.provider.received, gateway.settled, gateway.errors]).toEqual([[], [], []]);
  });

  it('is aborted when the router is closed', async () => {
    const asked = Promise.withResolvers<AbortSignal>();
    await start({
      closeTimeoutMs: 20,
      guard: async ({ signal }) => {
        asked.resolve(signal);
        return new Promise(() => {});
      },
    });
    const asking = gateway.post(QUESTION);
    const signal = await asked.promise;
    await gateway.router.close();
    expect(await errorOf(await asking)).toMatchObject({ status: 503, code: 'router_closing' });
    expect(signal.aborted).toBe(true);
  });

  it('has no messages once its time is over', async () => {
    const late = Promise.withResolvers<unknown>();
    await start({
      guard: {
        timeoutMs: 20,
        run: async ({ signal, messages }) =>
          new Promise(() => {
            signal.addEventListener('abort', () => {
              setImmediate(() => {
                try {
                  late.resolve(messages());
                } catch (error) {
                  late.resolve(error);
                }
              });
            });
          }),
      },
    });
    expect((await gateway.post(QUESTION)).status).toBe(503);
    expect(await late.promise).toMatchObject({
      message: 'messages() must be called before the guard has returned',
    });
  });
});

describe('what is recorded of a request', () => {
  it("are the messages that the guard put in place of the client's", async () => {
    const recorded: string[] = [];
    await start({
      guard: () => ({ messages: [{ role: 'user', content: '***' }] }),
      hooks: [{ onContent: ({ request }) => recorded.push(request.toString()) }],
    });
    await gateway.post(QUESTION);
    expect(recorded).toEqual(['{"model":"acme/fast","messages":[{"role":"user","content":"***"}]}']);
  });
});
