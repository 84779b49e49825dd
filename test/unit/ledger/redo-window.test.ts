import { describe, expect, it } from 'vitest';

import { type LiveHold, RedoLog } from '../../../src/ledger/reliability/redo-log.ts';
import { requestId } from '../../contracts/ledger-fixture.ts';

/** The most that is remembered of all accounts together. */
const MAX = 50_000;

type Voided = Extract<Parameters<RedoLog['record']>[1], { type: 'void' }>;

function voided(account: string, n: number): Voided {
  return { type: 'void', command: { account, requestId: requestId(n) } };
}

/** A hold, of which an account may have any number. */
function held(account: string, n: number): LiveHold {
  const request = { account, requestId: requestId(n), leaseMs: 1 };
  return {
    type: 'hold',
    admit: { ...request, key: 'key', want: 1n, min: 1n, tokens: 0, notAfter: 0 },
    extend: { ...request, hold: 1n, checkpoint: 0n },
  };
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

describe('the accounts of whom something is in the window', () => {
  it('are told in the order of their last use, so that the idle ones are looked at first', () => {
    const log = new RedoLog(() => 0);
    expect(log.firstWatched()).toBeUndefined();
    for (const id of ['acme', 'idle', 'zeta']) log.watch(id);
    for (const id of ['zeta', 'acme']) log.record(log.watch(id), voided(id, 1));
    expect(log.watched().map(({ id }) => id)).toEqual(['zeta', 'acme']);
    log.watch('zeta');
    expect(log.watched().map(({ id }) => id)).toEqual(['acme', 'zeta']);
    expect(log.firstWatched()?.id).toBe('acme');
  });
});

describe('the accounts whose position is remembered', () => {
  it('are those that were used last, and all of which something is in the window', () => {
    const log = new RedoLog(() => 0);
    const busy = log.watch('busy');
    log.record(busy, voided('busy', 1));
    const [first, second] = [log.watch('first'), log.watch('second')];
    for (let n = 0; n < MAX - 3; n++) log.watch(`customer-${n}`);
    // Used again, the first is the newest of those that are full now.
    expect(log.watch('first') === first).toBe(true);
    log.watch('one more');
    // Compared so, because a difference of two would be printed with all that they are linked with.
    expect(log.watch('busy') === busy).toBe(true);
    expect(log.watch('first') === first).toBe(true);
    expect(log.watch('second') === second).toBe(false);
    log.clear(busy);
    for (let n = 0; n < MAX; n++) log.watch(`another-${n}`);
    expect(log.watch('busy') === busy).toBe(false);
  });

  it('are fewer again once there were more, because something of each was in the window', () => {
    const log = new RedoLog(() => 0);
    const accounts = Array.from({ length: MAX + 1000 }, (_, n) => {
      const account = log.watch(`customer-${n}`);
      log.hold(account, held(account.id, n));
      return account;
    });
    expect(accounts.every((account, n) => log.watch(`customer-${n}`) === account)).toBe(true);
    for (const account of accounts) log.clear(account);
    for (let n = 0; n < 1000; n++) log.watch(`another-${n}`);
    // The oldest were forgotten, and no more than that. One that is watched again takes the place of the next one, so the rest is looked at first.
    const isThere = (n: number): boolean => log.watch(`customer-${n}`) === accounts[n];
    expect([isThere(MAX), isThere(2000), isThere(1999), isThere(0)]).toEqual([true, true, false, false]);
  });
});
