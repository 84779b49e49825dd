import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import type { RequestLogRow } from '../../../src/ledger/contract/request-log.ts';
import { MemoryRequestLog } from '../../../src/ledger/stores/memory/memory-request-log.ts';
import { type LoggedRequest, readRow, rowOf } from '../../../src/request-log/logged-request.ts';
import { idAt } from '../../../src/request-log/search.ts';
import type { ResponseEnded, Settled } from '../../../src/observability/hooks.ts';
import { RequestLogWriter, type RequestLogOptions } from '../../../src/request-log/request-log.ts';

const DAY_MS = 86_400_000;
const ids = new RequestIds();

/** A store that can be away, and counts what it is asked. */
class Store extends MemoryRequestLog {
  isAway = false;
  readonly batches: number[] = [];
  trims = 0;

  override async append(rows: readonly RequestLogRow[]): Promise<void> {
    if (this.isAway) throw new Error('away');
    this.batches.push(rows.length);
    await super.append(rows);
  }

  override async trim(before: string, max: number): Promise<number> {
    this.trims += 1;
    return super.trim(before, max);
  }
}

class Log {
  readonly store = new Store();
  readonly errors: string[] = [];
  readonly writer: RequestLogWriter;

  constructor(options: Partial<RequestLogOptions> = {}) {
    const onError = ({ message }: Error): void => void this.errors.push(message);
    const defaults = { store: this.store, days: 7, max: 100_000, now: Date.now, onError };
    this.writer = new RequestLogWriter({ ...defaults, ...options });
  }

  ended(more: Partial<ResponseEnded> = {}): string {
    const requestId = more.requestId ?? ids.next();
    this.writer.hooks?.onResponse?.({ ...ENDED, startedAt: Date.now(), ...more, requestId });
    return requestId;
  }

  refused(account = 'acme'): string {
    return this.ended({ admitted: false, status: 429, errorCode: 'rate_limit_exceeded', account });
  }

  /** What the store has of it. */
  async written(id: string): Promise<LoggedRequest | undefined> {
    const row = await this.store.find(id);
    return row && readRow(row);
  }

  settled(requestId: string): void {
    this.writer.hooks?.onSettled?.({ ...SETTLED, requestId });
  }
}

const ENDED: Omit<ResponseEnded, 'requestId' | 'startedAt'> = {
  endpoint: 'completions',
  method: 'POST',
  path: '/v1/chat/completions',
  status: 200,
  account: 'acme',
  key: 'k1',
  model: 'acme/fast',
  provider: 'loopback',
  upstreamModel: 'fast',
  stream: false,
  attempts: [],
  durationMs: 12.5,
  ending: 'finished',
  admitted: true,
};

