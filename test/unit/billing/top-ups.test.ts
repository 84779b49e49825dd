import { describe, expect, it, vi } from 'vitest';

import { TopUps, type TopUpsOptions } from '../../../src/billing/top-ups.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';

const BELOW = 5_000_000_000n;

function topUpsOf(run: TopUpsOptions['topUp']['run'] = () => {}) {
  const store = new MemoryStore();
  const claim = vi.spyOn(store, 'claim');
  const topUp = { below: BELOW, retryMs: 60_000, run };
  return { store, claim, topUps: new TopUps({ store, topUp, onError: () => {} }) };
}

describe('a top-up', () => {
  it('is considered at its threshold, and not above', async () => {
    const { claim, topUps } = topUpsOf();
    topUps.consider('rich', BELOW + 1n);
    topUps.consider('poor', BELOW);
    await topUps.close();
    expect(claim.mock.calls.map(([name]) => name)).toEqual(['top-up poor', 'top-up poor']);
  });

  it('is not considered once they are closed', async () => {
    const { claim, topUps } = topUpsOf();
    await topUps.close();
    topUps.consider('acme', 0n);
    await topUps.close();
    expect(claim).not.toHaveBeenCalled();
  });

  it('is not asked for again, though a charge wants it, when they were closed meanwhile', async () => {
    let closed: Promise<void> | undefined;
    const run = vi.fn<() => void>(() => {
      topUps.consider('acme', 0n);
      closed = topUps.close();
    });
    const { store, claim, topUps } = topUpsOf(run);
    await store.grant({ account: 'acme', id: 'welcome', amount: 1n });
    topUps.consider('acme', 0n);
    await vi.waitFor(() => expect(run).toHaveBeenCalledOnce());
    await closed;
    expect(claim).toHaveBeenCalledOnce();
  });
});
