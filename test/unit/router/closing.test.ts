import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { createChatCompletionsRouter, MemoryStore } from '../../../src/index.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it.each<[string, () => Promise<void>, string]>([
  ['fails', () => Promise.reject(new Error('no disk')), 'no disk'],
  ['hangs', () => new Promise<void>(() => {}), 'did not close in time'],
])(
  'a store that %s when it is closed keeps no router open, and is reported',
  async (_how, close, message) => {
    const store = new MemoryStore();
    store.close = close;
    const errors: string[] = [];
    const router = createChatCompletionsRouter({
      store,
      providers: {},
      models: {},
      hooks: { onError: (error) => errors.push(error.message) },
    });
    await router.ready();
    const closed = router.close();
    await vi.advanceTimersByTimeAsync(60_000);
    await closed;
    expect(errors).toEqual([expect.stringContaining(message)]);
  },
);
