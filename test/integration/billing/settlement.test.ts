import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import {
  type LedgerEvent,
  MemoryStore,
  type ProviderOptions,
  StoreUnavailableError,
  type TopUp,
} from '../../../src/index.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  DONE,
  event,
  type Script,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

/** 'Say hello.' is 4 tokens by the estimate's rules with its message; a prompt token costs 1,000 nano-dollars. */
const HELLO = 'Hello there, dear reader of streams.';

describe('who pays what when', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    const { balance, held, totalUsed } = await gateway.router.credits.balance('acct');
    expect(held).toBe('0.00');
    expect(Number(balance) + Number(totalUsed)).toBeCloseTo(5, 9);
    await gateway.close();
    const ids = gateway.settled.map(({ requestId }) => requestId);
    expect(ids).toEqual([...new Set(ids)]);
  });

  async function settledAfter(script: Script, stream = true): Promise<(typeof gateway.settled)[number]> {
    gateway.provider.script = script;
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream });
    await response.text().catch(() => 'cut');
    return await settled;
  }

  it('charges the usage of a finished answer', async () => {
    expect(await settledAfter(answerJson(completionBody()), false)).toMatchObject({
      charged: '0.000045',
      usageSource: 'upstream',
      ending: 'finished',
    });
  });

  it('charges nothing where the provider says that nothing was used: zero is a value', async () => {
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    expect(await settledAfter(answerJson(completionBody({ usage })), false)).toMatchObject({
      charged: '0.00',
      voided: false,
      usageSource: 'upstream',
    });
  });

  it.each([
    ['none', undefined],
    ['null', null],
    ['negative', { prompt_tokens: -1, completion_tokens: 5 }],
    ['fractional', { prompt_tokens: 1.5, completion_tokens: 5 }],
    ['a string', { prompt_tokens: '9', completion_tokens: '12' }],
    ['beyond counting', { prompt_tokens: 1e300, completion_tokens: 1 }],
  ])('estimates what an answer without usable usage cost: %s', async (_name, usage) => {
    const settled = await settledAfter(answerJson(completionBody({ usage })), false);
    expect(settled).toMatchObject({ usageSource: 'estimated', voided: false });
    expect(Number(settled.charged)).toBeGreaterThan(0);
    expect(Number(settled.charged)).toBeLessThan(0.0001);
  });

  it('charges of a count that can not be what it can be at most: four times the output, and 2,000', async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 1e15 };
    expect(await settledAfter(answerJson(completionBody({ usage })), false)).toMatchObject({
      usageSource: 'upstream',
      charged: '0.018009', // 9 × 1,000 and (4 × 1,000 + 2,000) × 3,000 nano-dollars
    });
  });

  it('charges a stream that was cut by the usage it had told', async () => {
    const script: Script = (response) => {
      beginStream(response);
      response.write(text(HELLO, 'stop') + USAGE_EVENT, () => response.destroy());
    };
    expect(await settledAfter(script)).toMatchObject({ charged: '0.000045', ending: 'upstream_cut' });
  });

  it('charges a stream that was cut before its usage by estimate', async () => {
    const script: Script = (response) => {
      beginStream(response);
      response.write(text(HELLO), () => response.destroy());
    };
    expect(await settledAfter(script)).toMatchObject({
      ending: 'upstream_cut',
      usageSource: 'estimated',
      voided: false,
    });
  });

  it('charges nothing for a stream that was cut before any output', async () => {
    const script: Script = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(': ok\n\n', () => response.destroy());
    };
    expect(await settledAfter(script)).toMatchObject({
      ending: 'upstream_cut',
      voided: true,
      charged: '0.00',
    });
  });

  it('charges nothing for an error in place of an answer', async () => {
    expect(await settledAfter(answerJson('{"error":{"message":"overloaded"}}'), false)).toMatchObject({
      voided: true,
    });
  });

  it('charges nothing for an error in the first event of a stream', async () => {
    const script = answerStream(['data: {"error":{"message":"overloaded"}}\n\n', DONE]);
    expect(await settledAfter(script)).toMatchObject({ voided: true });
  });

  it('never counts the text of an error as output', async () => {
    expect(await settledAfter(answerJson(`{"error":"${'x'.repeat(5000)}"}`, 500), false)).toMatchObject({
      voided: true,
      charged: '0.00',
    });
  });

  it('charges nothing when the provider can not be reached', async () => {
    await gateway.provider.close();
    expect(await settledAfter(() => {}, false)).toMatchObject({ voided: true, ending: 'upstream_error' });
    gateway.provider.close = async () => {};
  });

  it('charges nothing when the provider resets the connection before it answers', async () => {
    expect(await settledAfter((response) => response.destroy(), false)).toMatchObject({ voided: true });
  });

  it('charges the prompt when the client leaves before any output', async () => {
    gateway.provider.script = () => {};
    const arrived = gateway.provider.next();
    const controller = new AbortController();
    const settled = gateway.nextSettled();
    const asked = gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    await arrived;
    controller.abort();
    expect(await asked).toBe('left');
    expect(await settled).toMatchObject({ ending: 'client_gone', usageSource: 'estimated', voided: false });
    expect((await settled).usage).toMatchObject({ completionTokens: 0 });
  });

  it('takes a client that leaves at [DONE] for one that has finished', async () => {
    // The provider never ends it.
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(STREAM.join(''));
    };
    const settled = gateway.nextSettled();
    for await (const _ of await gateway.client.chat.completions.create({ ...QUESTION, stream: true }));
    expect(await settled).toMatchObject({ ending: 'finished', charged: '0.000045' });
  });

  it('prices cached tokens apart, inside the prompt', async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 12, prompt_tokens_details: { cached_tokens: 4 } };
    // 5 × 1,000 + 4 × 100 + 12 × 3,000
    expect((await settledAfter(answerJson(completionBody({ usage })), false)).charged).toBe('0.0000414');
  });
});

