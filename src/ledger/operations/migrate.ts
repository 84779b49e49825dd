import { optionsObject } from '../../platform/options-object.ts';
import { verifyLedger } from './verify.ts';
import type { Allowance } from '../contract/allowances.ts';
import type { AccountState, LedgerStore, Lot } from '../contract/ledger-store.ts';
import type { KeyHashes, KeyState } from '../contract/key-records.ts';
import { type MigrationPlan, planMigration, type PlannedKey } from './migration-plan.ts';
import { migrateRouting } from './migrate-routing.ts';
import { GATEWAY_LEASE_MS } from './maintenance.ts';
import { formatUsd, MAX_AMOUNT } from '../contract/money.ts';

export interface MigrationReport {
  readonly accounts: number;
  readonly keys: number;
  /** Total that all accounts can spend; USD, as a decimal string. */
  readonly available: string;
  /** Differences between the stores; empty if the migration succeeded. */
  readonly problems: readonly { readonly account: string; readonly message: string }[];
}

export interface MigrateOptions {
  /**
   * Migrate although a gateway uses one of the stores: what it charges meanwhile is missing in the new one.
   *
   * @default false
   */
  readonly force?: boolean;
  /** Called for each account after each step: first all are checked, then all are moved, then all are compared. */
  readonly onAccount?: (account: string, step: 'checked' | 'moved' | 'compared') => void;
}

/** The migration can't start, because a gateway uses one of the stores. */
export class GatewayAliveError extends Error {
  override readonly name = 'GatewayAliveError';
}

/** The migration can't start, or continue, until the problem in the message is resolved. */
export class MigrationRefusedError extends Error {
  override readonly name = 'MigrationRefusedError';
  readonly account: string;

  constructor(account: string, message: string) {
    super(`account ${account} can't be migrated: ${message}`);
    this.account = account;
  }
}

/**
 * Copies all accounts of a store to another one: available credits, lots and API keys; and what operators have changed of the routing.
 *
 * No router may use either store meanwhile: while one does, or was killed less than two minutes ago, the migration is refused. It can be interrupted and repeated, until a router has used the new store.
 * Journals and past charges are not copied: export them before. Afterwards both stores are compared, and the new one is
 * verified.
 *
 * @throws GatewayAliveError, MigrationRefusedError before anything of the account is written
 */
export async function migrate(
  from: LedgerStore,
  to: LedgerStore,
  options: MigrateOptions = {},
): Promise<MigrationReport> {
  const { onAccount, force = false } = optionsObject(options, { onAccount: true, force: true });
  await from.ready?.();
  await to.ready?.();
  if (!from.keyHashes) throw new TypeError('from must implement keyHashes');
  if (!force) {
    await refuseGateways('old', from);
    await refuseGateways('new', to);
  }
  await expireDue(from);
  for await (const account of from.accounts()) {
    await planAccount(from, to, account);
    onAccount?.(account, 'checked');
  }

  const notDurable: string[] = [];
  for await (const account of from.accounts()) {
    const plan = await planAccount(from, to, account);
    if (plan && !(await applyPlan(plan, to))) notDurable.push(account);
    onAccount?.(account, 'moved');
  }
  await migrateRouting(from, to);
  return compareStores(from, to, notDurable, onAccount);
}

/** @throws GatewayAliveError if a gateway has announced that it uses the store */
async function refuseGateways(which: 'old' | 'new', store: LedgerStore): Promise<void> {
  const live = [...((await store.liveGateways?.()) ?? [])];
  if (live.length === 0) return;
  const found = live.map(([gateway, leftMs]) => {
    const seconds = Math.max(0, Math.round((GATEWAY_LEASE_MS - leftMs) / 1000));
    return `${gateway.replace(/ \w+$/, '')}, last seen ${seconds} s ago`;
  });
  throw new GatewayAliveError(
    `a gateway uses the ${which} store (${found.join('; ')}): stop it first. One that was killed counts for ${GATEWAY_LEASE_MS / 1000} s after it was last seen`,
  );
}

