import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { MINUTE, NOON } from '../../contracts/ledger-fixture.ts';
import { startGateway } from '../../helpers/gateway.ts';

class CountingStore extends MemoryStore {
  sweeps = 0;

  override async sweep(budget: number): Promise<number> {
    this.sweeps += 1;
    return super.sweep(budget);
  }
}

beforeEach(() => {
  // With `performance`: a timeout that another file left behind would else be armed again for ever.
  vi.useFakeTimers({ now: NOON, toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

it.each<[string, (router: Awaited<ReturnType<typeof startGateway>>) => Promise<unknown>]>([
  ['its first request', ({ baseURL }) => fetch(`${baseURL}/models`)],
  ['ready()', ({ router }) => router.ready()],
])('a router keeps its store tidy from %s to close()', async (_what, begin) => {
  const store = new CountingStore({ now: Date.now });
  const gateway = await startGateway({ store });
  await vi.advanceTimersByTimeAsync(5 * MINUTE);
  expect(store.sweeps).toBe(0);
  await begin(gateway);
  await vi.advanceTimersByTimeAsync(MINUTE);
  expect(store.sweeps).toBeGreaterThan(0);
  await gateway.close();
  const { sweeps } = store;
  await vi.advanceTimersByTimeAsync(5 * MINUTE);
  expect(store.sweeps).toBe(sweeps);
});
