import { createHash } from 'node:crypto';

import type { AccountState, Adjust, Grant, LedgerStore } from '../contract/ledger-store.ts';
import {
  ACCOUNT_POLICY,
  type CreateKey,
  type KeyHashes,
  type KeyState,
  type UpdateKey,
} from '../contract/key-records.ts';

/** The changes, in order, that recreate an account of one store in another. */
export interface MigrationPlan {
  readonly account: string;
  readonly keys: readonly PlannedKey[];
  /** Of the account itself. */
  readonly policy: UpdateKey | undefined;
  readonly changes: readonly PlannedChange[];
  readonly frozen: boolean;
}

export interface PlannedKey {
  readonly command: CreateKey & { readonly version: number };
  /** The previous secret, if still valid. */
  readonly previous: KeyHashes['previous'];
  readonly isRevoked: boolean;
}

export type PlannedChange = ({ readonly type: 'g' } & Grant) | ({ readonly type: 'a' } & Adjust);

/**
 * Plans the migration of an account without holds.
 *
 * The rest of each lot becomes a grant; credit that belongs to no lot becomes an adjustment. Before these, the ids of all
 * grants and adjustments in the journal are used up, so that a repeated payment isn't granted again: each adds one
 * nano-dollar, and one adjustment takes them all back.
 */
export async function planMigration(
  from: LedgerStore,
  account: string,
  state: AccountState,
): Promise<MigrationPlan> {
  const ids = await usedIds(from, account, state);
  const used = ids.map((id): PlannedChange => {
    return { type: 'a', account, id, delta: 1n, reason: 'id of a grant or adjustment before the migration' };
  });
  const lots = state.lots.map(({ id, remaining, expiresAt, priority }): PlannedChange => {
    const terms = { priority, ...(expiresAt !== undefined && { expiresAt }) };
    return { type: 'g', account, id: lotId(id), amount: remaining, ...terms };
  });
  const rest = state.available - state.lots.reduce((total, lot) => total + lot.remaining, 0n);
  const reason = 'migration';
  return {
    account,
    keys: await keysOf(from, account, state.keys),
    policy: state.policy && policyOf(account, state.policy),
    changes: [
      { type: 'g', account, id: `${PREFIX}begin`, amount: 1n },
      ...used,
      { type: 'a', account, id: `${PREFIX}ids`, delta: -BigInt(used.length + 1), reason },
      ...lots,
      ...(rest > 0n ? [{ type: 'a', account, id: `${PREFIX}rest`, delta: rest, reason } as const] : []),
    ],
    frozen: state.frozen,
  };
}

const PREFIX = 'import:';
const MAX_ID_LENGTH = 128;
const PAGE = 1000;

function lotId(id: string): string {
  const plain = `${PREFIX}lot:${id}`;
  return plain.length <= MAX_ID_LENGTH
    ? plain
    : `${PREFIX}lot:${createHash('sha256').update(id).digest('hex')}`;
}

/** Ids that must not be used again, except those of an earlier migration. */
async function usedIds(from: LedgerStore, account: string, { lots }: AccountState): Promise<string[]> {
  const ids = new Set(lots.map((lot) => lot.id));
  for (let after = 0n; ;) {
    const lines = await from.journal(account, after, PAGE);
    for (const { type, id } of lines) if (type === 'g' || type === 'a') ids.add(id);
    const last = lines.at(-1);
    if (!last) return [...ids].filter((id) => !id.startsWith(PREFIX)).sort();
    after = last.seq;
  }
}

async function keysOf(
  from: LedgerStore,
  account: string,
  keys: readonly KeyState[],
): Promise<MigrationPlan['keys']> {
  const hashes = await from.keyHashes?.(account);
  return keys.flatMap((key) => {
    const known = hashes?.get(key.key);
    if (known === undefined) return [];
    const { state, expiresAt } = key;
    const isRevoked = state === 'revoked';
    // Rotation and revocation will each increment it to the current version, which your app may have stored.
    const version = Math.max(1, key.version - (known.previous ? 1 : 0) - (isRevoked ? 1 : 0));
    const terms = {
      ...sharedTerms(key),
      ...(expiresAt !== undefined && { expiresAt }),
      ...(state === 'paused' && { paused: true }),
    };
    return {
      command: { account, key: key.key, hash: known.current, version, ...terms },
      previous: known.previous,
      isRevoked,
    };
  });
}

/** The policy of an account, from its first version on: only routers that are stopped know the version of now. */
function policyOf(account: string, policy: KeyState): UpdateKey {
  return { account, key: ACCOUNT_POLICY, version: 0, ...sharedTerms(policy) };
}

function sharedTerms(key: KeyState): Pick<UpdateKey, 'name' | 'limits' | 'endUsers' | 'policy'> {
  const { name, endUsers, policy } = key;
  return {
    name,
    limits: limitsLeft(key),
    ...(endUsers && { endUsers }),
    ...(policy !== undefined && { policy }),
  };
}

/** The limits of a key: a lifetime budget continues with its rest, other budgets start again. */
function limitsLeft({ limits, spent }: KeyState): KeyState['limits'] {
  if (!limits.budgets) return limits;
  const budgets = limits.budgets.map(({ amount, per }) => {
    if (per !== 'lifetime') return { amount, per };
    return { amount: amount > spent ? amount - spent : 0n, per };
  });
  return { ...limits, budgets };
}
