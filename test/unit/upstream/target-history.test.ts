import { describe, expect, it } from 'vitest';

import {
  type AttemptCounts,
  minutesOf,
  speedOf,
  startOf,
  sumsOf,
  TargetHistory,
} from '../../../src/upstream/target-history.ts';

const MINUTE = 60_000;
/** The beginning of a minute. */
const START = Date.parse('2026-11-23T10:00:00Z');

function counts(
  latencyMs: number,
  tokens = 0,
  outputMs = 0,
  promptTokens = 0,
  cachedTokens = 0,
): AttemptCounts {
  return { isStream: true, latencyMs, tokens, outputMs, promptTokens, cachedTokens };
}

function historyOf(...attempts: readonly (readonly [at: number, failed: boolean, firstByteMs: number])[]) {
  const history = new TargetHistory();
  for (const [at, failed, firstByteMs] of attempts) history.add(at, failed, counts(firstByteMs));
  return history;
}

describe('the history of a target', () => {
  it('has an error rate of the minutes that end now', () => {
    const history = historyOf(
      [START, true, -1],
      [START + MINUTE, false, 100],
      [START + 2 * MINUTE, true, -1],
      [START + 2 * MINUTE, false, 100],
      [START + 2 * MINUTE, false, 100],
    );
    const now = START + 2 * MINUTE + 30_000;
    expect(sumsOf([history], now, 1).stats()).toMatchObject({ requests: 3, errors: 1, errorRate: 0.3333 });
    expect(sumsOf([history], now, 2).stats()).toMatchObject({ requests: 4, errors: 1, errorRate: 0.25 });
    expect(sumsOf([history], now, 5).stats()).toMatchObject({ requests: 5, errors: 2, errorRate: 0.4 });
    expect(sumsOf([history], now + 5 * MINUTE, 5).stats()).toEqual({ requests: 0, errors: 0 });
  });

  it('forgets what is an hour old, and begins a minute anew', () => {
    const history = historyOf([START, true, 100], [START + 59 * MINUTE, false, 100]);
    const atOf = (now: number): string[] =>
      minutesOf([history], now).map((sums) => startOf(sums).toISOString());
    expect(atOf(START + 59 * MINUTE)).toEqual(['2026-11-23T10:00:00.000Z', '2026-11-23T10:59:00.000Z']);
    expect(atOf(START + 60 * MINUTE)).toEqual(['2026-11-23T10:59:00.000Z']);
    history.add(START + 60 * MINUTE, false, counts(200, 0, 0));
    expect(minutesOf([history], START + 60 * MINUTE).map((sums) => sums.stats())).toMatchObject([
      { requests: 1, errors: 0, firstByteP50Ms: 113 },
      { requests: 1, errors: 0, firstByteP50Ms: 226 },
    ]);
  });

  it.each([
    [0, 5],
    [5, 5],
    [5.1, 6],
    [100, 113],
    [1000, 1076],
    [3_600_000, 275_545],
  ])('counts a first byte after %d ms as at most %d', (ms, shown) => {
    expect(sumsOf([historyOf([START, false, ms])], START, 1).stats().firstByteP95Ms).toBe(shown);
  });

  it('has percentiles that one slow answer of a hundred does not move', () => {
    const attempts = Array.from({ length: 100 }, (_, n) => [START, false, n === 0 ? 60_000 : 300] as const);
    const stats = sumsOf([historyOf(...attempts)], START, 1).stats();
    expect([stats.firstByteP50Ms, stats.firstByteP95Ms]).toEqual([320, 320]);
    const slow = Array.from({ length: 10 }, () => [START, false, 60_000] as const);
    const slower = sumsOf([historyOf(...attempts, ...slow)], START, 1).stats();
    expect([slower.firstByteP50Ms, slower.firstByteP95Ms]).toEqual([320, 68_886]);
  });

  it('has tokens a second of all streams together, and of several targets', () => {
    const [one, other] = [new TargetHistory(), new TargetHistory()];
    one.add(START, false, counts(100, 100, 1000));
    other.add(START, false, counts(100, 300, 1000));
    other.add(START, false, counts(100, 0, 0));
    expect(sumsOf([one, other], START, 1).stats()).toMatchObject({ requests: 3, tokensPerSecond: 200 });
  });
});

describe('the speed of a target', () => {
  const whole = (latencyMs: number): AttemptCounts => ({ ...counts(latencyMs), isStream: false });

  it('is the median of the last five minutes, rounded up to a step of a fifth', () => {
    const history = new TargetHistory();
    for (const ms of [100, 100, 5000]) history.add(START, false, counts(ms, 100, 1000));
    history.add(START, true, counts(-1));
    expect(speedOf(history, START + MINUTE)).toEqual({
      latency: { median: 113, isRecent: true },
      throughput: { median: 108, isRecent: true },
      wasTried: true,
    });
  });

  it('is that of the last hour while there are fewer than three answers', () => {
    const history = new TargetHistory();
    history.add(START, false, counts(100));
    expect(speedOf(history, START + 30 * MINUTE).latency).toEqual({ median: 113, isRecent: false });
    expect(speedOf(history, START + 60 * MINUTE).wasTried).toBe(false);
  });

  it('is of streams alone, if there are any: other answers begin when they are complete', () => {
    const history = new TargetHistory();
    for (let n = 0; n < 9; n++) history.add(START, false, whole(20_000));
    expect(speedOf(history, START).latency.median).toBe(20_480);
    history.add(START, false, counts(100));
    expect(speedOf(history, START).latency).toEqual({ median: 113, isRecent: false });
  });

  it('is unknown without answers, though it was tried', () => {
    const history = new TargetHistory();
    history.add(START, true, counts(-1));
    expect(speedOf(history, START)).toEqual({
      latency: { median: undefined, isRecent: false },
      throughput: { median: undefined, isRecent: false },
      wasTried: true,
    });
  });
});