describe('usage of a stream', () => {
  const CASES: readonly [
    string,
    Partial<ProviderOptions>,
    Record<string, unknown>,
    readonly string[],
    string | undefined,
  ][] = [
    [
      'asks for it where the provider takes the option',
      { streamUsage: 'option' },
      {},
      STREAM,
      '{"include_usage":true}',
    ],
    [
      'overrides an explicit false',
      { streamUsage: 'option' },
      { stream_options: { include_usage: false } },
      STREAM,
      '{"include_usage":true}',
    ],
    [
      'keeps other stream options',
      { streamUsage: 'option' },
      { stream_options: { include_obfuscation: false } },
      STREAM,
      undefined,
    ],
    ['asks for nothing where usage comes unasked', { streamUsage: 'native' }, {}, STREAM, 'absent'],
    ['asks for nothing where the option is refused', { streamUsage: 'rejected' }, {}, STREAM, 'absent'],
  ];

  it.each(CASES)('%s', async (_name, provider, fields, stream, options) => {
    const gateway = await startGateway({ provider });
    gateway.provider.script = answerStream(stream);
    const settled = gateway.nextSettled();
    await (await gateway.post({ ...QUESTION, stream: true, ...fields })).text();
    expect((await settled).charged).toBe('0.000045');
    const sent = JSON.parse(String(gateway.provider.received[0]?.body)) as { stream_options?: unknown };
    if (options === 'absent') expect(sent).not.toHaveProperty('stream_options');
    else if (options) expect(JSON.stringify(sent.stream_options)).toBe(options);
    else expect(sent.stream_options).toEqual({ include_obfuscation: false, include_usage: true });
    await gateway.close();
  });

  it('is read from a chunk that has choices too, which is left alone', async () => {
    const gateway = await startGateway();
    const last = event({
      choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
      usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 },
    });
    const stream = [text('Hello'), last, DONE];
    gateway.provider.script = answerStream(stream);
    const settled = gateway.nextSettled();
    expect(await (await gateway.post({ ...QUESTION, stream: true })).text()).toBe(stream.join(''));
    expect((await settled).charged).toBe('0.000045');
    await gateway.close();
  });
});

