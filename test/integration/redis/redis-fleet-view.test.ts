import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type {
  EjectedTarget,
  LimitWord,
  NewSlot,
  SlotReport,
  SlotState,
  TargetChange,
} from '../../../src/index.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { namespace } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let redis: Redis;

useRedis((own) => ({ redis } = own));

const NOTHING = { requests: 0, tokens: 0, running: 0 };
const SECOND = 1000;

let store: RedisStore;
let prefix: string;
let now: number;
/** member → the number of its last report. */
let seqs: Map<string, number>;

beforeEach(() => {
  now = 1_700_000_000_000;
  seqs = new Map();
  prefix = namespace();
  store = new RedisStore({ client: redis, keyPrefix: prefix, now: () => now });
});
afterEach(() => store.close());

type Report = Partial<Omit<SlotReport, 'used'>> & { readonly used?: readonly number[] };

async function sync(member: string, report: Report = {}): Promise<SlotState | NewSlot> {
  const seq = report.seq ?? (seqs.get(member) ?? 0) + 1;
  seqs.set(member, seq);
  const [requests = 0, tokens = 0, agoMs = 0] = report.used ?? [];
  return store.fleet.sync({
    slot: 'groq',
    member,
    epoch: await redis.hget(`${prefix}ccr:up:{groq}`, 'id').then((id) => id ?? ''),
    bucketMs: SECOND,
    leaseMs: 3 * SECOND,
    limits: { requests: 100 },
    wanted: NOTHING,
    leastTokens: 0,
    running: 0,
    isLeaving: false,
    sent: { requests: 0, tokens: 0 },
    words: {},
    ...report,
    seq,
    used: report.used ? [{ requests, tokens, agoMs }] : [],
  });
}

async function state(member: string, report?: Report): Promise<SlotState> {
  const known = await sync(member, report);
  return known.granted ? known : state(member, report);
}

