import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { CircuitBreaker } from '../../../src/upstream/circuit-breaker.ts';

const HOUR = 3_600_000;
const TARGET = { provider: { name: 'groq' }, healthKey: 'a', model: 'a' } as Target;

let breaker: CircuitBreaker;

beforeEach(() => {
  vi.useFakeTimers();
  breaker = new CircuitBreaker(TARGET, {
    settings: { failures: 1, coolDownMs: 5000, maxCoolDownMs: 300_000 },
    emit: () => {},
    random: () => 0,
  });
});

afterEach(() => {
  vi.useRealTimers();
});

function answerAfter(ms: number, step = 0): void {
  const report = breaker.startAttempt(Date.now(), 'acct');
  vi.advanceTimersByTime(ms);
  vi.setSystemTime(Date.now() + step);
  report.answered(Date.now());
  report.over();
}

const firstByteMs = (): number | undefined => breaker.status(undefined).firstByteMs;

describe('a clock that is set', () => {
  it.each([-HOUR, HOUR])('by %i ms leaves the latency as it is', (step) => {
    answerAfter(100);
    answerAfter(100, step);
    expect(firstByteMs()).toBe(100);
    expect(breaker.load).toBeCloseTo(100);
    answerAfter(50);
    expect(firstByteMs()).toBeGreaterThan(50);
    expect(firstByteMs()).toBeLessThanOrEqual(100);
  });

  it('back makes no ejection longer', () => {
    breaker.startAttempt(Date.now(), 'acct').failed(Date.now());
    const isAvailable = (): boolean => breaker.isAvailable(Date.now(), 'acct');
    vi.advanceTimersByTime(1000);
    expect(isAvailable()).toBe(false);
    vi.setSystemTime(Date.now() - HOUR);
    expect(isAvailable()).toBe(true);
    const probe = breaker.startAttempt(Date.now(), 'acct');
    expect(breaker.status(undefined).state).toBe('probing');
    probe.failed(Date.now());
    expect(isAvailable()).toBe(false);
  });

  it('back keeps no measured speed', () => {
    breaker.startAttempt(Date.now(), 'acct').over();
    const before = breaker.speed(Date.now());
    expect(breaker.speed(Date.now())).toBe(before);
    expect(breaker.speed(Date.now() - HOUR)).not.toBe(before);
  });
});
