import { describeLedgerStore } from 'chat-completions-router/testing/contracts';
import { afterAll, expect } from 'vitest';

import { AcmeStore } from './acme-store.ts';

const open = new Set<AcmeStore>();

describeLedgerStore(
  'AcmeStore',
  async ({ now }) => {
    const store = new AcmeStore(now);
    open.add(store);
    return store;
  },
  {
    sequences: 30,
    destroy: (store) => {
      expect(open.delete(store)).toBe(true);
    },
  },
);

afterAll(() => {
  expect(open.size).toBe(0);
});
