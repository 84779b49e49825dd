import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';

import { afterEach, describe, expect, it, vi } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import {
  type Admit,
  type AdmitResult,
  type Extend,
  type ExtendResult,
  StoreUnavailableError,
} from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { type Gateway, PRICING, QUESTION, startGateway, untilStill } from '../../helpers/gateway.ts';
import { answerJson, beginStream, completionBody, DONE, event, text } from '../../helpers/provider.ts';

/** A memory store that tells when a larger hold is asked for, and answers that when it is let. */
class WatchedStore extends MemoryStore {
  /** The holds that were asked for beyond the first, in order. */
  readonly growths: bigint[] = [];
  readonly #events = new EventEmitter();
  #held = 0n;
  #gate: Promise<unknown> | undefined;

  override async admit(command: Admit): Promise<AdmitResult> {
    const result = await super.admit(command);
    if (result.code === 'ok') this.#held = result.hold;
    return result;
  }

  override async extend(command: Extend): Promise<ExtendResult> {
    if (command.hold > this.#held) {
      this.growths.push(command.hold);
      this.#events.emit('growth');
      await this.#gate;
    }
    return super.extend(command);
  }

  /** From now on growth is answered only once what this gives is called; with an error, that is its answer. */
  shut(): (error?: Error) => void {
    let answer: (error?: Error) => void = () => {};
    const gate = new Promise<void>((resolve, reject) => {
      answer = (error) => {
        this.#gate = undefined;
        if (error) reject(error);
        else resolve();
      };
    });
    gate.catch(() => {});
    this.#gate = gate;
    return answer;
  }

  async nextGrowth(): Promise<void> {
    await once(this.#events, 'growth');
  }
}

let gateway: Gateway;
let store: WatchedStore;

async function start(
  credits: string,
  options: Parameters<typeof startGateway>[0] = {},
  maxOutputTokens = 100_000,
): Promise<void> {
  store = new WatchedStore();
  gateway = await startGateway(
    {
      store,
      holdMode: 'adaptive',
      models: {
        'acme/fast': {
          targets: ['loopback/upstream-model'],
          pricing: PRICING,
          maxOutputTokens,
        },
      },
      ...options,
    },
    undefined,
    credits,
  );
}

afterEach(async () => {
  await gateway.close();
  const { available, held, spent, granted, writtenOff } = (await store.snapshot('acct'))!;
  expect(held).toBe(0n);
  expect(available + spent).toBe(granted);
  expect(writtenOff).toBe(0n);
});

/** Text of so many tokens by estimate. */
const tokens = (count: number): string => text('abcd'.repeat(count));

/** A stream that is read and written piece by piece. */
interface Stream {
  readonly response: Response;
  /** The provider sends so many tokens more. */
  send(count: number): Promise<void>;
  /** Reads until the client has got so many tokens more, or the end; says how many it got. */
  receive(count: number): Promise<number>;
  /** Everything the client got so far. */
  readonly seen: string;
  write(piece: string): Promise<void>;
  end(...pieces: readonly string[]): void;
  /** The provider dies. */
  destroy(): void;
}

async function open(fields: Record<string, unknown> = {}, init: RequestInit = {}): Promise<Stream> {
  const answering = new Promise<ServerResponse>((resolve) => {
    gateway.provider.script = (toRouter) => {
      beginStream(toRouter);
      resolve(toRouter);
    };
  });
  const body = { ...QUESTION, stream: true, ...fields };
  const response = await gateway.post(body, init);
  const toRouter = await answering;
  const write = (piece: string): Promise<void> =>
    new Promise((resolve) => toRouter.write(piece, () => resolve()));
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  return {
    response,
    seen: '',
    send: (count) => write(tokens(count)),
    write,
    async receive(count) {
      let got = 0;
      while (got < count) {
        const { done, value } = await reader.read();
        if (done) break;
        (this as { seen: string }).seen += value;
        got += value.split('abcd').length - 1;
      }
      return got;
    },
    end: (...pieces) => toRouter.end(pieces.join('')),
    destroy: () => toRouter.destroy(),
  };
}

/** An API key of the account with a budget a day. */
async function keyWithBudget(amount: bigint): Promise<string> {
  const elsewhere = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });
  const { key, id } = await elsewhere.keys.create({ account: 'acct' });
  const hash = createHash('sha256').update(key).digest('hex');
  const limits = { budgets: [{ amount, per: 'day' as const }] };
  await store.createKey({ account: 'acct', key: id, hash, name: 'small', limits });
  return key;
}

/** A running request's hold. */
async function held(): Promise<bigint> {
  return (await store.balance('acct'))!.held;
}