describe('holds', () => {
  it('limit the output to what the balance covers, and say so', async () => {
    const gateway = await startGateway({}, undefined, '0.001');
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    const limit = Number(response.headers.get('x-ccr-max-tokens'));
    expect(limit).toBe(286); // 0.001 USD less the 142 tokens that the prompt has at most
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toMatchObject({ max_tokens: limit });
    expect((await settled).charged).toBe('0.000045');
    await gateway.close();
  });

  it('refuse in strict mode with a number that then fits', async () => {
    const gateway = await startGateway({ holdMode: 'strict' }, undefined, '0.001');
    const refused = await gateway.post(QUESTION);
    expect(refused.status).toBe(402);
    const { error } = (await refused.json()) as {
      error: { affordable_max_tokens: number; available: string };
    };
    expect(error.available).toBe('0.001');
    expect(error.affordable_max_tokens).toBe(286);
    const again = await gateway.post({ ...QUESTION, max_tokens: error.affordable_max_tokens });
    expect(again.status).toBe(200);
    await gateway.close();
  });

  it('let only as many requests run at once as the balance covers', async () => {
    const gateway = await startGateway({ holdMode: 'strict' }, undefined, '0.0099');
    const { promise: allJudged, resolve: answerThem } = Promise.withResolvers<void>();
    gateway.provider.script = async (response) => {
      await allJudged;
      response.writeHead(200, { 'content-type': 'application/json' }).end(completionBody());
    };
    // Each holds about 0.00314 USD: 1,000 completion tokens and its prompt. Three fit.
    let refused = 0;
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const { status } = await gateway.post(QUESTION);
        if (status === 402 && ++refused === 17) answerThem();
        return status;
      }),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(statuses.filter((status) => status === 402)).toHaveLength(17);
    expect(gateway.provider.received).toHaveLength(3);
    await gateway.close();
  });

  it('are not needed by a free model, not even by an account without credits', async () => {
    const gateway = await startGateway(
      { models: { free: { targets: ['loopback/upstream-model'], pricing: 'free' } } },
      undefined,
      '0.00',
    );
    const response = await gateway.post({ ...QUESTION, model: 'free' });
    expect(response.status).toBe(200);
    await gateway.close();
  });

  it('are not needed by a free model, not even an account is', async () => {
    const gateway = await startGateway({
      models: { free: { targets: ['loopback/upstream-model'], pricing: 'free' } },
      authenticate: () => ({ account: 'nobody', key: 'k' }),
    });
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, model: 'free' });
    expect(response.status).toBe(200);
    await response.text();
    expect(await settled).toMatchObject({ account: 'nobody', charged: '0.00' });
    await gateway.close();
  });

  it('charge what a target costs where it has a price of its own, and know what the provider bills', async () => {
    const target = {
      provider: 'loopback',
      model: 'upstream-model',
      pricing: { input: '2', output: '4' },
      cost: { input: '1', output: '1' },
    };
    const gateway = await startGateway({
      models: { dear: { targets: [target], pricing: PRICING, maxOutputTokens: 100 } },
    });
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, model: 'dear' });
    expect(await settled).toMatchObject({ charged: '0.000066', cost: '0.000021' });
    await gateway.close();
  });
});

describe('a charge whose answer the store loses, and that is posted again', () => {
  /** The first charge is made, and not answered. */
  class LosingStore extends MemoryStore {
    #isFirst = true;

    override settle(command: Parameters<MemoryStore['settle']>[0]): ReturnType<MemoryStore['settle']> {
      const answer = super.settle(command);
      if (!this.#isFirst) return answer;
      this.#isFirst = false;
      throw new StoreUnavailableError('unknown');
    }
  }

  async function start(): Promise<{ gateway: Gateway; events: LedgerEvent[]; toppedUp: Promise<TopUp> }> {
    const events: LedgerEvent[] = [];
    const { promise: toppedUp, resolve } = Promise.withResolvers<TopUp>();
    const gateway = await startGateway(
      {
        store: new LosingStore(),
        hooks: {
          onLedgerEvent: (event) => {
            if ('requestId' in event) events.push(event);
          },
        },
        thresholds: { topUp: { below: '0.00', run: resolve } },
      },
      undefined,
      '0.01',
    );
    onTestFinished(() => gateway.close());
    return { gateway, events, toppedUp };
  }

  it('is told of with what was written off, and asks for a top-up', async () => {
    const { gateway, events, toppedUp } = await start();
    const usage = { prompt_tokens: 9, completion_tokens: 5000 };
    gateway.provider.script = answerJson(completionBody({ usage }));
    const settled = gateway.nextSettled();
    expect((await gateway.post({ ...QUESTION, max_tokens: 10 })).status).toBe(200);
    const { requestId, ...told } = await settled;
    expect(told).toMatchObject({ charged: '0.01', writtenOff: '0.005009' });
    const of = { account: 'acct', requestId };
    expect(events).toEqual([
      { type: 'overrun', ...of, held: '0.000172', charged: '0.01' },
      { type: 'write_off', ...of, amount: '0.005009' },
    ]);
    expect(await toppedUp).toMatchObject({ account: 'acct', unspent: '0.00' });
  });

  it('says so to the host, where it is that of a hold', async () => {
    const { gateway, events, toppedUp } = await start();
    const hold = await gateway.router.holds.open({ account: 'acct', model: 'job', amount: '0.004' });
    expect(await hold.settle('0.03')).toEqual({ charged: '0.01', writtenOff: '0.02' });
    expect(gateway.settled).toMatchObject([{ charged: '0.01', writtenOff: '0.02' }]);
    expect(events.map(({ type }) => type)).toEqual(['overrun', 'write_off']);
    expect(await toppedUp).toMatchObject({ unspent: '0.00' });
  });
});
