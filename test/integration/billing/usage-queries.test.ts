import { beforeEach, describe, expect, it } from 'vitest';

import { MemoryStore, type UsageQueries, type UsageQuery } from '../../../src/index.ts';
import { createUsageQueries } from '../../../src/ledger/operations/usage-queries.ts';
import { DAY, NOON, requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Script } from '../../helpers/provider.ts';

let store: MemoryStore;
let usage: UsageQueries;
let n = 0;

/** A request of so many nano-dollars, made so many days after 2026-03-04. */
async function use(account: string, key: string, model: string, day: number, amount: bigint): Promise<void> {
  n += 1;
  const id = requestId(n, NOON + day * DAY);
  await store.settle({ account, key, model, requestId: id, amount, usage: USAGE, force: true });
}

beforeEach(async () => {
  store = new MemoryStore({ now: () => NOON + 9 * DAY });
  usage = createUsageQueries(store, () => NOON + 9 * DAY);
  for (const account of ['zeta', 'acme']) await store.grant({ account, id: 'g1', amount: 10n ** 12n });
  await use('acme', 'k1', 'm1', 0, 1_000_000_000n);
  await use('acme', 'k1', 'm2', 0, 200_000_000n);
  await use('acme', 'k2', 'm1', 1, 30_000_000n);
  await use('acme', 'k2', 'm1', 9, 4_000_000n);
  await use('zeta', 'k1', 'm1', 1, 500_000n);
});

const charges = async (query: UsageQuery): Promise<unknown[]> => {
  const rows = await usage.query(query);
  return rows.map(({ day, account, key, model, charged }) =>
    [day, account, key, model, charged].filter((each) => each !== undefined),
  );
};