describe('an adaptive hold', () => {
  it('is the prompt and 1,024 tokens at first', async () => {
    await start('5.00');
    const stream = await open();
    expect(await held()).toBe(3_214_000n); // 142 tokens of prompt at most, 1,024 of output
    stream.end(DONE);
    await stream.receive(1);
  });

  it('is 1,024 tokens for each answer', async () => {
    await start('5.00');
    const stream = await open({ n: 3 });
    expect(await held()).toBe(9_358_000n); // 142,000 + 3,072 × 3,000
    stream.end(DONE);
    await stream.receive(1);
  });

  it('is never more than all that the request can cost, and does not grow then', async () => {
    await start('5.00');
    const stream = await open({ max_tokens: 100 });
    expect(await held()).toBe(442_000n);
    await stream.send(90);
    expect(await stream.receive(90)).toBe(90);
    stream.end(DONE);
    await stream.receive(1);
    expect(store.growths).toEqual([]);
  });

  it('lets a small balance run more at a time than it could hold for whole', async () => {
    await start('0.0065');
    const both = [await open(), await open()];
    for (const stream of both) {
      expect(stream.response.status).toBe(200);
      expect(stream.response.headers.get('x-ccr-max-tokens')).toBeNull();
      stream.end(DONE);
      await stream.receive(1);
    }
  });

  it('is doubled past 60 % of its output, and not before', async () => {
    await start('5.00');
    const stream = await open();
    await stream.send(614);
    await stream.receive(614);
    expect(store.growths).toEqual([]);
    const grown = store.nextGrowth();
    await stream.send(1);
    await grown;
    await stream.receive(1);
    expect(store.growths).toEqual([6_286_000n]); // 142,000 + 2,048 × 3,000
    stream.end(DONE);
    await stream.receive(1);
  });

  it('is doubled as often as one piece needs, and its client gets all of it', async () => {
    await start('5.00');
    const stream = await open();
    await stream.send(5000);
    expect(await stream.receive(5000)).toBe(5000);
    // 60 % of 8,192 tokens are less than 5,000: 16,384
    expect(store.growths).toEqual([49_294_000n]);
    const settled = gateway.nextSettled();
    stream.end(text('', 'stop'), DONE);
    await stream.receive(1);
    expect(await settled).toMatchObject({ charged: '0.015013', writtenOff: '0.00', ending: 'finished' });
  });

  it('grows to all that the request can cost, and no further', async () => {
    await start('5.00');
    const stream = await open({ max_tokens: 1500 });
    await stream.send(700);
    await stream.receive(700);
    await stream.send(790);
    await stream.receive(790);
    expect(store.growths).toEqual([4_642_000n]); // 142,000 + 1,500 × 3,000
    stream.end(DONE);
    await stream.receive(1);
  });

  it('grows by what the provider counts too, which may be more than its text', async () => {
    await start('5.00');
    const stream = await open();
    const usage = { prompt_tokens: 13, completion_tokens: 700, total_tokens: 713 };
    const grown = store.nextGrowth();
    stream.end(event({ choices: [{ index: 0, delta: { content: 'abcd' } }], usage }), DONE);
    await grown;
    await stream.receive(1);
    expect(store.growths).toEqual([6_286_000n]);
  });

  it('does not grow by a count that can not be', async () => {
    await start('5.00');
    const stream = await open();
    const usage = { prompt_tokens: 13, completion_tokens: 1e15, total_tokens: 1e15 };
    stream.end(event({ choices: [{ index: 0, delta: { content: 'abcd' } }], usage }), DONE);
    await stream.receive(2);
    expect(store.growths).toEqual([]);
    expect(stream.seen).toContain('[DONE]');
  });

  it('lets nothing pass beyond it while its growth is awaited, and everything after', async () => {
    await start('5.00');
    const stream = await open();
    const answerGrowth = store.shut();
    await stream.send(1000);
    expect(await stream.receive(1000)).toBe(1000); // 60 % are passed, the hold is not
    await stream.send(25);
    const { length } = stream.seen;
    const next = stream.receive(25);
    expect(await untilStill(gateway, () => stream.seen.length)).toBe(length);
    expect(await held()).toBe(3_214_000n);
    answerGrowth();
    expect(await next).toBe(25);
    expect(store.growths).toEqual([6_286_000n]);
    stream.end(DONE);
    await stream.receive(1);
  });

  it('stops the provider while its growth is awaited', async () => {
    await start('5.00');
    const stream = await open();
    const answerGrowth = store.shut();
    const asked = store.nextGrowth();
    await stream.send(1025);
    await asked;
    // More than all buffers between the provider and us, and no text.
    const megabyte = `: ${'x'.repeat(2 ** 20)}\n\n`;
    let written = 0;
    const writing = (async () => {
      for (; written < 64; written++) await stream.write(megabyte);
    })();
    expect(await untilStill(gateway, () => written)).toBeLessThan(64);
    answerGrowth();
    await stream.receive(1025);
    stream.end(DONE);
    await stream.receive(1);
    await writing;
  });
});

