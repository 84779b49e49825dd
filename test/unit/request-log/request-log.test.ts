import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ResponseEnded, Settled } from '../../../src/index.ts';
import type { RequestLogRow } from '../../../src/ledger/contract/request-log.ts';
import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import { MemoryRequestLog } from '../../../src/ledger/stores/memory/memory-request-log.ts';
import { RequestLogWriter } from '../../../src/request-log/request-log.ts';

const ids = new RequestIds(() => Date.now());

class Log extends MemoryRequestLog {
  isAvailable = true;
  readonly batches: number[] = [];
  readonly replaced: string[] = [];

  override async append(rows: readonly RequestLogRow[]): Promise<void> {
    if (!this.isAvailable) throw new Error('not now');
    this.batches.push(rows.length);
    this.replaced.push(...rows.filter(({ replaces }) => replaces).map(({ id }) => id));
    await super.append(rows);
  }
}

function ended(more: Partial<ResponseEnded> = {}): ResponseEnded {
  return {
    requestId: ids.next(),
    endpoint: 'completions',
    method: 'POST',
    path: '/chat/completions',
    startedAt: Date.now(),
    status: 200,
    account: 'acme',
    key: 'k',
    stream: false,
    attempts: [],
    durationMs: 5,
    admitted: true,
    ...more,
  };
}

function settled(requestId: string, more: Partial<Settled> = {}): Settled {
  return {
    requestId,
    account: 'acme',
    key: 'k',
    model: 'm',
    provider: 'p',
    upstreamModel: 'm',
    charged: '0.10',
    writtenOff: '0.00',
    voided: false,
    usageSource: 'none',
    ending: 'finished',
    ...more,
  };
}

describe('the writer of the request log', () => {
  let log: Log;
  let errors: Error[];
  let writer: RequestLogWriter;
  const write = (event: ResponseEnded): unknown => writer.hooks?.onResponse?.(event);
  const settle = (event: Settled): unknown => writer.hooks?.onSettled?.(event);
  const logged = async (): Promise<number> =>
    (await log.page({ from: '0', before: '~', limit: 100_000 })).length;

  beforeEach(() => {
    vi.useFakeTimers();
    log = new Log();
    errors = [];
    const onError = (error: Error): number => errors.push(error);
    writer = new RequestLogWriter({ store: log, days: 7, max: 100_000, now: () => Date.now(), onError });
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('writes each second, or a hundred at once', async () => {
    for (let n = 0; n < 130; n++) {
      const event = ended();
      write(event);
      settle(settled(event.requestId));
    }
    await vi.advanceTimersByTimeAsync(0);
    expect(log.batches).toEqual([100, 30]);
    const event = ended();
    write(event);
    settle(settled(event.requestId));
    await vi.advanceTimersByTimeAsync(999);
    expect(await logged()).toBe(130);
    await vi.advanceTimersByTimeAsync(1);
    expect(await logged()).toBe(131);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('has a charge that is posted before the response is over', async () => {
    const event = ended();
    settle(settled(event.requestId));
    write(event);
    expect(await writer.find(event.requestId)).toMatchObject({ state: 'settled', charged: '0.10' });
  });

  it('logs a request without its charge after two seconds, and again with it', async () => {
    const event = ended();
    write(event);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await logged()).toBe(0);
    await vi.advanceTimersByTimeAsync(2000);
    expect(await writer.find(event.requestId)).toMatchObject({ state: 'unsettled', charged: '0.00' });
    settle(settled(event.requestId, { charged: '0.00', voided: true }));
    expect(await writer.find(event.requestId)).toMatchObject({ state: 'voided' });
    expect([await logged(), log.replaced]).toEqual([1, [event.requestId]]);
  });

  it('keeps 10,000 requests for a store that is unavailable, and says how many it lost', async () => {
    log.isAvailable = false;
    const events = Array.from({ length: 10_050 }, () => ended({ admitted: true }));
    for (const event of events) {
      settle(settled(event.requestId));
      write(event);
    }
    await vi.advanceTimersByTimeAsync(5000);
    expect(errors.map(({ message }) => message)).toContain('not now');
    log.isAvailable = true;
    errors.length = 0;
    await vi.advanceTimersByTimeAsync(1000);
    expect(await logged()).toBe(10_000);
    expect(await writer.find(events[0]?.requestId ?? '')).toBeUndefined();
    expect(await writer.find(events.at(-1)?.requestId ?? '')).toBeDefined();
    expect(errors.map(({ message }) => message)).toEqual([
      'The request log lost 50 requests: its store could not be written',
    ]);
  });

  it('bounds the requests whose charge is still to come, and charges without a request', async () => {
    const events = Array.from({ length: 10_001 }, () => ended());
    for (const event of events) write(event);
    expect(await writer.find(events[0]?.requestId ?? '')).toMatchObject({ state: 'unsettled' });
    expect(await writer.find(events[1]?.requestId ?? '')).toBeUndefined();
    for (let n = 0; n < 1001; n++) settle(settled(`early${n}`));
    write(ended({ requestId: 'early1' }));
    expect(await writer.find(events[0]?.requestId ?? '')).toBeDefined();
  });

  it('is trimmed as it grows', async () => {
    writer = new RequestLogWriter({
      store: log,
      days: 7,
      max: 200,
      now: () => Date.now(),
      onError: () => {},
    });
    for (let n = 0; n < 1000; n++) {
      const event = ended();
      write(event);
      settle(settled(event.requestId));
    }
    await vi.advanceTimersByTimeAsync(1000);
    expect(await logged()).toBe(200);
    await vi.advanceTimersByTimeAsync(8 * 86_400_000);
    write(ended({ admitted: false, status: 429 }));
    await vi.advanceTimersByTimeAsync(1000);
    expect(await logged()).toBe(1);
  });

  it('writes what waits when it is closed, and sets no timer afterwards', async () => {
    const event = ended();
    write(event);
    await writer.close();
    expect(await log.find(event.requestId)).toBeDefined();
    expect(vi.getTimerCount()).toBe(0);
  });
});
