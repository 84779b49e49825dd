import {
  type AccountRows,
  type CountersRow,
  endUserOfRow,
  type EndUserRow,
  type KeyRow,
  replyMeta,
} from './account-rows.ts';
import { endUserFor } from './limit-holders.ts';
import { bucketsUnder, budgetStates, limitedBuckets, newCounters, rateOf, spentIn } from './key-limits.ts';
import {
  ACCOUNT_POLICY,
  type Counters,
  type CountersStatus,
  type CreateKey,
  type EndUserLimits,
  type EndUserStatus,
  type FoundKey,
  type KeyHashes,
  type KeyLimits,
  type KeyRecord,
  type KeyState,
  type KeyStatus,
  type KeyTerms,
  type RotateKey,
  type RotateKeyResult,
  type UpdateKey,
  type UpdateKeyResult,
  sameLimits,
} from '../contract/key-records.ts';
import type { AccountState } from '../contract/ledger-store.ts';

/** How operators create, change and read keys. What requests do to them is in account-engine.ts and key-limits.ts. */

/** A key without any requests. Without a hash, it is a label for a key that your app authenticates. */
export function newKey(
  {
    key,
    hash,
    version = 1,
    ...terms
  }: KeyTerms & { readonly key: string; readonly hash?: string; readonly version?: number },
  now: number,
): KeyRow {
  const { name, limits = {}, endUsers, expiresAt, policy, paused = false } = terms;
  return {
    key,
    hash,
    name,
    limits,
    endUsers,
    expiresAt,
    policy,
    paused,
    version,
    previous: undefined,
    createdAt: now,
    revokedAt: undefined,
    ...newCounters(limits, now),
  };
}

/**
 * The key that `createKey` records. A label of the same id is upgraded and keeps its counters: a rollback lost the key, and
 * a restored hold has created the label.
 */
export function createdKey(label: KeyRow | undefined, command: CreateKey, now: number): KeyRow {
  const made = newKey(command, now);
  if (!label) return made;
  const { createdAt, held, running, spent, countedAt, spentBefore } = label;
  return Object.assign(label, made, { createdAt, held, running, spent, countedAt, spentBefore });
}

/** Whether the command is a repetition of the one that created this key, which is unchanged since. */
export function isSameKey(row: KeyRow | undefined, command: CreateKey): boolean {
  return row?.hash === command.hash && hasTerms(row, command);
}

export function updateKey(
  account: AccountRows | undefined,
  command: UpdateKey,
  now: number,
): UpdateKeyResult {
  const isPolicy = command.key === ACCOUNT_POLICY;
  const known = account?.key(command.key);
  if (!account || (!isPolicy && !known?.hash)) return { code: 'no_key', ...replyMeta(account, now) };
  const row = known ?? newKey({ key: command.key, name: '', version: 0 }, now);
  if (!known || !hasTerms(row, command)) {
    if (row.version !== command.version) return { code: 'changed', ...replyMeta(account, now) };
    const { name, limits = {}, endUsers, expiresAt, policy, paused = false } = command;
    const buckets = bucketsUnder(limits, row, now);
    const version = row.version + 1;
    Object.assign(row, { name, limits, endUsers, expiresAt, policy, paused, version, ...buckets });
    account.saveKeyTerms(row);
    if (isPolicy) account.totals.policyVersion = version;
  }
  return { code: 'ok', version: row.version, ...replyMeta(account, now) };
}

/** @param isTaken - the hash is, or was last, that of another secret */
export function rotateKey(
  account: AccountRows | undefined,
  { key, hash, version, overlapMs }: RotateKey,
  now: number,
  isTaken: boolean,
): RotateKeyResult {
  const row = account?.key(key);
  if (!account || !row?.hash) return { code: 'no_key', ...replyMeta(account, now) };
  if (row.hash !== hash) {
    if (row.revokedAt !== undefined) return { code: 'revoked', ...replyMeta(account, now) };
    if (row.version !== version) return { code: 'changed', ...replyMeta(account, now) };
    if (isTaken) return { code: 'conflict', ...replyMeta(account, now) };
    row.previous = overlapMs > 0 ? { hash: row.hash, until: now + overlapMs } : undefined;
    row.hash = hash;
    row.version += 1;
    account.saveKeyTerms(row);
  }
  return { code: 'ok', version: row.version, ...replyMeta(account, now) };
}

/** Returns whether there is such a key. */
export function revokeKey(account: AccountRows | undefined, key: string, now: number): boolean {
  const row = account?.key(key);
  if (!account || !row?.hash) return false;
  if (row.revokedAt === undefined) {
    row.revokedAt = now;
    row.version += 1;
    account.saveKeyTerms(row);
  }
  return true;
}