const SETTLED: Omit<Settled, 'requestId'> = {
  account: 'acme',
  key: 'k1',
  model: 'acme/fast',
  provider: 'loopback',
  upstreamModel: 'fast',
  charged: '0.25',
  writtenOff: '0.00',
  voided: false,
  usageSource: 'upstream',
  ending: 'finished',
};

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance', 'Date'],
  });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a row of the log', () => {
  it('is the request again, with all that it may have', () => {
    const usage = {
      promptTokens: 1200,
      cachedTokens: 1,
      cacheWriteTokens: 2,
      cacheWriteHourTokens: 0,
      audioPromptTokens: 3,
      imagePromptTokens: 4,
      completionTokens: 30,
      reasoningTokens: 5,
      audioCompletionTokens: 6,
      imageCompletionTokens: 7,
      webSearches: 8,
      toolCalls: 9,
    };
    const target = { provider: 'loopback', model: 'fast', startedAt: 1_700_000_000_004, durationMs: 8.25 };
    const failed = { ...target, errorCode: 'upstream_unreachable', upstreamErrorCode: 'ECONNREFUSED' };
    const ended = {
      ...ENDED,
      requestId: 'r1',
      startedAt: 1_700_000_000_000,
      attempts: [
        { ...failed, host: 'h', port: 1 },
        { ...target, host: 'h', port: 1, status: 200, upstreamRequestId: 'up-1' },
      ],
      errorCode: 'upstream_cut',
      firstByteMs: 9.5,
      finishReason: 'stop',
      clientRequestId: 'mine',
    };
    const settled = {
      ...SETTLED,
      requestId: 'r1',
      byok: false,
      writtenOff: '0.01',
      cost: '0.20',
      price: 'v1',
      usage,
      dimensions: { user: 'u"1' },
    };
    expect(readRow(rowOf(ended, settled, false))).toStrictEqual({
      id: 'r1',
      createdAt: new Date(1_700_000_000_000),
      account: 'acme',
      key: 'k1',
      endpoint: 'completions',
      status: 200,
      code: 'upstream_cut',
      model: 'acme/fast',
      provider: 'loopback',
      upstreamModel: 'fast',
      byok: false,
      streamed: false,
      firstByteMs: 9.5,
      durationMs: 12.5,
      ending: 'finished',
      finishReason: 'stop',
      state: 'settled',
      charged: '0.25',
      writtenOff: '0.01',
      cost: '0.20',
      price: 'v1',
      dimensions: { user: 'u"1' },
      clientRequestId: 'mine',
      attempts: [
        {
          provider: 'loopback',
          model: 'fast',
          afterMs: 4,
          durationMs: 8.25,
          code: 'upstream_unreachable',
          upstreamCode: 'ECONNREFUSED',
        },
        {
          provider: 'loopback',
          model: 'fast',
          afterMs: 4,
          durationMs: 8.25,
          status: 200,
          upstreamRequestId: 'up-1',
        },
      ],
      usage: { ...usage, source: 'upstream' },
    });
  });

  it('is nothing to a release that has another form of it', () => {
    const row = rowOf({ ...ENDED, requestId: 'r1', startedAt: 0 }, undefined, false);
    for (const json of ['{"id":"r1"}', '[]', row.json.replace('[1,', '[2,'), row.json.slice(0, -1)]) {
      expect(readRow({ ...row, json })).toBeUndefined();
    }
    expect(readRow(row)).toMatchObject({ id: 'r1', state: 'unsettled' });
  });
});

