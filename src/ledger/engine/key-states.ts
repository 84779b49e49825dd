import { type AccountRows, type KeyRow, replyMeta } from './account-rows.ts';
import {
  bucketsUnder,
  budgetLeft,
  fullBuckets,
  limitedBuckets,
  ratesOf,
  windowEnd,
  windowStart,
} from './key-limits.ts';
import {
  type CreateKey,
  type FoundKey,
  type KeyHashes,
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
  const { name, limits = {}, expiresAt, policy } = terms;
  return {
    key,
    hash,
    name,
    limits,
    expiresAt,
    policy,
    version,
    previous: undefined,
    createdAt: now,
    revokedAt: undefined,
    held: 0n,
    running: 0,
    spent: 0n,
    window: windowStart(limits, now),
    ...fullBuckets(limits, now),
  };
}

/**
 * The key that `createKey` records. A label of the same id is upgraded and keeps its counters: a rollback lost the key, and
 * a restored hold has created the label.
 */
export function createdKey(label: KeyRow | undefined, command: CreateKey, now: number): KeyRow {
  const made = newKey(command, now);
  if (!label) return made;
  const { held, running, createdAt } = label;
  const spent = label.window === made.window ? label.spent : 0n;
  return Object.assign(label, made, { held, running, createdAt, spent });
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
  const row = account?.key(command.key);
  if (!account || !row?.hash) return { code: 'no_key', ...replyMeta(account, now) };
  if (!hasTerms(row, command)) {
    if (row.version !== command.version) return { code: 'changed', ...replyMeta(account, now) };
    const { name, limits = {}, expiresAt, policy } = command;
    const buckets = bucketsUnder(limits, row, now);
    Object.assign(row, { name, limits, expiresAt, policy, version: row.version + 1, ...buckets });
    account.saveKeyTerms(row);
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
  const { key, name, createdAt, revokedAt, expiresAt, limits, policy, version, previous } = row;
  return {
    account,
    key,
    name,
    state: revokedAt === undefined ? 'active' : 'revoked',
    createdAt,
    ...(revokedAt !== undefined && { revokedAt }),
    ...(expiresAt !== undefined && { expiresAt }),
    limits,
    ...(policy !== undefined && { policy }),
    version,
    ...(previous && { overlapUntil: previous.until }),
  };
}

/** The key, looked up by a hash; undefined if the hash is no longer valid for it. */
export function foundKey(account: string, row: KeyRow, hash: string, now: number): FoundKey | undefined {
  if (row.hash === hash) return keyRecord(account, row);
  const { previous } = row;
  if (previous?.hash !== hash || now >= previous.until) return undefined;
  return { ...keyRecord(account, row), hashUntil: previous.until };
}

export function keyHashes(rows: Iterable<KeyRow>): Map<string, KeyHashes> {
  const hashes = new Map<string, KeyHashes>();
  for (const { key, hash, previous } of rows) {
    if (hash) hashes.set(key, { current: hash, ...(previous && { previous }) });
  }
  return hashes;
}

export function keyState(account: string, row: KeyRow): KeyState {
  const { held, running, spent, window, limits } = row;
  return {
    ...keyRecord(account, row),
    held,
    running,
    spent,
    window,
    ...limitedBuckets(limits, row),
  };
}

/** The state of a key at `now`, when its row was read. */
export function keyStatus(state: KeyState, now: number): KeyStatus {
  const { window, requestBucket: _, tokenBucket: __, ...rest } = state;
  const left = budgetLeft(state, now);
  const rates = ratesOf(state, now);
  const start = windowStart(state.limits, now);
  const resetsAt = windowEnd(state.limits, Math.max(start, window));
  return {
    ...rest,
    now,
    spent: start > window ? 0n : state.spent,
    ...(left !== undefined && { budgetLeft: left > 0n ? left : 0n }),
    ...(resetsAt !== undefined && { budgetResetsAt: resetsAt }),
    ...(rates && { rates }),
  };
}

function hasTerms(row: KeyRow, { name, limits = {}, expiresAt, policy }: KeyTerms): boolean {
  return (
    row.name === name &&
    row.expiresAt === expiresAt &&
    row.policy === policy &&
    sameLimits(row.limits, limits)
  );
}
