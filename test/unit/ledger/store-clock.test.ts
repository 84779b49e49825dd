import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { RequestIds, requestTime } from '../../../src/ledger/contract/request-ids.ts';
import { fetchStoreTime, clockOf, StoreClock } from '../../../src/ledger/contract/store-clock.ts';

const HOUR = 3_600_000;
const NOON = Date.parse('2026-03-04T12:00Z');

describe('the clock of a store', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: NOON });
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('is our own until the store has told', () => {
    const clock = clockOf(remote);
    expect(clock.now()).toBe(NOON);
    expect(clock.isKnown).toBe(false);
    clock.sync(NOON - HOUR);
    vi.advanceTimersByTime(1500);
    expect(clock.now()).toBe(NOON - HOUR + 1500);
    expect(clock.isKnown).toBe(true);
  });

  it('goes on where ours is set, if the store is on another machine', () => {
    const clock = clockOf(remote);
    clock.sync(NOON + HOUR);
    vi.setSystemTime(NOON + 24 * HOUR);
    expect(clock.now()).toBe(NOON + HOUR);
  });

  it('is set with ours, if the store is on this machine', async () => {
    const store = new MemoryStore();
    const clock = clockOf(store);
    clock.sync(await fetchStoreTime(store, new RequestIds().next()));
    vi.setSystemTime(NOON + 24 * HOUR);
    expect(clock.now()).toBe(NOON + 24 * HOUR);
  });

  it('can be asked of a store without leaving anything in it', async () => {
    const store = new MemoryStore();
    expect(await fetchStoreTime(store, new RequestIds().next())).toBe(NOON);
    expect(await store.snapshot('nobody')).toBeUndefined();
  });
});

describe('request ids in the time of the store', () => {
  it.each([
    ['a day slow', -24 * HOUR],
    ['ten minutes ahead', 600_000],
  ])('are right from the first answer on, on a gateway whose clock is %s', (_how, wrong) => {
    const clock = new StoreClock(() => NOON + wrong);
    const ids = new RequestIds(() => clock.now());
    expect(requestTime(ids.next())).toBe(NOON + wrong);
    clock.sync(NOON);
    expect(requestTime(ids.next())).toBe(NOON);
  });

  it('stay in order while the store seems to step back by up to a minute', () => {
    const clock = new StoreClock(() => NOON);
    const ids = new RequestIds(() => clock.now());
    const first = ids.next();
    clock.sync(NOON - 60_000);
    const second = ids.next();
    expect(second > first).toBe(true);
    clock.sync(NOON - 60_001);
    expect(requestTime(ids.next())).toBe(NOON - 60_001);
  });

  it('are no two alike, though the clock comes by the same time again', () => {
    const clock = new StoreClock(() => NOON);
    const ids = new RequestIds(() => clock.now());
    const made = [NOON, NOON - HOUR, NOON, NOON - HOUR, NOON].map((now) => {
      clock.sync(now);
      return ids.next();
    });
    expect(new Set(made).size).toBe(5);
  });
});

/** A store on another machine, as far as it says. */
const remote = Object.assign(new MemoryStore(), { mayRollBack: true });
