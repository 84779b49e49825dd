import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Redis } from 'ioredis';
import { afterAll, describe, expect, it } from 'vitest';

import type { LedgerStore } from '../../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { NOON, requestId } from '../../contracts/ledger-fixture.ts';
import { findingsOf } from '../../helpers/audit.ts';
import { admission, namespace } from '../../helpers/redis-ledger.ts';
import { useRedis } from '../../helpers/use-redis.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folder = mkdtempSync(join(tmpdir(), 'ccr-audit-holders-'));
let files = 0;
let redis: Redis;

useRedis((own) => ({ redis } = own));

afterAll(() => rmSync(folder, { recursive: true }));

/** One request that is held for the end user `ann`, in an account that limits itself and its end users. */
async function live(store: LedgerStore): Promise<void> {
  await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
  const limits = { concurrentRequests: 9 };
  await store.updateKey({ account: 'acme', key: '@', version: 0, name: '', limits, endUsers: limits });
  await store.admit({ ...admission(1, 30_000n), endUser: 'ann' });
}

const POLICY = 'I2 the policy of the account has';
const ANN = 'I2 end user ~ann has';

describe('an audit of what counts against the limits of an account and its end users', () => {
  it.each<[what: string, damage: string[], findings: string[]]>([
    ['nothing', [], []],
    [
      'a policy that counts another hold',
      ["UPDATE keys SET held = 29000 WHERE id = '@'"],
      [`${POLICY} 1 running with 0.000029 held, but its requests are 1 with 0.00003`],
    ],
    [
      'a policy that counts a request too many',
      ["UPDATE keys SET running = 2 WHERE id = '@'"],
      [`${POLICY} 2 running with 0.00003 held, but its requests are 1 with 0.00003`],
    ],
    [
      'a request that counts in no policy',
      ['UPDATE requests SET in_account = 0'],
      [`${POLICY} 1 running with 0.00003 held, but its requests are 0 with 0.00`],
    ],
    [
      'an end user that counts no request',
      ['UPDATE end_users SET held = 0, running = 0'],
      [`${ANN} 0 running with 0.00 held, but its requests are 1 with 0.00003`],
    ],
    [
      'an end user that is gone',
      ['DELETE FROM end_users'],
      [`${ANN} 0 running with 0.00 held, but its requests are 1 with 0.00003`],
    ],
    [
      'a request that counts in another end user',
      ["UPDATE requests SET end_user = '~bob'"],
      [
        'I2 end user ~bob has 0 running with 0.00 held, but its requests are 1 with 0.00003',
        `${ANN} 1 running with 0.00003 held, but its requests are 0 with 0.00`,
      ],
    ],
  ])('finds %s, in a file', async (_what, damage, findings) => {
    const file = join(folder, `${(files += 1)}.db`);
    const store = new SqliteStore(file, { now: () => NOON });
    await live(store);
    const database = new DatabaseSync(file);
    for (const sql of damage) database.exec(sql);
    database.close();
    expect(await shownFindings(store)).toEqual(findings);
    await store.close();
  });

  it.each<[what: string, damage: string[][], findings: string[]]>([
    ['nothing', [], []],
    [
      'a policy that counts a request too many',
      [['hset', 'k', '@:s', `30000 2 0 ${NOON} 0,0,0,0 0 ${NOON} 0 ${NOON}`]],
      [`${POLICY} 2 running with 0.00003 held, but its requests are 1 with 0.00003`],
    ],
    [
      'an end user that is gone',
      [['hdel', 'e', '~ann']],
      [`${ANN} 0 running with 0.00 held, but its requests are 1 with 0.00003`],
    ],
    [
      'a request that counts in its key alone',
      [['hset', 'r', requestId(1), `H 30000 0 ${NOON + 60_000} ${NOON} 0 label = -`]],
      [
        `${POLICY} 1 running with 0.00003 held, but its requests are 0 with 0.00`,
        `${ANN} 1 running with 0.00003 held, but its requests are 0 with 0.00`,
      ],
    ],
  ])('finds %s, in Redis', async (_what, damage, findings) => {
    const keyPrefix = namespace();
    const store = new RedisStore({ client: redis, keyPrefix, now: () => NOON });
    await live(store);
    for (const [command = '', key, ...rest] of damage) {
      await redis.call(command, `${keyPrefix}ccr:{acme}:${key}`, ...rest);
    }
    expect(await shownFindings(store)).toEqual(findings);
    await store.close();
  });
});

async function shownFindings(store: LedgerStore): Promise<string[]> {
  return (await findingsOf(store)).map(({ invariant, message }) => `${invariant} ${message}`);
}