export function keyRecord(account: string, row: KeyRow): KeyRecord {
  const { key, name, createdAt, revokedAt, expiresAt, limits, endUsers, policy, version, previous } = row;
  const state = row.paused ? 'paused' : 'active';
  return {
    account,
    key,
    name,
    state: revokedAt === undefined ? state : 'revoked',
    createdAt,
    ...(revokedAt !== undefined && { revokedAt }),
    ...(expiresAt !== undefined && { expiresAt }),
    limits,
    ...(endUsers && { endUsers }),
    ...(policy !== undefined && { policy }),
    version,
    ...(previous && { overlapUntil: previous.until }),
  };
}

/** The key, looked up by a hash; undefined if the hash is no longer valid for it. */
export function foundKey(
  account: string,
  { row, policy }: { readonly row: KeyRow; readonly policy: KeyRow | undefined },
  hash: string,
  now: number,
): FoundKey | undefined {
  const found = { ...keyRecord(account, row), ...(policy && { accountPolicy: policyOf(policy) }) };
  if (row.hash === hash) return found;
  const { previous } = row;
  if (previous?.hash !== hash || now >= previous.until) return undefined;
  return { ...found, hashUntil: previous.until };
}

function policyOf({ version, policy }: KeyRow): NonNullable<FoundKey['accountPolicy']> {
  return { version, ...(policy !== undefined && { policy }) };
}

export function keyHashes(rows: Iterable<KeyRow>): Map<string, KeyHashes> {
  const hashes = new Map<string, KeyHashes>();
  for (const { key, hash, previous } of rows) {
    if (hash) hashes.set(key, { current: hash, ...(previous && { previous }) });
  }
  return hashes;
}

/** All who have counters in an account, as its state shows them. */
export function accountHolders(
  account: string,
  keys: Iterable<KeyRow>,
  endUsers: Iterable<EndUserRow>,
): Pick<AccountState, 'keys' | 'policy' | 'endUsers'> {
  const rows = new Map(Array.from(keys, (row) => [row.key, row]));
  const states = [...rows.values()].map((row) => keyState(account, row));
  const policy = states.find(({ key }) => key === ACCOUNT_POLICY);
  return {
    keys: states.filter((state) => state !== policy),
    ...(policy && { policy }),
    endUsers: Array.from(endUsers, (row) => {
      const endUser = endUserOfRow(row.id);
      return { ...endUser, ...counters(row, rows.get(endUser.key ?? ACCOUNT_POLICY)?.endUsers ?? {}) };
    }),
  };
}

export function keyState(account: string, row: KeyRow): KeyState {
  return { ...keyRecord(account, row), ...counters(row, row.limits) };
}

function counters(row: CountersRow, limits: KeyLimits): Counters {
  const { held, running, spent, countedAt } = row;
  return { held, running, spent, countedAt, spentIn: spentIn(row), ...limitedBuckets(limits, row) };
}

/** The state of a key, or of an account's own row, at `now`. */
export function keyStatus(account: string, row: KeyRow, now: number): KeyStatus {
  return { ...keyRecord(account, row), ...countersStatus(row, row.limits, now) };
}

/** The state of an end user at `now`, for requests with a key, or without. */
export function endUserStatus(
  account: Pick<AccountRows, 'key' | 'endUser' | 'endUserCount'>,
  { endUser, key }: { readonly endUser: string; readonly key: string | undefined },
  now: number,
): EndUserStatus | undefined {
  const keys = { key: key === undefined ? undefined : account.key(key), policy: account.key(ACCOUNT_POLICY) };
  const found = endUserFor(account, keys, endUser, now);
  if (!found) return undefined;
  const { row, limits, isShared } = found;
  const scope = endUserOfRow(row.id).key;
  return {
    ...(scope !== undefined && { key: scope }),
    endUser,
    ...(isShared && { sharesEndUser: true }),
    ...countersStatus(row, limits, now),
  };
}

function countersStatus(row: CountersRow, limits: KeyLimits, now: number): CountersStatus {
  const { held, running, spent } = row;
  const requests = rateOf(row.requestBucket, limits.requestsPerMinute, now);
  const tokens = rateOf(row.tokenBucket, limits.tokensPerMinute, now);
  return {
    now,
    held,
    running,
    spent,
    budgets: budgetStates(limits, row, now),
    ...((requests || tokens) && { rates: { ...(requests && { requests }), ...(tokens && { tokens }) } }),
  };
}

function hasTerms(row: KeyRow, terms: KeyTerms): boolean {
  const { name, limits = {}, endUsers, expiresAt, policy, paused = false } = terms;
  return (
    row.name === name &&
    row.expiresAt === expiresAt &&
    row.policy === policy &&
    row.paused === paused &&
    sameLimits(row.limits, limits) &&
    sameEndUsers(row.endUsers, endUsers)
  );
}

function sameEndUsers(one: EndUserLimits | undefined, other: EndUserLimits | undefined): boolean {
  return one && other ? sameLimits(one, other) : one === other;
}