describe('a slot', () => {
  it('that is new says so, and counts nothing', async () => {
    const first = await sync('one', { used: [5] });
    expect(first).toEqual({ epoch: expect.stringMatching(/^[\da-f-]{36}$/) as string });
    expect((await state('one')).used.requests).toBe(0);
    expect(await sync('one', { epoch: 'of a slot that was lost' })).toEqual(first);
  });

  it('counts what was used for a minute, and the second in which it was', async () => {
    expect((await state('one', { used: [40] })).used.requests).toBe(40);
    now += 60 * SECOND;
    expect((await state('one', { used: [2, 0, 30 * SECOND] })).used.requests).toBe(42);
    now += SECOND;
    await state('one', { isLeaving: true });
    expect((await state('two', { isLeaving: true })).used.requests).toBe(2);
    now += 30 * SECOND;
    expect((await state('two')).used.requests).toBe(0);
  });

  it('counts each report once, also if it is sent again', async () => {
    await state('one');
    await sync('one', { seq: 7, used: [3] });
    expect((await state('one', { seq: 7, used: [3] })).used.requests).toBe(3);
    expect((await state('one', { seq: 8, used: [3] })).used.requests).toBe(6);
  });

  it('takes back what was not used, from its second or a later one, while that counts', async () => {
    await state('one', { used: [5, 500] });
    now += 10 * SECOND;
    await state('one', { used: [1, 100] });
    expect((await state('one', { used: [-1, -400, 10 * SECOND] })).used).toMatchObject({
      requests: 5,
      tokens: 200,
    });
    expect((await state('one', { used: [0, -150, 10 * SECOND] })).used.tokens).toBe(50);
    expect((await state('one', { used: [0, -50, 70 * SECOND] })).used.tokens).toBe(50);
  });

  it('grants each member what it wants and a part of the rest, and never more than is left', async () => {
    const one = await state('one', { wanted: { ...NOTHING, requests: 10 } });
    expect(one).toMatchObject({ granted: { requests: 55 }, left: { requests: 45 }, members: 1 });
    const two = await state('two', { wanted: { ...NOTHING, requests: 10 } });
    expect(two).toMatchObject({ granted: { requests: 19 }, left: { requests: 26 }, members: 2 });
    // What it was granted before is part of this.
    const again = await state('one', { used: [50], wanted: { ...NOTHING, requests: 50 } });
    expect(again).toMatchObject({ granted: { requests: 31 }, left: { requests: 0 }, used: { requests: 50 } });
    expect((await state('three', { wanted: { ...NOTHING, requests: 1 } })).granted.requests).toBe(0);
    expect((await state('two')).granted.requests).toBe(0);
    expect((await state('three', { wanted: { ...NOTHING, requests: 1 } })).granted.requests).toBe(1);
  });

  it('gives back what a member was granted that leaves', async () => {
    expect((await state('one')).granted.requests).toBe(50);
    expect(await state('one', { isLeaving: true, used: [3] })).toMatchObject({
      granted: NOTHING,
      left: { requests: 97 },
      used: { requests: 3 },
      members: 0,
    });
  });

  it('frees what a killed member ran, and counts what it was granted for a minute', async () => {
    const limits = { requests: 100, running: 4 };
    await state('one', { limits, running: 3, wanted: { ...NOTHING, requests: 4, running: 1 } });
    expect((await state('two', { limits })).granted).toMatchObject({ requests: 12, running: 0 });
    now += 3 * SECOND;
    expect(await state('two', { limits, wanted: { ...NOTHING, running: 2 } })).toMatchObject({
      granted: { running: 3 },
      used: { requests: 52, running: 0 },
      members: 1,
    });
    now += 58 * SECOND;
    expect((await state('two', { limits })).used.requests).toBe(0);
  });

  it('says when the next request, and the tokens, are free', async () => {
    const limits = { requests: 4, tokens: 1000 };
    await state('one', { limits, used: [2, 600] });
    now += 20 * SECOND;
    const full = await state('one', { limits, used: [2, 300], leastTokens: 200 });
    expect(full).toMatchObject({ granted: { requests: 0 }, waitMs: { requests: 41_000, tokens: 41_000 } });
    now += 41 * SECOND;
    expect((await state('one', { limits })).waitMs).toEqual({ requests: 0, tokens: 0 });
  });

  it('keeps tokens for whom they are enough', async () => {
    const limits = { tokens: 1000 };
    const wanted = { ...NOTHING, tokens: 900 };
    expect((await state('one', { limits, wanted, leastTokens: 900 })).granted.tokens).toBe(950);
    expect((await state('two', { limits, wanted, leastTokens: 900 })).granted.tokens).toBe(0);
    expect((await state('one', { limits, wanted: NOTHING, used: [1, 50] })).granted.tokens).toBe(13);
    expect((await state('two', { limits, wanted, leastTokens: 900 })).granted.tokens).toBe(910);
    // More than the limit fits when nothing counts.
    now += 61 * SECOND;
    const large = { limits, wanted: { ...NOTHING, tokens: 5000 }, leastTokens: 5000 };
    await state('two', { isLeaving: true });
    now += 61 * SECOND;
    expect((await state('three', large)).granted.tokens).toBe(5000);
  });

  const word = (left: number, at?: number, forMs = 30 * SECOND): LimitWord => ({ left, at, forMs });

  it("keeps the provider's newest word, counted down by what its members sent since", async () => {
    const open = { limits: {} };
    // No state is known yet: what is left is as of now.
    const first = await state('one', {
      ...open,
      sent: { requests: 3, tokens: 300 },
      words: { requests: word(20) },
    });
    expect(first.words).toEqual({
      requests: { left: 20, at: 3, forMs: 30_000, sent: 3, granted: 10, spare: 10 },
      tokens: { left: 0, at: 0, forMs: 0, sent: 300, granted: 0, spare: 0 },
    });
    now += 2 * SECOND;
    const other = await state('two', { ...open, sent: { requests: 5, tokens: 0 } });
    expect(other.words.requests).toMatchObject({
      left: 20,
      at: 3,
      forMs: 28_000,
      sent: 8,
      granted: 2,
      spare: 3,
    });
    // Of an earlier request, and of a later one.
    const old = await state('two', { ...open, words: { requests: word(50, 2) } });
    expect(old.words.requests).toMatchObject({ left: 20, at: 3 });
    const next = await state('two', { ...open, words: { requests: word(40, 7), tokens: word(900, 300) } });
    expect(next.words.requests).toMatchObject({ left: 40, at: 7, sent: 8, granted: 8, spare: 21 });
    expect(next.words.tokens).toMatchObject({ left: 900, at: 300, sent: 300, granted: 225, spare: 675 });
    // When it is over, it counts no more, and any other word does.
    now += 31 * SECOND;
    const over = await state('one', { ...open, wanted: { ...NOTHING, requests: 2 } });
    expect(over.words.requests).toMatchObject({ forMs: 0, granted: 0, spare: 0 });
    const again = await state('one', { ...open, words: { requests: word(9) } });
    expect(again.words.requests).toMatchObject({ left: 9, forMs: 30_000 });
  });

  it("divides the provider's word beside the limits of options, by what each member wants", async () => {
    const asks = (requests: number): Report => ({
      wanted: { ...NOTHING, requests, tokens: 100 * requests },
      leastTokens: 100,
    });
    const one = await state('one', { ...asks(6), words: { requests: word(8), tokens: word(1000) } });
    expect(one.granted.requests).toBe(53);
    expect([one.words.requests.granted, one.words.tokens.granted]).toEqual([7, 800]);
    const two = await state('two', asks(6));
    expect([two.words.requests.granted, two.words.tokens.granted]).toEqual([1, 200]);
    // What was sent is part of the grant, and a killed member's counts as sent.
    await state('one', { ...asks(0), sent: { requests: 4, tokens: 350 } });
    const more = await state('two', asks(6));
    expect([more.words.requests.granted, more.words.tokens.granted]).toEqual([4, 610]);
    now += 4 * SECOND;
    const last = await state('three', asks(6));
    expect(last.words.requests).toMatchObject({ sent: 8, granted: 0 });
    expect(last.words.tokens).toMatchObject({ sent: 973, granted: 0 });
    const left = await state('three', { isLeaving: true });
    expect([left.words.requests.granted, left.words.tokens.granted]).toEqual([0, 0]);
  });

  it('has the same place for processes that know nothing of words', async () => {
    await state('one', { words: { requests: word(8) } });
    const key = `${prefix}ccr:up:{groq}`;
    // As the script before wrote it.
    const [seq, until, ...rest] = ((await redis.hget(key, 'mone')) ?? '').split(' ');
    await redis.hset(key, 'mone', [seq, until, ...rest.slice(0, 8)].join(' '));
    const two = await state('two', { wanted: { ...NOTHING, requests: 2 } });
    expect(two.words.requests).toMatchObject({ left: 8, granted: 4 });
    expect(two.members).toBe(2);
  });

  it('is one key, which expires by itself', async () => {
    await state('one', { slot: 'groq' });
    expect(await redis.keys(`${prefix}*`)).toEqual([`${prefix}ccr:up:{groq}`]);
    const ttl = await redis.pttl(`${prefix}ccr:up:{groq}`);
    expect(ttl).toBeGreaterThan(60 * SECOND);
    expect(ttl).toBeLessThanOrEqual(65 * SECOND);
  });

  it("goes by Redis's own clock", async () => {
    const real = new RedisStore({ client: redis, keyPrefix: prefix });
    const [seconds] = await redis.time();
    await sync('one');
    const epoch = (await redis.hget(`${prefix}ccr:up:{groq}`, 'id')) ?? '';
    const terms = {
      bucketMs: SECOND,
      leaseMs: SECOND,
      limits: {},
      wanted: NOTHING,
      leastTokens: 0,
      running: 0,
      sent: { requests: 0, tokens: 0 },
      words: {},
    };
    const used = [{ requests: 1, tokens: 0, agoMs: 0 }];
    await real.fleet.sync({ slot: 'groq', member: 'm', epoch, seq: 1, isLeaving: false, ...terms, used });
    const [bucket = ''] = (await redis.hkeys(`${prefix}ccr:up:{groq}`)).filter((field) =>
      field.startsWith('b'),
    );
    expect(Number(bucket.slice(1))).toBeGreaterThanOrEqual(Number(seconds));
    expect(Number(bucket.slice(1))).toBeLessThan(Number(seconds) + 60);
    await real.close();
  });
});