describe('a stream whose hold can not grow', () => {
  it('goes on to the end of what is there, and ends with an error event and a clean close', async () => {
    await start('0.004');
    const stream = await open();
    const settled = gateway.nextSettled();
    // The rest of the balance is held at the first growth: 4,000,000 less 13,000 are 1,329 tokens.
    for (const count of [700, 600]) {
      await stream.send(count);
      expect(await stream.receive(count)).toBe(count);
    }
    expect(await held()).toBe(4_000_000n);
    await stream.send(100);
    expect(await stream.receive(1)).toBe(0);
    expect(stream.seen.slice(stream.seen.lastIndexOf('data: '))).toBe(
      'data: {"error":{"message":"The credits ran out during this answer; the part that was delivered was charged.","type":"insufficient_quota","param":null,"code":"credits_exhausted"}}\n\n',
    );
    expect(stream.seen).not.toContain('[DONE]');
    await gateway.provider.received[0]?.aborted;
    // 13,000 + 1,300 × 3,000: what was delivered, and not what was read.
    expect(await settled).toMatchObject({
      charged: '0.003913',
      writtenOff: '0.00',
      usageSource: 'estimated',
      ending: 'credits_exhausted',
    });
    const [line] = (await store.journal('acct', 1n, 10)) ?? [];
    expect(line).toMatchObject({ type: 's', amount: 3_913_000n, hold: 4_000_000n });
  });

  it('ends at the budget of its key as at the balance', async () => {
    await start('5.00');
    const key = await keyWithBudget(4_000_000n);
    const stream = await open({}, { headers: { authorization: `Bearer ${key}` } });
    const settled = gateway.nextSettled();
    // The rest of the budget is held at the first growth: 4,000,000 less 13,000 are 1,329 tokens.
    for (const count of [700, 600]) {
      await stream.send(count);
      expect(await stream.receive(count)).toBe(count);
    }
    expect(await held()).toBe(4_000_000n);
    await stream.send(100);
    expect(await stream.receive(1)).toBe(0);
    expect(stream.seen).toContain('credits_exhausted');
    expect(await settled).toMatchObject({ charged: '0.003913', ending: 'credits_exhausted' });
  });

  it('does not end within a budget that covers its answer', async () => {
    await start('5.00');
    const key = await keyWithBudget(6_200_000n);
    const stream = await open({}, { headers: { authorization: `Bearer ${key}` } });
    const settled = gateway.nextSettled();
    await stream.send(1900);
    expect(await stream.receive(1900)).toBe(1900);
    stream.end(text('', 'stop'), DONE);
    await stream.receive(1);
    expect(await settled).toMatchObject({ charged: '0.005713', ending: 'finished' });
  });

  it('ends between two events, wherever the network cut them', async () => {
    await start('0.0032', { provider: { streamUsage: 'native' } });
    const stream = await open();
    const event = tokens(100);
    await stream.send(1000);
    await stream.receive(1000);
    await stream.write(event.slice(0, 50));
    await stream.write(event.slice(50) + event.slice(0, 50));
    await stream.receive(1);
    for (const line of stream.seen.trim().split('\n\n')) JSON.parse(line.slice('data: '.length));
    expect(stream.seen).toContain('credits_exhausted');
  });

  it('is charged also where answers that are no use are free', async () => {
    await start('0.0032', { emptyAnswerIsFree: true });
    const stream = await open();
    const settled = gateway.nextSettled();
    await stream.send(1000);
    await stream.receive(1000);
    await stream.send(100);
    await stream.receive(1);
    expect(await settled).toMatchObject({ charged: '0.003013', ending: 'credits_exhausted' });
  });

  it('is charged for what its client got that left at the end of the hold', async () => {
    await start('5.00');
    const controller = new AbortController();
    const stream = await open({}, { signal: controller.signal });
    const settled = gateway.nextSettled();
    await stream.send(1000);
    await stream.receive(1000);
    const answerGrowth = store.shut();
    await stream.send(2000);
    controller.abort();
    expect(await settled).toMatchObject({ charged: '0.003013', ending: 'client_gone' });
    answerGrowth();
  });

  it('ends like that where the upstream dies at the end of its hold', async () => {
    await start('5.00');
    const answerGrowth = store.shut();
    const stream = await open();
    const settled = gateway.nextSettled();
    await stream.send(600);
    await stream.receive(600);
    const asked = store.nextGrowth();
    await stream.send(2000);
    await asked;
    stream.destroy();
    expect(await stream.receive(1)).toBe(0);
    expect(stream.seen).toContain('upstream_cut');
    expect(await settled).toMatchObject({ charged: '0.001813', ending: 'upstream_cut' });
    answerGrowth();
  });

  it('does not ask for more with each piece', async () => {
    await start('0.004');
    const stream = await open();
    for (let piece = 0; piece < 13; piece++) {
      await stream.send(100);
      expect(await stream.receive(100)).toBe(100);
    }
    // Twice as much, and what is left: 1,329 tokens; past 60 % of them twice as much once, 142,000 + 2,658 × 3,000.
    expect(store.growths).toEqual([6_286_000n, 4_000_000n, 8_116_000n]);
    stream.end(text('', 'stop'), DONE);
    await stream.receive(1);
  });

  it('goes on where money has come in meanwhile', async () => {
    await start('0.0035');
    const stream = await open();
    await stream.send(700);
    await stream.receive(700);
    await stream.send(300);
    await stream.receive(300);
    await gateway.router.credits.grant('acct', '1.00', { id: 'more' });
    await stream.send(3000);
    expect(await stream.receive(3000)).toBe(3000);
    stream.end(DONE);
    await stream.receive(1);
  });
});

