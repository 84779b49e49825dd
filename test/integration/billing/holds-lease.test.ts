import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Answer } from '../../../src/async/answer.ts';
import {
  type Extend,
  type ExtendResult,
  StoreUnavailableError,
} from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import { DEFAULT_TOKEN_BUDGETS, quoteFor } from '../../../src/metering/estimate.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import { createCatalog } from '../../../src/catalog/catalog.ts';
import type { Model } from '../../../src/catalog/model.ts';
import type { Settled } from '../../../src/observability/hooks.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import type { Hold } from '../../../src/billing/hold.ts';
import { FixedHolds, NOTHING_CONSUMED } from '../../../src/billing/fixed-hold.ts';
import { BillingService, type BillingServiceOptions } from '../../../src/billing/billing-service.ts';
import { DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';

const OPTIONS = {
  store: 'memory:',
  providers: { acme: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
  models: {
    fast: { targets: ['acme/fast'], pricing: { input: '1', output: '3' }, maxOutputTokens: 1000 },
  },
};
const SETTINGS = resolveSettings(OPTIONS);
const MODEL = createCatalog(OPTIONS, SETTINGS).get('fast') as Model;
const [TARGET] = MODEL.targets;
/** 400 letters in a message: 104 tokens by estimate, 408 at most. Held are 408,000 and 1,000 × 3,000. */
const QUOTE = quoteFor({
  size: {
    messages: 1,
    stringBytes: 400,
    asciiChars: 400,
    nonAsciiChars: 0,
    images: 0,
    audioBytes: 0,
    files: 0,
    fileBytes: 0,
    linkedFiles: 0,
    toolLists: 0,
  },
  budgets: DEFAULT_TOKEN_BUDGETS,
  bounds: DEFAULT_TOKEN_BUDGETS,
  contextWindow: undefined,
  outputCap: 1000,
  modelOutputCap: 1000,
  n: 1,
  webSearches: 0,
  webSearchesNeeded: 0,
  prices: MODEL.prices,
});
const CALLER = { account: 'acct', key: 'external', externalKey: true };

/** A memory store that counts its extends, and answers them when it is let: with a promise, or as it does itself. */
class SlowStore extends MemoryStore {
  readonly extends: { readonly at: number; readonly command: Extend }[] = [];
  inFlight = 0;
  mostInFlight = 0;
  answerMs = 0;
  away = false;

  answersAtOnce = false;

  override extend(command: Extend): Answer<ExtendResult> {
    this.extends.push({ at: Date.now(), command });
    return this.answersAtOnce ? this.#extend(command) : this.#extendLater(command);
  }

  async #extendLater(command: Extend): Promise<ExtendResult> {
    this.inFlight += 1;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    if (this.answerMs > 0) await new Promise((resolve) => setTimeout(resolve, this.answerMs));
    this.inFlight -= 1;
    return this.#extend(command);
  }

  #extend(command: Extend): Answer<ExtendResult> {
    if (this.away) throw new StoreUnavailableError('no');
    return super.extend(command);
  }
}

let store: SlowStore;
let settlements: BillingService;
const settled: Settled[] = [];
const errors: Error[] = [];
const ids = new RequestIds();

beforeEach(() => {
  vi.useFakeTimers();
  settled.length = 0;
  errors.length = 0;
});

afterEach(async () => {
  vi.useRealTimers();
  await settlements.drain();
  await store.close();
});

async function start(options: Partial<BillingServiceOptions> = {}): Promise<void> {
  store = new SlowStore({ now: Date.now });
  await store.grant({ account: 'acct', id: 'welcome', amount: 5_000_000_000n });
  settlements = new BillingService({
    store,
    settings: SETTINGS,
    onSettled: (told) => settled.push(told),
    onError: (error) => errors.push(error),
    tell: () => {},
    ...options,
  });
}

async function admit(): Promise<Hold> {
  const { hold, refusal } = await settlements.admit({
    requestId: ids.next(),
    caller: CALLER,
    model: MODEL,
    quote: QUOTE,
    stream: true,
    idempotencyKey: undefined,
    endUser: undefined,
    dimensions: undefined,
    startedAt: performance.now(),
  });
  if (!hold) throw refusal ?? new Error('its key was changed');
  return hold;
}

/** The answer of a hold begins. */
function answer(hold: Hold): UsageMeter {
  const meter = new UsageMeter();
  hold.watch(TARGET, meter);
  return meter;
}

function finish(hold: Hold, meter: UsageMeter): void {
  meter.end();
  hold.settle({ ending: 'finished', target: TARGET, dispatched: true, answer: { status: 200, meter } });
}

const bytes = (string: string): Uint8Array => Buffer.from(string);
const held = async (): Promise<bigint | undefined> => (await store.balance('acct'))?.held;
const record = async (hold: Hold): ReturnType<MemoryStore['request']> =>
  store.request('acct', hold.terms.requestId);