/** Ends leases that ran out since the router stopped, and expires credits, in enough sweeps to visit all accounts. */
async function expireDue(store: LedgerStore): Promise<void> {
  let accounts = 0;
  for await (const _ of store.accounts()) accounts += 1;
  for (let visited = 0; visited <= accounts; visited += MIN_VISITED_BY_SWEEP)
    await store.sweep(Number.MAX_SAFE_INTEGER);
}

/** Minimum of accounts that one sweep of any store visits. */
const MIN_VISITED_BY_SWEEP = 100;

/** Plans the migration of an account and checks that the new store can take it; undefined if the account is gone. */
async function planAccount(
  from: LedgerStore,
  to: LedgerStore,
  account: string,
): Promise<MigrationPlan | undefined> {
  const state = await from.snapshot(account);
  if (!state) return undefined;
  const held = state.requests.find((request) => request.state === 'held');
  if (held) {
    const until = new Date(held.due).toISOString();
    throw new MigrationRefusedError(
      account,
      `request ${held.id} holds ${formatUsd(held.amount)} until ${until}; stop the router, which settles running requests, or wait until then`,
    );
  }
  // Refunded charges can make a balance larger than a grant may be.
  if (state.available > MAX_AMOUNT) {
    throw new MigrationRefusedError(
      account,
      `it has ${formatUsd(state.available)} available, which can't be recreated in another store`,
    );
  }
  const plan = await planMigration(from, account, state);
  await checkTarget(plan, to);
  return plan;
}

/** An account that exists already must be the incomplete result of this migration. */
async function checkTarget({ account, changes }: MigrationPlan, to: LedgerStore): Promise<void> {
  const lines = await to.journal(account, 0n, changes.length + 1);
  for (const [n, line] of lines.entries()) {
    const change = changes[n];
    const amount = change?.type === 'a' ? change.delta : change?.amount;
    if (
      line.seq === BigInt(n + 1) &&
      line.type === change?.type &&
      line.id === change.id &&
      line.amount === amount
    )
      continue;
    throw new MigrationRefusedError(
      account,
      `it already exists in the new store, and its line ${line.seq} (${line.id}) isn't from this migration; start with an empty store`,
    );
  }
  const state = lines.length === 0 ? await to.snapshot(account) : undefined;
  if (state && state.seq > 0n) {
    throw new MigrationRefusedError(account, 'it already exists in the new store; start with an empty store');
  }
}

/** Returns whether all changes are on a disk or on the requested number of replicas. */
async function applyPlan(
  { account, keys, policy, changes, allowances, floor, frozen }: MigrationPlan,
  to: LedgerStore,
): Promise<boolean> {
  let isDurable = true;
  for (const change of changes) {
    const result = change.type === 'g' ? await to.grant(change) : await to.adjust(change);
    if (result.code !== 'ok' && result.code !== 'duplicate') {
      throw new MigrationRefusedError(account, `the new store rejected ${change.id}: ${result.code}`);
    }
    isDurable &&= result.durable !== false;
  }
  for (const allowance of allowances) {
    const result = await to.allow(allowance);
    if (result.code !== 'ok' && result.code !== 'duplicate') {
      throw new MigrationRefusedError(account, `the new store rejected ${allowance.id}: ${result.code}`);
    }
    isDurable &&= result.durable !== false;
  }
  const limited = floor === 0n ? undefined : await to.setFloor({ account, floor });
  if (limited?.code === 'ok') isDurable &&= limited.durable !== false;
  for (const key of keys) {
    isDurable = (await importKey(key, to)) && isDurable;
    if (key.isRevoked) await to.revokeKey(account, key.command.key);
  }
  const changed = policy && (await to.updateKey(policy));
  if (changed && changed.code !== 'ok') {
    throw new MigrationRefusedError(account, 'its policy in the new store is another one');
  }
  if (changed?.code === 'ok') isDurable &&= changed.durable !== false;
  // A debt froze it.
  await to.freeze(account, frozen);
  return isDurable;
}