describe('a store that is unavailable when a hold is to grow', () => {
  const UNAVAILABLE =
    '{"error":{"message":"Credits cannot be checked at the moment, so this answer has ended early.","type":"server_error","param":null,"code":"credit_store_unavailable"}}';

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is asked again, and the stream goes on', async () => {
    await start('5.00');
    const stream = await open();
    const answerGrowth = store.shut();
    const asked = store.nextGrowth();
    await stream.send(2000);
    await asked;
    const again = store.nextGrowth();
    answerGrowth(new StoreUnavailableError('unknown'));
    await again;
    expect(await stream.receive(2000)).toBe(2000);
    stream.end(DONE);
    await stream.receive(1);
  });

  it('is waited for 5 seconds at the end of the hold, and the stream ends then', async () => {
    await start('5.00');
    const stream = await open();
    const settled = gateway.nextSettled();
    await stream.send(600);
    await stream.receive(600);
    const answerGrowth = store.shut();
    const asked = store.nextGrowth();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await stream.send(2000);
    await asked;
    vi.advanceTimersByTime(4999);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    expect(gateway.settled).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(await stream.receive(1)).toBe(0);
    expect(stream.seen).toContain(UNAVAILABLE);
    expect(await settled).toMatchObject({ charged: '0.001813', ending: 'failed' });
    answerGrowth();
  });

  it('that does not know the hold any more ends the stream as one that is unavailable', async () => {
    await start('5.00');
    const stream = await open();
    const settled = gateway.nextSettled();
    await stream.send(600);
    await stream.receive(600);
    const extend = store.extend.bind(store);
    store.extend = async (command) => extend({ ...command, requestId: `${command.requestId}x` });
    await stream.send(2000);
    expect(await stream.receive(1)).toBe(0);
    expect(stream.seen).toContain(UNAVAILABLE);
    expect(await settled).toMatchObject({ charged: '0.001813', ending: 'failed' });
  });

  it('that fails otherwise ends it so too', async () => {
    const onError = vi.fn<(error: Error) => void>();
    await start('5.00', { hooks: { onError } });
    const stream = await open();
    const settled = gateway.nextSettled();
    const answerGrowth = store.shut();
    const asked = store.nextGrowth();
    await stream.send(2000);
    await asked;
    answerGrowth(new Error('a bug'));
    expect(await stream.receive(1)).toBe(0);
    expect(stream.seen).toContain(UNAVAILABLE);
    expect(await settled).toMatchObject({ ending: 'failed' });
    expect(onError.mock.calls.map(([{ message }]) => message)).toContain('a bug');
  });
});

describe('what is not a stream', () => {
  it('is clamped: it holds all that it can cost, and is limited to what the balance covers', async () => {
    await start('0.004');
    gateway.provider.script = answerJson(completionBody());
    const response = await gateway.post(QUESTION);
    expect(response.headers.get('x-ccr-max-tokens')).toBe('1329'); // 4,000,000 less 13,000 for the prompt
    await response.text();
    expect(store.growths).toEqual([]);
  });
});