describe('the writer of the log of requests', () => {
  it('writes a second after the response, and nothing on its path', async () => {
    const log = new Log();
    const id = log.ended();
    log.settled(id);
    expect(log.store.batches).toEqual([]);
    await vi.advanceTimersByTimeAsync(999);
    expect(log.store.batches).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(log.store.batches).toEqual([1]);
    expect(await log.written(id)).toMatchObject({ charged: '0.25' });
  });

  it('writes in batches of at most 100, the first as soon as it is full', async () => {
    const log = new Log();
    for (let n = 0; n < 250; n++) log.settled(log.ended());
    await vi.advanceTimersByTimeAsync(0);
    expect(log.store.batches).toEqual([100, 100, 50]);
  });

  it('loses only what waits in a crash: what a second process finds was written before', async () => {
    const log = new Log();
    const first = log.ended();
    log.settled(first);
    await vi.advanceTimersByTimeAsync(1000);
    const second = log.ended();
    log.settled(second);
    // The process dies here. Another one opens the store.
    const other = new RequestLogWriter({
      store: log.store,
      days: 7,
      max: 10,
      now: Date.now,
      onError: () => {},
    });
    expect(await other.find(first)).toMatchObject({ id: first, state: 'settled' });
    expect(await other.find(second)).toBeUndefined();
  });

  it('takes a charge that is posted before the response is over', async () => {
    const log = new Log();
    const id = ids.next();
    log.settled(id);
    log.ended({ requestId: id });
    expect(await log.writer.find(id)).toMatchObject({ state: 'settled', charged: '0.25' });
  });

  it('remembers 1,000 such charges, as those of holds never have a response', async () => {
    const log = new Log();
    const early = Array.from({ length: 1001 }, () => ids.next());
    for (const id of early) log.settled(id);
    for (const id of early) log.ended({ requestId: id });
    await log.writer.close();
    expect((await log.writer.find(early[0] ?? ''))?.state).toBe('unsettled');
    expect((await log.writer.find(early[1] ?? ''))?.state).toBe('settled');
  });

  it('writes a request without its charge after two seconds, and replaces the row when it is posted', async () => {
    const log = new Log();
    const id = log.ended();
    await vi.advanceTimersByTimeAsync(1000);
    expect(await log.store.find(id)).toBeUndefined();
    await vi.advanceTimersByTimeAsync(2000);
    expect(await log.written(id)).toMatchObject({ state: 'unsettled' });
    log.settled(id);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await log.written(id)).toMatchObject({ state: 'settled' });
    expect(await log.store.page({ from: '0', before: 'z', limit: 10 })).toHaveLength(1);
  });

  it('waits for the charges of 10,000 requests, and writes the oldest without one beyond', async () => {
    const log = new Log();
    const pending = Array.from({ length: 10_001 }, () => log.ended());
    expect(log.writer.counts().waiting).toBe(10_001);
    const [oldest = '', second = ''] = pending;
    log.settled(oldest);
    log.settled(second);
    expect((await log.writer.find(oldest))?.state).toBe('unsettled');
    expect((await log.writer.find(second))?.state).toBe('settled');
  });

  it('keeps the newest 10,000 while the store is away, and says once that it is, and then what is lost', async () => {
    const log = new Log();
    log.store.isAway = true;
    const all = Array.from({ length: 10_005 }, () => {
      const id = log.ended();
      log.settled(id);
      return id;
    });
    await vi.advanceTimersByTimeAsync(5000);
    expect(log.errors).toEqual(['The log of requests could not be written']);
    expect(log.writer.counts()).toEqual({ written: 0, waiting: 10_000, refusalsLeftOut: 0, lost: 5 });
    log.store.isAway = false;
    await vi.advanceTimersByTimeAsync(1000);
    expect(log.errors).toEqual([
      'The log of requests could not be written',
      'The log of requests lost 5 rows: its store was unavailable',
    ]);
    expect(log.writer.counts()).toEqual({ written: 10_000, waiting: 0, refusalsLeftOut: 0, lost: 5 });
    expect(await log.store.find(all[4] ?? '')).toBeUndefined();
    expect(await log.store.find(all[5] ?? '')).toBeDefined();
  });

  it('writes on, where a store throws before it makes a promise', async () => {
    const log = new Log();
    const append = log.store.append.bind(log.store);
    log.store.append = () => {
      throw new Error('away');
    };
    const id = log.ended();
    log.settled(id);
    await vi.advanceTimersByTimeAsync(1000);
    log.store.append = append;
    await vi.advanceTimersByTimeAsync(1000);
    expect(log.store.batches).toEqual([1]);
    expect(log.writer.counts()).toMatchObject({ written: 1, waiting: 0 });
  });

  it('logs 100 refusals of an account in a minute, counts the rest, and all of another account', async () => {
    const log = new Log();
    for (let n = 0; n < 150; n++) log.refused();
    const other = log.refused('other');
    expect(log.writer.counts()).toMatchObject({ waiting: 101, refusalsLeftOut: 50 });
    expect(await log.writer.find(other)).toMatchObject({ state: 'refused', code: 'rate_limit_exceeded' });
    await vi.advanceTimersByTimeAsync(60_000);
    const later = log.refused();
    expect(await log.writer.find(later)).toMatchObject({ state: 'refused' });
  });

  it('logs completions and metered routes of a known account alone', async () => {
    const log = new Log();
    const { account: _, ...nobody } = ENDED;
    log.writer.hooks?.onResponse?.({ ...nobody, requestId: ids.next(), startedAt: 0 });
    log.ended({ endpoint: 'models' });
    const metered = log.ended({ endpoint: 'metered' });
    log.settled(metered);
    expect((await log.writer.search()).requests).toMatchObject([{ id: metered, endpoint: 'metered' }]);
  });

  it('says of 20 attempts the first 16', async () => {
    const log = new Log();
    const attempt = { provider: 'p', model: 'm', host: 'h', port: 443, startedAt: Date.now(), durationMs: 1 };
    const id = log.ended({
      attempts: Array.from({ length: 20 }, (_, n) => ({ ...attempt, status: 500 + n })),
    });
    log.settled(id);
    const attempts = (await log.writer.find(id))?.attempts;
    expect(attempts?.map(({ status }) => status)).toEqual(Array.from({ length: 16 }, (_, n) => 500 + n));
  });

  it('trims by age each minute, also while there are no requests', async () => {
    const log = new Log({ days: 1 });
    log.writer.start();
    const id = log.ended();
    log.settled(id);
    await vi.advanceTimersByTimeAsync(DAY_MS - 60_000);
    expect(await log.store.find(id)).toBeDefined();
    await vi.advanceTimersByTimeAsync(180_000);
    expect(await log.store.find(id)).toBeUndefined();
    await log.writer.close();
  });

  it('trims with the first write, and once a hundredth of the maximum is written', async () => {
    const log = new Log({ max: 1000 });
    log.settled(log.ended());
    await log.writer.flush();
    expect(log.store.trims).toBe(1);
    for (let n = 0; n < 10; n++) log.settled(log.ended());
    await log.writer.flush();
    expect(log.store.trims).toBe(1);
    log.settled(log.ended());
    await log.writer.flush();
    expect(log.store.trims).toBe(2);
  });

  it('with 0 days has no hooks, deletes what is there within a minute, and then rests', async () => {
    const log = new Log({ days: 0 });
    await log.store.append([{ id: ids.next(), account: 'acme', json: '{}' }]);
    expect(log.writer.hooks).toBeUndefined();
    log.writer.start();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await log.store.page({ from: '0', before: 'z', limit: 10 })).toEqual([]);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(log.store.trims).toBe(1);
  });

  it('forgets an account with what still waits of it', async () => {
    const log = new Log();
    const written = log.ended();
    log.settled(written);
    await log.writer.flush();
    const waiting = log.ended();
    log.settled(waiting);
    const pending = log.ended();
    const other = log.ended({ account: 'other' });
    await log.writer.forget('acme');
    log.settled(pending);
    await log.writer.close();
    for (const id of [written, waiting, pending]) expect(await log.writer.find(id)).toBeUndefined();
    expect(await log.writer.find(other)).toMatchObject({ account: 'other' });
  });

  it.each(['a while later', 'when it is closed'])(
    'forgets what another process writes late of a deleted account, %s',
    async (when) => {
      const log = new Log();
      const late = idAt(Date.now());
      const other = idAt(Date.now() - 1);
      await vi.advanceTimersByTimeAsync(1);
      await log.writer.forget('acme');
      await vi.advanceTimersByTimeAsync(1);
      const again = idAt(Date.now());
      await log.store.append([
        { id: late, account: 'acme', json: '{}' },
        { id: again, account: 'acme', json: '{}' },
        { id: other, account: 'other', json: '{}' },
      ]);
      if (when === 'when it is closed') await log.writer.close();
      else await vi.advanceTimersByTimeAsync(3000);
      expect(await log.store.find(late)).toBeUndefined();
      // Of an account that was made anew with its name.
      expect(await log.store.find(again)).toBeDefined();
      expect(await log.store.find(other)).toBeDefined();
      expect(vi.getTimerCount()).toBe(0);
      await log.writer.close();
    },
  );

  it('says that late rows may be there, where the store is away', async () => {
    const log = new Log();
    await log.writer.forget('acme');
    log.store.forget = () => Promise.reject(new Error('away'));
    await log.writer.close();
    expect(log.errors).toEqual(['The log of requests may still have rows of the deleted account acme']);
  });

  it('writes everything when it is closed, also what has no charge yet', async () => {
    const log = new Log();
    const id = log.ended();
    await log.writer.close();
    expect(await log.written(id)).toMatchObject({ state: 'unsettled' });
  });
});