describe('a lease', () => {
  it('of 1 s lives through a stream of 3 s whose silences are longer, and the charge is its usage', async () => {
    await start({ leaseMs: 1000, renewMs: 250 });
    const hold = await admit();
    const meter = answer(hold);
    for (let ms = 0; ms < 3000; ms += 100) {
      if (ms % 1500 === 0) meter.write(bytes(text('Hello')));
      await vi.advanceTimersByTimeAsync(100);
      await store.sweep(100);
      expect(await held()).toBe(3_508_000n);
    }
    meter.write(bytes(USAGE_EVENT + DONE));
    finish(hold, meter);
    await settlements.drain();
    expect(settled).toMatchObject([{ charged: '0.000045', usageSource: 'upstream', ending: 'finished' }]);
    expect(await held()).toBe(0n);
    expect((await store.journal('acct', 1n, 10)).map(({ type }) => type)).toEqual(['s']);
  });

  it('that was lost is settled all the same, by its id: late, with the difference to what expiry charged', async () => {
    await start({ leaseMs: 1000, renewMs: 5000 });
    const hold = await admit();
    const meter = answer(hold);
    await vi.advanceTimersByTimeAsync(250);
    await vi.advanceTimersByTimeAsync(1000);
    await store.sweep(100);
    expect(await held()).toBe(0n);
    meter.write(bytes(text('Hello') + USAGE_EVENT + DONE));
    finish(hold, meter);
    await settlements.drain();
    expect(settled).toMatchObject([{ charged: '0.000045' }]);
    const lines = await store.journal('acct', 1n, 10);
    // The prompt, by estimate, at the end of the lease; then down to the usage.
    expect(lines.map(({ type, amount }) => [type, amount])).toEqual([
      ['e', 104_000n],
      ['l', -59_000n],
    ]);
  });

  it('of a hold of which a rollback took a part is renewed with all of it, and its estimate is charged in full', async () => {
    await start({ leaseMs: 1000, renewMs: 250 });
    const hold = await admit();
    const meter = answer(hold);
    const extend = store.extend.bind(store);
    store.extend = async (command) => {
      store.extend = extend;
      const { now, seq } = await extend(command);
      return { code: 'no_funds', hold: 1000n, available: 0n, now, seq };
    };
    await vi.advanceTimersByTimeAsync(600);
    expect(store.extends.map(({ command }) => command.hold)).toEqual([3_508_000n, 3_508_000n]);
    meter.write(bytes(text('Hello') + DONE));
    finish(hold, meter);
    await settlements.drain();
    expect(settled).toMatchObject([{ charged: '0.00011', usageSource: 'estimated' }]);
  });

  it('that the store refuses to charge is told as a hold of which nothing was charged', async () => {
    await start();
    const hold = await admit();
    const meter = answer(hold);
    await store.void({ account: 'acct', requestId: hold.terms.requestId });
    meter.write(bytes(text('Hello') + USAGE_EVENT + DONE));
    finish(hold, meter);
    await settlements.drain();
    expect(errors).toMatchObject([{ message: 'A charge could not be posted: the store says voided' }]);
    const { requestId } = hold.terms;
    expect(settled).toMatchObject([{ requestId, voided: true, charged: '0.00', ending: 'finished' }]);
  });

  it('of a fixed amount that the store refuses to charge is told so, too', async () => {
    await start();
    const holds = new FixedHolds(settlements.keeper, (told) => settled.push(told));
    const requestId = ids.next();
    const none = { idempotencyKey: undefined, endUser: undefined, dimensions: undefined };
    const terms = { requestId, caller: CALLER, model: 'images/flux', provider: 'host', tokens: 0, ...none };
    const { hold } = await holds.open(terms, 1000n);
    store.settle = async () => ({ code: 'no_account', now: Date.now(), seq: 0n });
    await expect(hold?.settle(1000n, NOTHING_CONSUMED)).rejects.toThrow('the store says no_account');
    expect(settled).toMatchObject([{ requestId, voided: true, charged: '0.00', ending: 'finished' }]);
  });

  it('that was lost is not renewed again', async () => {
    await start({ leaseMs: 1000, renewMs: 5000 });
    await admit();
    await vi.advanceTimersByTimeAsync(2000);
    await store.sweep(100);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(store.extends).toHaveLength(1);
  });
});

describe('a request whose process dies', () => {
  async function chargedAfter(
    options: Partial<BillingServiceOptions>,
    run: (hold: Hold) => Promise<void>,
  ): Promise<bigint> {
    await start({ leaseMs: 120_000, renewMs: 30_000, ...options });
    const hold = await admit();
    await run(hold);
    // Nobody renews it any more.
    await settlements.drain();
    await vi.advanceTimersByTimeAsync(120_001);
    await store.sweep(100);
    expect(await record(hold)).toMatchObject({ state: 'expired' });
    return (await store.balance('acct'))?.spent ?? -1n;
  }

  async function silence(): Promise<void> {}

  async function beginning(hold: Hold): Promise<void> {
    answer(hold);
    await vi.advanceTimersByTimeAsync(250);
  }

  async function output(hold: Hold): Promise<void> {
    answer(hold).write(bytes(text('x'.repeat(400))));
    await vi.advanceTimersByTimeAsync(30_000);
  }

  it('pays nothing if no answer had begun', async () => {
    expect(await chargedAfter({}, silence)).toBe(0n);
  });

  it('pays its prompt a quarter of a second after its answer began', async () => {
    expect(await chargedAfter({}, beginning)).toBe(104_000n);
  });

  it('pays its prompt and output as of its last sign of life', async () => {
    expect(await chargedAfter({}, output)).toBe(404_000n);
  });
});

