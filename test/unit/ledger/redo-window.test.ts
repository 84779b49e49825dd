import { describe, expect, it } from 'vitest';

import { RedoLog } from '../../../src/ledger/reliability/redo-log.ts';
import { requestId } from '../../contracts/ledger-fixture.ts';

/** The most that is remembered of all accounts together. */
const MAX = 50_000;

type Voided = Extract<Parameters<RedoLog['record']>[1], { type: 'void' }>;

function voided(account: string, n: number): Voided {
  return { type: 'void', command: { account, requestId: requestId(n) } };
}

describe('the window of what was acknowledged', () => {
  it('forgets the oldest of all accounts once it is full, and no more', () => {
    const log = new RedoLog(() => 0);
    const [acme, zeta] = [log.watch('acme'), log.watch('zeta')];
    const first = voided('acme', 1);
    const second = voided('zeta', 2);
    log.record(acme, first);
    log.record(zeta, second);
    for (let n = 3; n <= MAX; n++) log.record(acme, voided('acme', n));
    expect(acme.changes.has(first)).toBe(true);
    log.record(acme, first);
    log.record(acme, voided('acme', MAX + 1));
    // Recorded again, the first is the newest but one.
    expect(acme.changes.has(first)).toBe(true);
    expect(zeta.changes.has(second)).toBe(false);
    expect(acme.changes.size).toBe(MAX);
  });

  it('has as much room again as was forgotten before', () => {
    let now = 0;
    const log = new RedoLog(() => now);
    const acme = log.watch('acme');
    for (let n = 0; n < 100; n++) log.record(acme, voided('acme', n));
    log.clear(acme);
    log.record(acme, voided('acme', 100));
    now = 61_000;
    log.expire(() => true);
    expect(acme.changes.size).toBe(0);
    for (let n = 0; n <= MAX; n++) log.record(acme, voided('acme', n));
    expect(acme.changes.size).toBe(MAX);
  });
});
