import { describe, expect, it } from 'vitest';
import type { Admit, Verify, Witness } from '../../src/ledger/contract/ledger-store.ts';
import type { ReplyMeta } from '../../src/ledger/contract/reply.ts';
import { DAY, hashOf, HOUR, type LedgerFixture, MAX, MINUTE, NOON, requestId } from './ledger-fixture.ts';

/** Witnesses in every ledger store. Part of the suite in ledger-store.ts. */
export function describeWitnesses(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, grant, adjust, state, lines } = ledger;
  const verify = (witnesses: Verify['witnesses']) => ledger.store.verify({ account: 'acme', witnesses });
  const isThere = async (witness: Witness): Promise<boolean> => {
    const { rolledBack } = await verify([witness]);
    return rolledBack === undefined;
  };

  /** One request settled (line 2), one held, one voided, one expired (line 3), and an adjustment (line 4). */
  const story = async (): Promise<void> => {
    await admit(1, 30n);
    await settle(1, 12n);
    await admit(2, 10n, { leaseMs: HOUR });
    await admit(3, 5n);
    await voidRequest(3);
    await admit(4, 5n, { leaseMs: MINUTE });
    clock.now += MINUTE;
    await ledger.store.sweep(10);
    await adjust(ODD_ID, -8n);
  };

  describe('a witness', () => {
    it.each<[string, boolean, Witness]>([
      ["a grant's line", true, line(1n, NOON, 'opening')],
      ["a charge's line", true, line(2n, NOON, requestId(1))],
      ['the last line', true, line(4n, NOON + MINUTE, ODD_ID)],
      ['a line of another time', false, line(2n, NOON + 1, requestId(1))],
      ['a line of another request', false, line(2n, NOON, requestId(2))],
      ['a line of an id that is longer', false, line(1n, NOON, 'open')],
      ['a line of an id that is shorter', false, line(1n, NOON, 'opening2')],
      ['a line after the last', false, line(5n, NOON + MINUTE, ODD_ID)],
      ['a line after 2^53 others', false, line(2n ** 53n + 1n, NOON + MINUTE, ODD_ID)],
      ['a hold', true, held(2, 10n)],
      ['a hold that was smaller once', true, held(2, 9n)],
      ['a hold that was larger once', false, held(2, 11n)],
      ['a hold of a request that was settled', true, held(1, 30n)],
      ['a hold of a request that was voided', true, held(3, 5n)],
      ['a hold of a request that expired', true, held(4, 5n)],
      ['a hold of an unknown request', false, held(9, 0n)],
      ['a charge', true, ended(1, 'settled')],
      ['a charge of a request that is held', false, ended(2, 'settled')],
      ['a charge of a request that was voided', false, ended(3, 'settled')],
      ['a charge of a request that expired', false, ended(4, 'settled')],
      ['a charge of an unknown request', false, ended(9, 'settled')],
      ['a void', true, ended(3, 'voided')],
      ['a void of a request that was settled', false, ended(1, 'voided')],
      ['a void of a request that is held', false, ended(2, 'voided')],
      ['a void of a request that expired', false, ended(4, 'voided')],
      ['a void of an unknown request', false, ended(9, 'voided')],
      ['a grant', true, payment('opening')],
      ['an adjustment', true, payment(ODD_ID)],
      ['a grant of an unknown id', false, payment('opening2')],
      ['a grant of an id with no letter in it', false, payment(ODD_ID.slice(1))],
    ])('is there or missing: %s, %s', async (_what, there, witness) => {
      await story();
      expect(await verify([witness])).toEqual({
        code: 'ok',
        now: NOON + MINUTE,
        seq: 4n,
        ...(!there && { rolledBack: true, missing: [0] }),
      });
    });

    it('of a charge is there though credit expired behind it', async () => {
      await grant('g2', 20n, { expiresAt: NOON + MINUTE });
      await admit(1, 100n, { leaseMs: HOUR });
      clock.now += MINUTE;
      const { seq, now } = await settle(1, 5n);
      expect((await lines()).slice(2)).toMatchObject([
        { seq: 3n, type: 's', id: requestId(1) },
        { seq: 4n, type: 'x', id: 'g2' },
      ]);
      expect(seq).toBe(4n);
      expect(await isThere(line(seq, now, requestId(1)))).toBe(true);
      expect(await isThere(line(seq, now - 1, requestId(1)))).toBe(false);
      expect(await isThere(line(3n, now, 'g2'))).toBe(false);
    });

    it('of a line that was folded is there, whatever it says', async () => {
      await story();
      await ledger.store.compact('acme', 2n);
      expect(await isThere(line(1n, NOON, 'opening'))).toBe(true);
      expect(await isThere(line(1n, NOON, 'other'))).toBe(true);
      expect(await isThere(line(2n, NOON, requestId(1)))).toBe(true);
      expect(await isThere(line(2n, NOON, requestId(2)))).toBe(true);
      expect(await isThere(line(3n, NOON + MINUTE, requestId(4)))).toBe(true);
      expect(await isThere(line(3n, NOON + MINUTE, requestId(3)))).toBe(false);
      await ledger.store.compact('acme', 4n);
      expect(await isThere(line(4n, NOON, 'other'))).toBe(true);
      expect(await isThere(line(5n, NOON, 'other'))).toBe(false);
    });

    it('of a request that was forgotten, or may have been, is there', async () => {
      await admit(1, 30n);
      await settle(1, 12n);
      await admit(2, 30n, { requestId: requestId(2, NOON + 1), leaseMs: 2 * DAY });
      clock.now += DAY;
      await ledger.store.sweep(10);
      expect(await state()).toMatchObject({ lowWater: NOON });
      for (const n of [1, 9]) {
        expect(await isThere(held(n, 30n))).toBe(true);
        expect(await isThere(ended(n, 'settled'))).toBe(true);
        expect(await isThere(ended(n, 'voided'))).toBe(true);
      }
      expect(await isThere({ ...ended(9, 'settled'), id: requestId(9, NOON + 1) })).toBe(false);
      expect(await isThere({ ...held(9, 0n), id: requestId(9, NOON + 1) })).toBe(false);
      expect(await isThere({ ...held(2, 31n), id: requestId(2, NOON + 1) })).toBe(false);
    });

    it('of a hold is there where it came to nothing, and no reply of that arrived', async () => {
      await admit(1, 30n);
      await admit(2, 30n);
      await voidRequest(1);
      await settle(2, 0n);
      await admit(3, 30n, { leaseMs: HOUR });
      clock.now += 10 * MINUTE;
      await ledger.store.sweep(10);
      expect((await state()).requests).toHaveLength(1);
      expect([await isThere(held(1, 30n)), await isThere(held(2, 30n))]).toEqual([true, true]);
      expect(await isThere(ended(1, 'settled'))).toBe(false);
      expect(await isThere({ ...held(9, 30n), id: requestId(9, NOON + 1) })).toBe(false);
    });

    it('of a hold is compared exactly', async () => {
      await ledger.store.grant({ account: 'zeta', id: 'g1', amount: MAX });
      await admit(1, MAX - 1n, { account: 'zeta', externalKey: true });
      const zeta = { account: 'zeta' };
      expect(await ledger.store.verify({ ...zeta, witnesses: [held(1, MAX - 1n)] })).not.toHaveProperty(
        'rolledBack',
      );
      expect(await ledger.store.verify({ ...zeta, witnesses: [held(1, MAX)] })).toMatchObject({
        rolledBack: true,
      });
    });

    it('is one of several, of which one is missing', async () => {
      await story();
      const there = [line(1n, NOON, 'opening'), held(2, 10n), ended(1, 'settled'), payment('opening')];
      expect(await verify(there)).toEqual({ code: 'ok', now: NOON + MINUTE, seq: 4n });
      expect(await verify([])).toEqual({ code: 'ok', now: NOON + MINUTE, seq: 4n });
      for (const place of [0, 2, 4]) {
        expect(await verify(there.toSpliced(place, 0, MISSING))).toMatchObject({
          rolledBack: true,
          missing: [place],
        });
      }
    });

    it('changes nothing, though leases and credit are due', async () => {
      await admit(1, 30n);
      await grant('g2', 20n, { expiresAt: NOON + MINUTE });
      clock.now += HOUR;
      const before = await state();
      expect(await verify([MISSING])).toMatchObject({ code: 'ok', rolledBack: true });
      expect(await verify([held(1, 30n)])).toEqual({ code: 'ok', now: NOON + HOUR, seq: 2n });
      expect(await state()).toEqual(before);
    });

    it('says nothing of an account that there is not', async () => {
      const nobody = { account: 'nobody', witnesses: [MISSING] };
      const at = { now: NOON, seq: 0n };
      expect(await ledger.store.verify(nobody)).toEqual({ code: 'no_account', ...at });
      expect(await admit(1, 1n, nobody)).toEqual({ code: 'no_account', ...at });
      expect(await extend(1, 1n, nobody)).toEqual({ code: 'unknown', ...at });
      expect(await settle(1, 1n, { ...nobody, force: true, wasAdmitted: true })).toEqual({
        code: 'no_account',
        ...at,
      });
      expect(await voidRequest(1, nobody)).toEqual({ code: 'no_account', ...at });
      expect(await adjust('a1', 1n, nobody)).toEqual({ code: 'no_account', ...at });
      expect(await ledger.store.snapshot('nobody')).toBeUndefined();
    });
  });
}