describe('signs of life', () => {
  it('are given in the phase of each hold', async () => {
    await start({ renewMs: 1000 });
    const began = Date.now();
    for (let i = 0; i < 10; i++) {
      await admit();
      await vi.advanceTimersByTimeAsync(100);
    }
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.extends.map(({ at }) => at - began)).toEqual([
      1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 1900, 2000,
    ]);
  });

  it('of a thousand holds that are due at once go out 16 at a time', async () => {
    await start({ renewMs: 1000 });
    store.answerMs = 10;
    await Promise.all(Array.from({ length: 1000 }, admit));
    await vi.advanceTimersByTimeAsync(1000 + 63 * 10);
    expect(store.mostInFlight).toBe(16);
    expect(new Set(store.extends.map(({ command }) => command.requestId)).size).toBe(1000);
  });

  it('of ten thousand holds go out 100 at a time: at a slow store, no lease ends', async () => {
    await start();
    await store.grant({ account: 'acct', id: 'more', amount: 100_000_000_000n });
    store.answerMs = 1000;
    const holds = await Promise.all(Array.from({ length: 10_000 }, admit));
    await vi.advanceTimersByTimeAsync(30_000 + 89_000);
    expect(store.mostInFlight).toBe(100);
    await store.sweep(10_000);
    await vi.advanceTimersByTimeAsync(30_000);
    await store.sweep(10_000);
    expect(await held()).toBe(10_000n * holds[0]!.amount);
  });

  it('of one hold wait for the answer to the last: a slow store is asked less often', async () => {
    await start({ renewMs: 1000 });
    store.answerMs = 10_000;
    await admit();
    await vi.advanceTimersByTimeAsync(35_000);
    expect(store.mostInFlight).toBe(1);
    expect(store.extends).toHaveLength(4); // After 1, 12, 23 and 34 seconds.
  });

  it('are not given for a request that is over within a quarter of a second of its answer', async () => {
    await start();
    const hold = await admit();
    const meter = answer(hold);
    await vi.advanceTimersByTimeAsync(200);
    meter.write(bytes(text('Hello', 'stop') + USAGE_EVENT + DONE));
    finish(hold, meter);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(store.extends).toEqual([]);
  });

  it.each([
    ['later', false],
    ['at once', true],
  ])('that a store refuses %s are tried again, and complained of once', async (_when, atOnce) => {
    await start({ renewMs: 1000 });
    store.answersAtOnce = atOnce;
    store.away = true;
    await admit();
    await admit();
    await vi.advanceTimersByTimeAsync(3000);
    expect(store.extends).toHaveLength(6);
    expect(errors).toHaveLength(1);
    store.away = false;
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.extends).toHaveLength(8);
  });
});

describe('signs of life at a store that answers at once', () => {
  async function startAtOnce(): Promise<void> {
    await start({ renewMs: 1000 });
    store.answersAtOnce = true;
  }

  const seconds = (from: number): readonly number[] => store.extends.map(({ at }) => (at - from) / 1000);

  it('are given on time, and not any more once the request is over', async () => {
    await startAtOnce();
    const began = Date.now();
    const hold = await admit();
    const meter = answer(hold);
    await vi.advanceTimersByTimeAsync(2300);
    expect(seconds(began)).toEqual([0.25, 1.25, 2.25]);
    meter.write(bytes(text('Hello', 'stop') + USAGE_EVENT + DONE));
    finish(hold, meter);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(store.extends).toHaveLength(3);
  });

  it('are given for all that are due, of which some end meanwhile', async () => {
    await startAtOnce();
    const holds = await Promise.all(Array.from({ length: 40 }, admit));
    const extend = store.extend.bind(store);
    store.extend = (command) => {
      // The renewal of each ends the next one.
      const n = holds.findIndex(({ terms }) => terms.requestId === command.requestId);
      holds[n + 1]?.settle({ ending: 'client_gone', target: TARGET, dispatched: false });
      return extend(command);
    };
    await vi.advanceTimersByTimeAsync(1000);
    const renewed = holds.filter((_, n) => n % 2 === 0).map(({ terms }) => terms.requestId);
    expect(store.extends.map(({ command }) => command.requestId)).toEqual(renewed);
    store.extend = extend;
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.extends).toHaveLength(40);
  });

  it('are not given to a hold whose lease has ended', async () => {
    await startAtOnce();
    const hold = await admit();
    await store.void({ account: 'acct', requestId: hold.terms.requestId });
    await vi.advanceTimersByTimeAsync(5000);
    expect(store.extends).toHaveLength(1);
  });
});