describe('the health of targets', () => {
  const LEASE = 3 * SECOND;
  const tell = async (member: string, ...changes: TargetChange[]): Promise<readonly EjectedTarget[]> =>
    (await store.fleet.syncHealth({ member, leaseMs: LEASE, changes, exhausted: [] })).ejected;
  const ejected = (target: string, retryInMs: number, ejections = 1): TargetChange => ({
    target,
    type: 'ejected',
    retryInMs,
    ejections,
  });

  it('is what any process said last', async () => {
    expect(await tell('one')).toEqual([]);
    await tell('one', ejected('groq', 5000), ejected('azure', 100, 3));
    const known = await tell('two');
    expect(known.toSorted((a, b) => (a.target < b.target ? -1 : 1))).toEqual([
      { target: 'azure', retryInMs: 100, ejections: 3, mayProbe: false },
      { target: 'groq', retryInMs: 5000, ejections: 1, mayProbe: false },
    ]);
    await tell('three', { target: 'azure', type: 'recovered' });
    now += 2000;
    // The longer of two waits.
    await tell('two', ejected('groq', 1000, 2));
    expect(await tell('one')).toEqual([{ target: 'groq', retryInMs: 3000, ejections: 2, mayProbe: false }]);
    await tell('one', { target: 'groq', type: 'recovered' });
    expect(await tell('two')).toEqual([]);
    expect(await redis.keys(`${prefix}*`)).toEqual([]);
  });

  it('is probed by one process at a time, while it does', async () => {
    const probes = async (member: string, ...changes: TargetChange[]): Promise<boolean | undefined> =>
      (await tell(member, ...changes))[0]?.mayProbe;
    await tell('one', ejected('groq', 1000));
    now += 1000;
    expect([await probes('one'), await probes('two'), await probes('one')]).toEqual([true, false, true]);
    now += LEASE - 1;
    expect(await probes('one', { target: 'groq', type: 'probing' })).toBe(true);
    now += LEASE - 1;
    expect([await probes('two'), await probes('one')]).toEqual([false, true]);
    // One that had no request for it lets the others go first.
    now += 1;
    expect([await probes('one'), await probes('two'), await probes('one')]).toEqual([false, true, false]);
    now += LEASE;
    expect(await probes('two')).toBe(false);
    now += 500;
    expect(await probes('two')).toBe(true);
    await tell('two', ejected('groq', 2000, 2));
    expect(await probes('two')).toBe(false);
  });

  it('is forgotten where nobody has probed for an hour', async () => {
    await tell('one', ejected('groq', 1000));
    now += 3600 * SECOND + 1001;
    expect(await tell('one')).toEqual([]);
  });

  it('lasts no longer when the clock is set back', async () => {
    const sync = async (forMs?: number) => {
      const exhausted = forMs === undefined ? [] : [{ slot: 'key', forMs }];
      const { ejected: targets, ...rest } = await store.fleet.syncHealth({
        member: 'one',
        leaseMs: LEASE,
        changes: [],
        exhausted,
      });
      return [targets[0]?.retryInMs, rest.exhausted[0]?.forMs];
    };
    await sync(8000);
    await tell('one', ejected('groq', 5000));
    now += 1000;
    expect(await sync()).toEqual([4000, 7000]);
    now -= 3600 * SECOND;
    expect(await sync()).toEqual([4000, 7000]);
    now += 4000;
    expect(await sync()).toEqual([0, 3000]);
    now += 3000;
    expect(await sync()).toEqual([0, undefined]);
    now -= 3600 * SECOND;
    // Its probe has no other end either: the next process gets it.
    await sync();
    now += LEASE;
    expect((await tell('two'))[0]?.mayProbe).toBe(true);
  });

  it('has the limits that are used up, by what any process was told', async () => {
    const report = { leaseMs: LEASE, changes: [] };
    const used = async (member: string, ...forMs: number[]): Promise<unknown> => {
      const exhausted = forMs.map((each, n) => ({ slot: `key ${n}`, forMs: each }));
      return (await store.fleet.syncHealth({ ...report, member, exhausted })).exhausted;
    };
    await used('one', 5000);
    await tell('one', ejected('groq', 500));
    now += 1000;
    expect(await used('two')).toEqual([{ slot: 'key 0', forMs: 4000 }]);
    expect(await used('two', 1000)).toEqual([{ slot: 'key 0', forMs: 4000 }]);
    now += 4000;
    expect(await used('two')).toEqual([]);
    expect(await tell('two')).toHaveLength(1);
  });
});