/** Missing witnesses, in every store but a ReliableStore. */
export function describeMissingWitnesses(ledger: LedgerFixture): void {
  const { clock, admit, extend, settle, voidRequest, grant, adjust, createKey, state } = ledger;

  describe('an admit with a missing witness', () => {
    const refused = { code: 'rolled_back', rolledBack: true };

    it('is refused, and changes nothing, not even what is due', async () => {
      await admit(1, 30n);
      await grant('g2', 20n, { expiresAt: NOON + MINUTE });
      clock.now += HOUR;
      const before = await state();
      const command = { ...withMissing, requestId: requestId(2, clock.now), idempotencyKey: NAME };
      expect(await admit(2, 10n, command)).toEqual({ ...refused, now: NOON + HOUR, seq: 2n });
      expect(await state()).toEqual(before);
      expect(await admit(2, 10n, { ...command, witnesses: [] })).toMatchObject({ code: 'ok', hold: 10n });
    });

    it.each<[string, Partial<Admit>]>([
      ['repeats one that was applied', { requestId: requestId(1) }],
      ['repeats one of a request that ended', { requestId: requestId(2) }],
      ['restores a hold that may be lost', { restore: true }],
      ['comes too late', { notAfter: NOON - 1 }],
      ['has an id that is ahead', { requestId: requestId(3, NOON + HOUR) }],
      ['has an unknown key', { key: 'k9' }],
      ['has a key that was changed', { keyVersion: 7 }],
      ['has a key that the host knows', { key: 'label', externalKey: true }],
      ['wants more than there is', { want: 1000n, min: 1000n }],
      ['has an idempotency key that was used', { idempotencyKey: NAME }],
    ])('is refused for that when it %s', async (_what, command) => {
      await admit(1, 30n, { idempotencyKey: NAME });
      await voidRequest(2);
      const before = await state();
      expect(await admit(3, 10n, { ...command, ...withMissing })).toEqual({ ...refused, now: NOON, seq: 1n });
      expect(await state()).toEqual(before);
    });

    it('is refused for that in a frozen account', async () => {
      await ledger.store.freeze('acme', true);
      expect(await admit(1, 10n, withMissing)).toEqual({ ...refused, now: NOON, seq: 1n });
    });

    it('costs no limit of its key', async () => {
      await createKey('k2', { requestsPerMinute: 1, tokensPerMinute: 10, concurrentRequests: 1 });
      await admit(1, 10n, { key: 'k2', tokens: 10, ...withMissing });
      expect(await admit(1, 10n, { key: 'k2', tokens: 10 })).toMatchObject({ code: 'ok' });
    });
  });

  describe('any other command with a missing witness', () => {
    it('is applied, and its reply says so', async () => {
      const at = { now: NOON, rolledBack: true };
      await admit(1, 30n);
      await admit(2, 30n);
      expect(await extend(1, 35n, withMissing)).toEqual({
        code: 'ok',
        hold: 35n,
        available: 35n,
        seq: 1n,
        ...at,
      });
      expect(await settle(1, 12n, withMissing)).toEqual({
        code: 'ok',
        charged: 12n,
        writtenOff: 0n,
        available: 58n,
        unspent: 88n,
        unspentBefore: 100n,
        seq: 2n,
        ...at,
      });
      expect(await voidRequest(2, withMissing)).toEqual({
        code: 'ok',
        released: 30n,
        available: 88n,
        seq: 2n,
        ...at,
      });
      expect(await grant('g2', 5n, withMissing)).toMatchObject({
        code: 'ok',
        available: 93n,
        seq: 3n,
        ...at,
      });
      expect(await adjust('a1', -3n, withMissing)).toMatchObject({
        code: 'ok',
        available: 90n,
        seq: 4n,
        ...at,
      });
      expect(await state()).toMatchObject({ available: 90n, held: 0n, spent: 12n, granted: 102n });
    });

    it.each<[string, () => Promise<ReplyMeta & { readonly code: string }>]>([
      ['unknown', () => extend(9, 1n, withMissing)],
      ['closed', () => extend(2, 1n, withMissing)],
      ['no_funds', () => extend(1, 1000n, withMissing)],
      ['unknown', () => settle(9, 1n, withMissing)],
      ['voided', () => settle(2, 1n, withMissing)],
      ['duplicate', () => settle(3, 7n, withMissing)],
      ['duplicate', () => voidRequest(2, withMissing)],
      ['settled', () => voidRequest(3, withMissing)],
      ['planted', () => voidRequest(9, withMissing)],
      ['duplicate', () => grant('opening', 100n, withMissing)],
      ['conflict', () => grant('opening', 7n, withMissing)],
      ['too_big', () => grant('g2', MAX, withMissing)],
      ['conflict', () => adjust('opening', 7n, withMissing)],
      ['below_floor', () => adjust('a1', -1000n, withMissing)],
    ])('says so, too, when it is %s', async (code, command) => {
      await admit(1, 30n);
      await voidRequest(2);
      await admit(3, 7n);
      await settle(3, 7n);
      expect(await command()).toMatchObject({ code, now: NOON, seq: 2n, rolledBack: true });
    });

    it('does not say so where nothing is missing', async () => {
      const there = { witnesses: [line(1n, NOON, 'opening'), payment('opening')] };
      const at = { now: NOON, seq: 1n };
      expect(await admit(1, 30n, there)).toEqual({ code: 'ok', hold: 30n, available: 70n, ...at });
      expect(await extend(1, 35n, there)).toEqual({ code: 'ok', hold: 35n, available: 65n, ...at });
      expect(await settle(1, 12n, { ...there, wasAdmitted: true })).toEqual({
        code: 'ok',
        charged: 12n,
        writtenOff: 0n,
        available: 88n,
        unspent: 88n,
        unspentBefore: 100n,
        now: NOON,
        seq: 2n,
      });
      expect(await voidRequest(2, there)).toEqual({ code: 'planted', now: NOON, seq: 2n });
      expect(await grant('g2', 5n, there)).not.toHaveProperty('rolledBack');
      expect(await adjust('a1', 5n, there)).not.toHaveProperty('rolledBack');
    });

    it('makes an account all the same', async () => {
      const zeta = { account: 'zeta', witnesses: [line(1n, NOON, 'g0')] };
      expect(await grant('g1', 5n, zeta)).toMatchObject({ code: 'ok', available: 5n, rolledBack: true });
    });
  });

  describe('an account that must exist', () => {
    const nobody = { account: 'nobody', mustExist: true };
    const refused = { code: 'no_account', now: NOON, seq: 0n };

    it('is not made by a grant', async () => {
      expect(await grant('g1', 5n, nobody)).toEqual(refused);
      expect(await grant('g1', 5n, { ...nobody, witnesses: [MISSING] })).toEqual(refused);
      expect(await ledger.store.snapshot('nobody')).toBeUndefined();
      expect(await accounts()).toEqual(['acme']);
      expect(await grant('g1', 5n, { account: 'nobody' })).toMatchObject({ code: 'ok', available: 5n });
    });

    it('is not made by a key, which is not there either', async () => {
      const key = { key: 'k2', name: '', hash: hashOf('k2') };
      expect(await ledger.store.createKey({ ...key, ...nobody })).toEqual(refused);
      expect(await ledger.store.findKey(hashOf('k2'))).toBeUndefined();
      expect(await ledger.store.snapshot('nobody')).toBeUndefined();
      expect(await accounts()).toEqual(['acme']);
      const taken = { ...key, ...nobody, hash: hashOf('k1') };
      expect(await ledger.store.createKey(taken)).toMatchObject({ code: 'conflict' });
      expect(await ledger.store.createKey({ ...key, account: 'nobody' })).toMatchObject({ code: 'ok' });
    });

    it('takes both where it exists', async () => {
      expect(await grant('g2', 5n, { mustExist: true })).toMatchObject({ code: 'ok', available: 105n });
      const key = { account: 'acme', key: 'k2', name: '', hash: hashOf('k2'), mustExist: true };
      expect(await ledger.store.createKey(key)).toMatchObject({ code: 'ok' });
      expect(await ledger.store.createKey(key)).toMatchObject({ code: 'ok' });
    });
  });

  async function accounts(): Promise<string[]> {
    const names: string[] = [];
    for await (const name of ledger.store.accounts()) names.push(name);
    return names;
  }
}

/** Characters that are special in patterns, formats and journal lines. */
const ODD_ID = '%d*[(.-"{$^}\\|~';
const NAME = { key: 'a'.repeat(64), body: 'b'.repeat(64) };
const MISSING: Witness = { type: 'payment', id: 'lost' };
const withMissing = { witnesses: [MISSING] };

function line(seq: bigint, at: number, id: string): Witness {
  return { type: 'line', seq, at, id };
}

function held(n: number, hold: bigint): Witness {
  return { type: 'request', id: requestId(n), state: 'held', hold };
}

function ended(n: number, state: 'settled' | 'voided'): Witness {
  return { type: 'request', id: requestId(n), state };
}

function payment(id: string): Witness {
  return { type: 'payment', id };
}