describe('router.usage.query', () => {
  it('sums all accounts by day unless it is asked otherwise', async () => {
    expect(await usage.query()).toEqual([
      {
        day: '2026-03-04',
        requests: 2,
        errors: 0,
        aborted: 0,
        promptTokens: 18,
        cachedTokens: 4,
        completionTokens: 24,
        reasoningTokens: 6,
        charged: '1.20',
        cost: '0.000000014',
      },
      expect.objectContaining({ day: '2026-03-05', requests: 2, charged: '0.0305' }),
      expect.objectContaining({ day: '2026-03-13', requests: 1, charged: '0.004' }),
    ]);
  });

  it.each<[UsageQuery, unknown[]]>([
    [{ groupBy: [] }, [['1.2345']]],
    [
      { groupBy: ['account'] },
      [
        ['acme', '1.234'],
        ['zeta', '0.0005'],
      ],
    ],
    [
      { groupBy: ['model', 'key'] },
      [
        ['k1', 'm1', '1.0005'],
        ['k2', 'm1', '0.034'],
        ['k1', 'm2', '0.20'],
      ],
    ],
    [
      { groupBy: ['key', 'model'], account: 'acme' },
      [
        ['k1', 'm1', '1.00'],
        ['k1', 'm2', '0.20'],
        ['k2', 'm1', '0.034'],
      ],
    ],
    [{ groupBy: [], key: 'k1' }, [['1.2005']]],
    [{ groupBy: [], model: 'm2' }, [['0.20']]],
    [{ groupBy: [], account: 'nobody' }, []],
    [{ groupBy: [], model: 'm3' }, []],
  ])('sums by what it is asked for: %j', async (query, rows) => {
    expect(await charges(query)).toEqual(rows);
  });

  it.each<[UsageQuery, unknown[]]>([
    [{ from: '2026-03-05' }, ['2026-03-05', '2026-03-13']],
    [{ from: '2026-03-04', to: '2026-03-05' }, ['2026-03-04', '2026-03-05']],
    [{ from: '2026-03-05', to: '2026-03-05' }, ['2026-03-05']],
    [{ to: new Date('2026-03-04T23:59:59Z') }, ['2026-03-04']],
    [{ to: '2026-03-04T23:59:59Z' }, ['2026-03-04']],
    [{ from: '2026-03-05T01:00:00+02:00' }, ['2026-03-04', '2026-03-05', '2026-03-13']],
    [{ from: new Date('2026-03-13T12:00Z') }, ['2026-03-13']],
  ])('takes days and times, both of them inclusive, UTC: %j', async (query, days) => {
    expect((await charges(query)).map((row) => (row as string[])[0])).toEqual(days);
  });

  it('goes back thirty days, today counted in, unless it is asked otherwise', async () => {
    const later = createUsageQueries(store, () => NOON + 30 * DAY);
    expect((await later.query()).map(({ day }) => day)).toEqual(['2026-03-05', '2026-03-13']);
    const rows = await later.query({ to: '2026-04-02' });
    expect(rows.map(({ day }) => day)).toEqual(['2026-03-04', '2026-03-05', '2026-03-13']);
  });

  it.each<[UsageQuery, string]>([
    [
      { account: 'a b' },
      'account must be 1 to 128 visible ASCII characters other than " ` { } \\ and not . or .., got "a b"',
    ],
    [{ key: '' }, 'key must be 1 to 64 characters A-Z a-z 0-9 _ -, got ""'],
    [{ model: 7 as never }, 'model must be a string, got 7'],
    [{ from: '2026-02-30' }, 'from must be a day as "2026-11-21", a time as'],
    [{ from: '21.11.2026' }, 'from must be a day as'],
    [{ to: '2026-03-04T12:00' }, 'to must be a day as'],
    [{ to: new Date(Number.NaN) }, 'to must be a day as'],
    [
      { from: '2026-03-05', to: '2026-03-04' },
      'from must be a day not after to (2026-03-04), got "2026-03-05"',
    ],
    [{ groupBy: ['hour' as never] }, 'groupBy must be a list of some of "day", "account", "key", "model"'],
    [{ groupBy: ['day', 'day'] }, 'each once, got "day, day"'],
    [{ groupBy: 'day' as never }, 'groupBy must be a list'],
  ])('names the field that can not be right: %j', async (query, message) => {
    await expect(usage.query(query)).rejects.toThrow(TypeError);
    await expect(usage.query(query)).rejects.toThrow(message);
  });

  it('leaves out what an expiry counted and a late charge moved to another model', async () => {
    const request = { account: 'acme', key: 'k1', requestId: requestId(99, NOON + 8 * DAY) };
    const hold = { want: 9n, min: 9n, leaseMs: 1, tokens: 0, notAfter: Infinity, externalKey: true };
    const clock = { now: NOON + 8 * DAY };
    store = new MemoryStore({ now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 10n });
    await store.admit({ ...request, ...hold, model: 'asked' });
    clock.now += 10;
    await store.sweep(9);
    await store.settle({ ...request, amount: 3n, model: 'answered', usage: USAGE, force: true });
    const rows = await createUsageQueries(store, () => clock.now).query({ groupBy: ['model'] });
    expect(rows.map(({ model }) => model)).toEqual(['answered']);
  });

  it('reads at most 50 accounts at once, and none that is not asked for', async () => {
    for (let n = 0; n < 60; n++) await store.grant({ account: `more-${n}`, id: 'g', amount: 1n });
    const asked: string[] = [];
    let [open, most] = [0, 0];
    store.usage = async (account) => {
      most = Math.max(most, (open += 1));
      await Promise.resolve();
      open -= 1;
      asked.push(account);
      return [];
    };
    await usage.query({ account: 'acme' });
    expect([asked, most]).toEqual([['acme'], 1]);
    await usage.query();
    expect(most).toBe(50);
    expect(asked).toHaveLength(1 + 2 + 60);
  });

  it('is of the router, and has what it served, finished, failed and left', async () => {
    const gateway = await startGateway();
    const settledAfter = async (script: Script): Promise<void> => {
      gateway.provider.script = script;
      const settled = gateway.nextSettled();
      await gateway.post(QUESTION);
      await settled;
    };
    await settledAfter(answerJson(completionBody()));
    await settledAfter(answerJson('{"error":{"message":"too long"}}', 400));
    const leaving = new AbortController();
    gateway.provider.script = () => leaving.abort();
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION, { signal: leaving.signal }).catch(() => {});
    await settled;

    const rows = await gateway.router.usage.query({ groupBy: ['account', 'model'] });
    expect(rows).toEqual([
      expect.objectContaining({ account: 'acct', model: 'acme/fast', requests: 3, errors: 1, aborted: 1 }),
    ]);
    expect(rows[0]?.charged).toBe((await gateway.router.accounts.get('acct'))?.spent);
    await gateway.close();
  });
});
