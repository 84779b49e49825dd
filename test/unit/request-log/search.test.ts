import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import type { RequestLogRow } from '../../../src/ledger/contract/request-log.ts';
import { MemoryRequestLog } from '../../../src/ledger/stores/memory/memory-request-log.ts';
import type { ResponseEnded } from '../../../src/observability/hooks.ts';
import { rowOf } from '../../../src/request-log/logged-request.ts';
import { searchLog } from '../../../src/request-log/search.ts';

function row(requestId: string, status: number): RequestLogRow {
  const ended: ResponseEnded = {
    requestId,
    startedAt: 0,
    endpoint: 'completions',
    method: 'POST',
    path: '/v1/chat/completions',
    status,
    account: 'acme',
    stream: false,
    attempts: [],
    durationMs: 1,
    admitted: true,
  };
  return rowOf(ended, undefined, false);
}

/** By this clock each reading is past the end of a slice, so that one has as few rows as possible: 16. */
let now = performance.now();

beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 1));
});

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a search of the log of requests', () => {
  it('reads a few rows in a turn of the event loop, however many searches run', async () => {
    const log = new MemoryRequestLog();
    const ids = new RequestIds();
    await log.append(Array.from({ length: 1200 }, () => row(ids.next(), 200)));
    const read = vi.spyOn(JSON, 'parse');
    const turns: number[] = [];
    const note = (): void => {
      turns.push(read.mock.calls.length);
      next = setImmediate(note);
    };
    let next = setImmediate(note);
    const searches = Array.from({ length: 8 }, () => searchLog(log, { status: '5xx' }));
    expect(await Promise.all(searches)).toEqual(searches.map(() => ({ requests: [] })));
    clearImmediate(next);
    expect(read).toHaveBeenCalledTimes(8 * 1200);
    expect(Math.max(...turns.map((count, n) => count - (turns[n - 1] ?? 0)))).toBeLessThanOrEqual(16);
  });

  it('ends with the row that fills the page, and goes on after it', async () => {
    const log = new MemoryRequestLog();
    const ids = new RequestIds();
    const rows = Array.from({ length: 40 }, (_, n) => {
      return row(ids.next(), n % 2 === 0 ? 200 : 429);
    });
    await log.append(rows);
    const newest = rows.toReversed().filter((_, n) => n % 2 === 1);
    const first = await searchLog(log, { status: '2xx', limit: 15 });
    expect(first.requests.map(({ id }) => id)).toEqual(newest.slice(0, 15).map(({ id }) => id));
    expect(first.cursor).toBe(newest[14]?.id);
    const rest = await searchLog(log, { status: '2xx', limit: 15, cursor: first.cursor ?? '' });
    expect(rest.requests.map(({ id }) => id)).toEqual(newest.slice(15).map(({ id }) => id));
    expect(rest.cursor).toBeUndefined();
  });
});