/** Returns whether the key is durable. A key in overlap is created with its previous secret, and then rotated. */
async function importKey({ command, previous }: PlannedKey, to: LedgerStore): Promise<boolean> {
  const { account, key: id, hash, version } = command;
  const known = previous && (await to.keyHashes?.(account))?.get(id);
  if (previous && known?.current === hash) return true;
  const created = await to.createKey(previous ? { ...command, hash: previous.hash } : command);
  if (created.code !== 'ok') {
    throw new MigrationRefusedError(
      account,
      `the new store has a different key ${id}, or another key with its hash`,
    );
  }
  if (!previous) return created.durable !== false;
  const overlapMs = Math.max(0, previous.until - created.now);
  const rotated = await to.rotateKey({ account, key: id, hash, version, overlapMs });
  if (rotated.code !== 'ok') {
    throw new MigrationRefusedError(
      account,
      `the new store rejected the secret of key ${id}: ${rotated.code}`,
    );
  }
  return created.durable !== false && rotated.durable !== false;
}

async function compareStores(
  from: LedgerStore,
  to: LedgerStore,
  notDurable: readonly string[],
  onAccount: MigrateOptions['onAccount'],
): Promise<MigrationReport> {
  const problems = notDurable.map((account) => {
    return { account, message: 'has fewer replicas than requested: run the migration again' };
  });
  let [accounts, keys, available] = [0, 0, 0n];
  for await (const account of from.accounts()) {
    await from.balance(account);
    const before = await from.snapshot(account);
    if (!before) continue;
    const after = await to.balance(account).then(() => to.snapshot(account));
    const hashes = [await from.keyHashes?.(account), await to.keyHashes?.(account)];
    for (const message of after ? differences(before, after, hashes) : ['is not in the new store']) {
      problems.push({ account, message });
    }
    for await (const { findings } of verifyLedger(to, { account })) {
      problems.push(...findings.map(({ message }) => ({ account, message })));
    }
    accounts += 1;
    keys += hashes[0]?.size ?? 0;
    available += before.available;
    onAccount?.(account, 'compared');
  }
  return { accounts, keys, available: formatUsd(available), problems };
}

function* differences(
  before: AccountState,
  after: AccountState,
  [hashesBefore, hashesAfter]: readonly (ReadonlyMap<string, KeyHashes> | undefined)[],
): Generator<string> {
  for (const what of ['available', 'held', 'floor'] as const) {
    if (before[what] === after[what]) continue;
    yield `${what} was ${formatUsd(before[what])}, but is ${formatUsd(after[what])} in the new store`;
  }
  const [lotsBefore, lotsAfter] = [before, after].map(({ lots }) => lots.map(lotTerms).sort().join(', '));
  if (lotsBefore !== lotsAfter) yield `its lots were ${lotsBefore}, but are ${lotsAfter} in the new store`;
  const [allowedBefore, allowedAfter] = [before, after].map(({ allowances }) =>
    allowances.map(allowanceTerms).join(),
  );
  if (allowedBefore !== allowedAfter) yield 'its allowances differ in the new store';
  if (before.frozen !== after.frozen)
    yield `frozen was ${before.frozen}, but is ${after.frozen} in the new store`;
  if (before.policy && (!after.policy || keyTerms(before.policy) !== keyTerms(after.policy))) {
    yield 'its policy differs in the new store';
  }
  const keysAfter = new Map(after.keys.map((key) => [key.key, key]));
  for (const key of before.keys) {
    const hashes = hashesBefore?.get(key.key);
    if (hashes === undefined) continue;
    const moved = keysAfter.get(key.key);
    const hasHash = hashesAfter?.get(key.key)?.current === hashes.current;
    if (hasHash && moved && keyTerms(moved) === keyTerms(key)) continue;
    yield `key ${key.key} differs in the new store`;
  }
}

function lotTerms({ remaining, expiresAt, priority }: Lot): string {
  return `${formatUsd(remaining)} (priority ${priority}, expires ${expiresAt ?? 'never'})`;
}

function allowanceTerms(allowance: Allowance): string {
  const [amount, granted] = [formatUsd(allowance.amount), formatUsd(allowance.granted)];
  return JSON.stringify({ ...allowance, version: 1, amount, granted });
}

function keyTerms({ name, state, expiresAt, policy }: KeyState): string {
  return JSON.stringify([state, name, expiresAt, policy]);
}
