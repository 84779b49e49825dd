import { admit, extend, reap, release, settle } from '../../engine/account-engine.ts';
import { deletedSums } from '../../engine/account-rows.ts';
import { ClockSteps } from '../../engine/clock-steps.ts';
import { newKey, revokeKey, rotateKey, updateKey } from '../../engine/key-states.ts';
import { allow } from '../../engine/allowances.ts';
import { updateCredits } from '../../engine/due-credits.ts';
import { adjust, grant } from '../../engine/grants.ts';
import type { SettledUsage } from '../../contract/ledger-store.ts';
import { RequestIds } from '../../contract/request-ids.ts';
import { SESSION_PREFIX } from '../../contract/reserved-ids.ts';
import { findKey, isHashTaken, type SqliteAccount } from './sqlite-account.ts';
import { accountNames, overdueAccounts } from './sqlite-account-names.ts';
import type { SqliteAccounts } from './sqlite-accounts.ts';
import { claim } from './sqlite-claims.ts';
import { followClock } from './sqlite-clock.ts';
import { deletedAccounts, forgetDeletions } from './sqlite-deletion.ts';
import { announceGateway, liveGateways } from './sqlite-gateways.ts';
import { rehearseRequestLog } from './sqlite-request-log.ts';
import { rehearseRouting } from './sqlite-routing.ts';
import { prunePage } from './sqlite-pruning.ts';

/** Not a valid account name, so no account can have it. */
const ACCOUNT = '{rehearsal}';
const TERMS = { amount: 5n, per: 'hour', rollover: 'once', priority: 50, change: 'prorate' } as const;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const USAGE: SettledUsage = {
  promptTokens: 1,
  completionTokens: 1,
  cachedTokens: 0,
  reasoningTokens: 0,
  price: 'v1',
  source: 'upstream',
  cost: 1n,
  ending: 'finished',
};

/**
 * A dry run: one command of each kind, in a transaction that is rolled back.
 *
 * It detects a SQLite version that can open the file but lacks a feature of our statements, and a user without
 * permission to write. It doesn't detect a full disk, because nothing is written.
 *
 * @param now - the store's clock, in ms
 * @throws what any of the commands throws
 */
export function rehearse(accounts: SqliteAccounts, now: number): void {
  const { sql } = accounts;
  const account = ACCOUNT;
  const ids = new RequestIds(() => now);
  /** Like a command of the store: finds, changes and saves the account. */
  const command = <T>(work: (rows: SqliteAccount) => T): T => {
    const rows = accounts.open(account, now);
    const result = work(rows);
    rows.save();
    return result;
  };
  const hash = `${account} 1`;
  command((rows) => grant(rows, { account, id: 'g1', amount: 5n, expiresAt: now + HOUR_MS }, now));
  command((rows) => grant(rows, { account, id: 'g2', amount: 5n }, now));
  command((rows) => adjust(rows, { account, id: 'a1', delta: -5n, reason: account }, now));
  command((rows) => allow(rows, { account, id: 'p1', ...TERMS, anchor: 0, until: now + DAY_MS }, now));
  isHashTaken(sql, hash);
  command((rows) => rows.saveKey(newKey({ key: 'k1', hash, name: account }, now)));
  const session = { key: `${SESSION_PREFIX}1`, hash: `${account} 3`, name: account, expiresAt: now };
  command((rows) => rows.saveKey(newKey(session, now)));
  findKey(sql, hash, now);
  command((rows) => updateKey(rows, { account, key: 'k1', name: 'k1', version: 1, endUsers: {} }, now));
  command((rows) =>
    rotateKey(rows, { account, key: 'k1', hash: `${account} 2`, version: 2, overlapMs: HOUR_MS }, now, false),
  );

  claim(sql, account, now, HOUR_MS);
  claim(sql, account, now, 0);

  const standing = new ClockSteps(() => 0);
  followClock(accounts, standing, now);
  followClock(accounts, standing, now + HOUR_MS);

  const [settled, voided, left] = [ids.next(), ids.next(), ids.next()];
  for (const requestId of [settled, voided, left]) {
    const idempotencyKey = { key: requestId, body: requestId };
    const hold = {
      account,
      key: 'k1',
      requestId,
      model: 'm',
      want: 1n,
      min: 1n,
      leaseMs: HOUR_MS,
      tokens: 1,
      endUser: requestId,
    };
    command((rows) => admit(rows, { ...hold, notAfter: now, idempotencyKey }, now));
  }
  const renewal = { account, requestId: settled, hold: 1n, leaseMs: HOUR_MS, checkpoint: 1n };
  command((rows) => extend(rows, renewal, now));
  const charge = { account, requestId: settled, amount: 1n, key: 'k1', model: 'm', force: true };
  command((rows) => settle(rows, { ...charge, usage: USAGE, dimensions: { user: account } }, now));
  const lost = { ...charge, requestId: ids.next(), idempotencyKey: { key: left, body: left } };
  command((rows) => settle(rows, { ...lost, usage: USAGE }, now));
  command((rows) => release(rows, { account, requestId: voided, key: 'k1', model: 'm' }, now));
  command((rows) => revokeKey(rows, 'k1', now));

  // Due by then: a lease, final records, an expiring lot, end users and a session.
  const later = now + 2 * DAY_MS;
  overdueAccounts(sql, '', later);
  command((rows) => {
    reap(rows, 10, later);
    updateCredits(rows, later);
  });
  command((rows) => prunePage(rows, '', later));
  command((rows) => rows.compactUsage('~'));
  command((rows) => rows.compact(1n, 1n));
  command((rows) => {
    rows.request(left);
    rows.lines(0n, 10);
    rows.state(account);
    rows.usagePage('', '~');
    rows.usageOfKey('', '~', 'k1');
    rows.dimensions.page('user', '', '~');
  });
  accountNames(sql, '');
  command((rows) => rows.running);
  accounts.delete(account, deletedSums(accounts.open(account, now), later));
  deletedAccounts(sql);
  forgetDeletions(sql, later);
  announceGateway(sql, account, now, HOUR_MS);
  liveGateways(sql, now);
  rehearseRequestLog(sql, account);
  rehearseRouting(sql, account, now);
}
