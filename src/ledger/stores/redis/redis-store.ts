import {
  checkAccount,
  checkAdmit,
  checkExtend,
  checkCompactUsage,
  checkJournal,
  checkRequest,
  checkSettle,
  checkSweep,
  checkCompact,
  checkUsage,
  checkUsageBy,
  checkVoid,
} from '../../engine/validate-commands.ts';
import {
  type AccountState,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Allow,
  type AllowResult,
  type Balance,
  type CompactedSums,
  type DeleteAccountResult,
  type DeletedAccount,
  type DimensionRow,
  type EndAllowance,
  type EndAllowanceResult,
  type Extend,
  type ExtendResult,
  type Grant,
  type GrantResult,
  type JournalLine,
  type LedgerStore,
  type Refund,
  type RefundResult,
  type RequestRecord,
  type SetFloor,
  type SetFloorResult,
  type Settle,
  type SettleResult,
  type UsageRow,
  type Verify,
  type VerifyResult,
  type Void,
  type VoidResult,
} from '../../contract/ledger-store.ts';
import type {
  CreateKey,
  CreateKeyResult,
  EndUserStatus,
  FoundKey,
  KeyHashes,
  KeyRecord,
  KeyStatus,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../../contract/key-records.ts';
import { RequestIds } from '../../contract/request-ids.ts';
import { LeaseHorizon } from './lease-horizon.ts';
import { RedisAccountChanges } from './redis-account-changes.ts';
import { RedisApiKeys } from './redis-api-keys.ts';
import { createClient, type RedisClient } from './redis-client.ts';
import { RedisConnection } from './redis-connection.ts';
import { DueAccounts } from './redis-due.ts';
import { refuseUnlessAllowed } from './redis-permissions.ts';
import { prune } from './redis-pruning.ts';
import { SweepRounds, type Swept } from './redis-sweep.ts';
import type { Durability } from './redis-durability.ts';
import { RedisKeys, SHARDS } from './redis-keys.ts';
import { parseRedisUrl, withoutPassword } from './redis-url.ts';
import { ScriptRunner } from './script-runner.ts';
import { RedisFleetView } from './redis-fleet-view.ts';
import { RedisRequestLog } from './redis-request-log.ts';
import { RedisRouting } from './redis-routing.ts';
import { UsageRows } from './redis-usage.ts';
import { admit } from './lua/admit.ts';
import { balance } from './lua/balance.ts';
import { ReplyReader } from './lua/define-script.ts';
import { extend } from './lua/extend.ts';
import { freeze } from './lua/freeze.ts';
import { claim } from './lua/claim.ts';
import { announceGateway, liveGateways } from './lua/gateways.ts';
import { journal, settleDetails } from './lua/journal.ts';
import { readRequest } from './lua/read-request.ts';
import {
  endedFields,
  endUserTerm,
  idempotencyTerms,
  withoutBlanks,
  witnessTerms,
  settledCounts,
  voidedCounts,
} from './lua/row-fields.ts';
import { settle } from './lua/settle.ts';
import { snapshot } from './lua/snapshot.ts';
import { sweep } from './lua/sweep.ts';
import { compact } from './lua/compact.ts';
import { compacted } from './lua/compacted.ts';
import { verify } from './lua/verify.ts';
import { release } from './lua/void.ts';

export interface RedisStoreOptions {
  /**
   * A client, which is neither changed nor closed. Or a URL, for which a client is created
   * that `close` closes: `redis://USER:PASSWORD@HOST:PORT/DB`,
   * `redis+cluster://HOST:PORT,HOST:PORT`, `redis+sentinel://HOST,HOST/PRIMARY/DB`, with `rediss` for TLS
   * and `?prefix=` for the key prefix.
   */
  readonly client: RedisClient | string;
  /**
   * Prefix of every key, after the client's own `keyPrefix`. Without braces.
   *
   * @default ''
   */
  readonly keyPrefix?: string;
  /**
   * The store's clock, in ms.
   *
   * @default Redis's own, which all machines share, with detection of steps
   */
  readonly now?: () => number;
  /**
   * Monotonic clock, in ms, that detects steps of the store's clock.
   *
   * @default `performance.now`; none if `now` is given, which is then trusted as it is
   */
  readonly elapsed?: () => number;
  /**
   * How long a command waits for Redis, in ms. `snapshot` waits at least 30 seconds, on a connection of this store's own at
   * least 5.
   *
   * @default 2000
   */
  readonly timeoutMs?: number;
  /** Durability of an operator's changes: grants, adjustments, changes of keys, and freezes. */
  readonly durability?: Durability;
}

/**
 * A ledger in Redis 7.0 or later, or Valkey, that many machines share.
 *
 * An account is stored in one slot, and each command is one script there: the
 * transitions of account-engine.ts and lots.ts in Lua, exact to the nano-dollar.
 * The store has its own timeouts, independent of the client's options. A command
 * that timed out may still be applied, once: repeat it.
 */
export class RedisStore implements LedgerStore {
  readonly mayRollBack = true;
  readonly requestLog: RedisRequestLog;
  readonly routing: RedisRouting;
  readonly fleet: RedisFleetView;
  readonly name: string;
  readonly #connection: RedisConnection;
  readonly #runner: ScriptRunner;
  readonly #keys: RedisKeys;
  readonly #due: DueAccounts;
  readonly #changes: RedisAccountChanges;
  readonly #apiKeys: RedisApiKeys;
  readonly #usage: UsageRows;
  readonly #horizon: LeaseHorizon | undefined;
  readonly #timeoutMs: number;
  readonly #rounds: SweepRounds;

  /** @param from - a client, a URL, or all options */
  constructor(from: RedisClient | string | RedisStoreOptions) {
    // A client has a `client` too: the command of that name.
    const isOptions = typeof from === 'object' && !('createBuiltinCommand' in from);
    const options: RedisStoreOptions = isOptions ? from : { client: from };
    const { client, keyPrefix, now, timeoutMs = 2000, durability } = options;
    const elapsed = options.elapsed ?? (now ? undefined : () => performance.now());
    this.name = typeof client === 'string' ? withoutPassword(client) : 'of the given Redis client';
    if (typeof client === 'string') {
      const url = parseRedisUrl(client);
      this.#keys = new RedisKeys(keyPrefix ?? url.keyPrefix);
      this.#connection = new RedisConnection(() => createClient(url, timeoutMs));
    } else {
      this.#keys = new RedisKeys(keyPrefix ?? '', client.options.keyPrefix);
      this.#connection = new RedisConnection(client);
    }
    const terms = { now, timeoutMs, durability };
    const runner = new ScriptRunner({ connection: this.#connection, keys: this.#keys, ...terms });
    this.#runner = runner;
    this.#due = new DueAccounts(runner);
    this.#usage = new UsageRows(runner);
    this.#horizon = elapsed && new LeaseHorizon(elapsed);
    this.#timeoutMs = timeoutMs;
    this.#rounds = new SweepRounds({
      claimed: () => this.#due.claim(),
      all: () => this.accounts(),
      sweep: (account, atMost) => this.#sweep(account, atMost),
      lookAgain: (account, at) => this.#due.put(account, at),
    });
    this.#changes = new RedisAccountChanges(runner, this.#due, () => this.#leaseClock());
    this.#apiKeys = new RedisApiKeys(runner);
    this.requestLog = new RedisRequestLog(runner);
    this.routing = new RedisRouting(runner);
    this.fleet = new RedisFleetView(runner);
  }

  /**
   * Resolves once Redis is fit to store money (7.0 or later, `maxmemory-policy` noeviction), and accepts all commands of a
   * request, and each command of Redis that scripts call.
   *
   * Sends those of a request for an account that doesn't exist, so they change nothing: a server that is out of memory,
   * read-only or denies scripts refuses them like any others.
   *
   * @throws an Error that says what to change, or StoreUnavailableError
   */
  async ready(): Promise<void> {
    await this.#connection.ready(this.#timeoutMs);
    const requestId = new RequestIds().next();
    // An account that doesn't exist.
    const [account, key, leaseMs] = [`missing-${requestId}`, 'missing', 1];
    await refuseUnlessAllowed(this.#runner, account);
    await this.admit({ account, requestId, key, want: 0n, min: 0n, leaseMs, tokens: 0, notAfter: 0 });
    await this.extend({ account, requestId, hold: 0n, leaseMs, checkpoint: 0n });
    await this.void({ account, requestId });
    await this.balance(account);
  }

  onConnectionLost(listener: () => void): void {
    this.#connection.onLost(listener);
  }

  async admit(command: Admit): Promise<AdmitResult> {
    checkAdmit(command);
    const { account, key, requestId, want, min, leaseMs, tokens, notAfter, externalKey, restore } = command;
    const { keyVersion = '', accountVersion = '' } = command;
    const result = await this.#runner.run(admit, this.#keys.ofAccount(account), [
      this.#leaseClock(),
      requestId,
      key,
      String(want),
      String(min),
      String(leaseMs),
      String(tokens),
      String(Math.floor(Math.max(-1, Math.min(notAfter, Number.MAX_SAFE_INTEGER)))),
      externalKey ? '1' : '0',
      restore ? '1' : '0',
      ...idempotencyTerms(command),
      String(keyVersion),
      String(accountVersion),
      withoutBlanks(command.model ?? ''),
      endUserTerm(command),
      ...witnessTerms(command),
    ]);
    if (result.code === 'ok') this.#due.hint(account, result.now, result.now + leaseMs);
    this.#horizon?.sync(result.now);
    return result;
  }

  async extend(command: Extend): Promise<ExtendResult> {
    checkExtend(command);
    const { account, requestId, hold, leaseMs, checkpoint } = command;
    const result = await this.#runner.run(extend, this.#keys.ofAccount(account), [
      this.#runner.clock(),
      requestId,
      String(hold),
      String(leaseMs),
      String(checkpoint),
      ...witnessTerms(command),
    ]);
    this.#horizon?.sync(result.now);
    return result;
  }

  async settle(command: Settle): Promise<SettleResult> {
    checkSettle(command);
    const { account, requestId, amount, key, model, usage, force, dimensions } = command;
    return this.#runner.run(settle, this.#keys.ofAccount(account), [
      this.#runner.clock(),
      requestId,
      String(amount),
      key,
      String(usage.promptTokens + usage.completionTokens),
      force ? '1' : '0',
      settleDetails(model, usage, dimensions),
      withoutBlanks(model),
      settledCounts(command),
      ...idempotencyTerms(command),
      command.inParts ? '1' : '0',
      command.wasAdmitted ? '1' : '0',
      endUserTerm(command),
      command.watchesBudgets ? '1' : '0',
      ...witnessTerms(command),
    ]);
  }

  async void(command: Void): Promise<VoidResult> {
    checkVoid(command);
    const { account, requestId, key = '', model } = command;
    return this.#runner.run(release, this.#keys.ofAccount(account), [
      this.#runner.clock(),
      requestId,
      key,
      model === undefined ? '-' : withoutBlanks(model),
      endedFields(command),
      voidedCounts(command),
      ...witnessTerms(command),
    ]);
  }

  grant(command: Grant): Promise<GrantResult> {
    return this.#changes.grant(command);
  }

  adjust(command: Adjust): Promise<AdjustResult> {
    return this.#changes.adjust(command);
  }

  setFloor(command: SetFloor): Promise<SetFloorResult> {
    return this.#changes.setFloor(command);
  }

  allow(command: Allow): Promise<AllowResult> {
    return this.#changes.allow(command);
  }

  endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    return this.#changes.endAllowance(command);
  }

  refund(command: Refund): Promise<RefundResult> {
    return this.#changes.refund(command);
  }

  deleteAccount(account: string): Promise<DeleteAccountResult> {
    return this.#changes.deleteAccount(account);
  }

  deletedAccounts(): AsyncGenerator<DeletedAccount> {
    return this.#changes.deletedAccounts();
  }

  async verify(command: Verify): Promise<VerifyResult> {
    checkAccount(command.account);
    return this.#runner.run(verify, this.#keys.ofAccount(command.account), [
      this.#runner.clock(),
      ...witnessTerms(command),
    ]);
  }

  async sweep(budget: number): Promise<number> {
    checkSweep(budget);
    return this.#rounds.sweep(budget);
  }

  async request(account: string, requestId: string): Promise<RequestRecord | undefined> {
    checkRequest(account, requestId);
    return this.#runner.run(readRequest, this.#keys.ofAccount(account), [requestId]);
  }

  async snapshot(account: string): Promise<AccountState | undefined> {
    checkAccount(account);
    return (await this.#runner.runPatiently(snapshot, this.#keys.ofAccount(account), []))?.(account);
  }

  async balance(account: string): Promise<Balance | undefined> {
    checkAccount(account);
    return this.#runner.run(balance, this.#keys.ofAccount(account), [this.#runner.clock()]);
  }

  async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    checkJournal(account, afterSeq, limit);
    const most = Math.min(limit, Number.MAX_SAFE_INTEGER);
    return this.#runner.run(journal, this.#keys.ofAccount(account), [String(afterSeq), String(most)]);
  }

  async compact(account: string, seq: bigint): Promise<void> {
    checkCompact(account, seq);
    while ((await this.#runner.run(compact, this.#keys.ofAccount(account), [String(seq)])) === 'more');
  }

  async compacted(account: string): Promise<CompactedSums | undefined> {
    checkAccount(account);
    return this.#runner.run(compacted, this.#keys.ofAccount(account), []);
  }

  async usage(...query: Parameters<LedgerStore['usage']>): Promise<readonly UsageRow[]> {
    checkUsage(...query);
    return this.#usage.read(...query);
  }

  async usageBy(...query: Parameters<LedgerStore['usageBy']>): Promise<readonly DimensionRow[]> {
    checkUsageBy(...query);
    return this.#usage.readBy(...query);
  }

  async compactUsage(account: string, beforeDay: string): Promise<void> {
    checkCompactUsage(account, beforeDay);
    await this.#usage.compact(account, beforeDay);
  }

  async prune(account: string): Promise<number> {
    checkAccount(account);
    return prune(this.#runner, account);
  }

  async freeze(account: string, frozen: boolean): Promise<boolean> {
    checkAccount(account);
    const keys = this.#keys.ofAccount(account);
    return (await this.#runner.runDurably(freeze, keys, [frozen ? 'frozen' : 'open'])).reply;
  }

  async *accounts(): AsyncGenerator<string> {
    for (let shard = 0; shard < SHARDS; shard++) {
      // A scan may return a member twice.
      const seen = new Set<string>();
      let cursor = '0';
      do {
        const key = this.#keys.accounts(shard);
        const [next, members] = scanned(await this.#runner.send('sscan', [key, cursor, 'COUNT', '200']));
        cursor = next;
        for (const account of members) {
          if (!seen.has(account)) yield account;
          seen.add(account);
        }
      } while (cursor !== '0');
    }
  }

  createKey(command: CreateKey): Promise<CreateKeyResult> {
    return this.#apiKeys.createKey(command);
  }

  findKey(hash: string): Promise<FoundKey | undefined> {
    return this.#apiKeys.findKey(hash);
  }

  keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    return this.#apiKeys.keyState(account, key);
  }

  endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    return this.#apiKeys.endUserState(account, endUser, key);
  }

  keys(account: string): Promise<readonly KeyRecord[]> {
    return this.#apiKeys.keys(account);
  }

  keyHashes(account: string): Promise<ReadonlyMap<string, KeyHashes>> {
    return this.#apiKeys.keyHashes(account);
  }

  updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    return this.#apiKeys.updateKey(command);
  }

  rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    return this.#apiKeys.rotateKey(command);
  }

  revokeKey(account: string, key: string): Promise<boolean> {
    return this.#apiKeys.revokeKey(account, key);
  }

  async announceGateway(gateway: string, leaseMs: number): Promise<void> {
    const args = [this.#runner.clock(), gateway, String(leaseMs)] as const;
    await this.#runner.run(announceGateway, [this.#keys.gateways()], [...args]);
  }

  claim(name: string, leaseMs: number): Promise<number | undefined> {
    const args = [this.#runner.clock(), name, String(leaseMs)] as const;
    return this.#runner.run(claim, [this.#keys.claims()], [...args]);
  }

  liveGateways(): Promise<ReadonlyMap<string, number>> {
    return this.#runner.run(liveGateways, [this.#keys.gateways()], [this.#runner.clock()]);
  }

  /** Fails commands that wait for a connection, awaits those that were sent, and closes a client created for a URL. */
  async close(): Promise<void> {
    await this.#runner.close();
    await this.#connection.close();
  }

  /** The clock, with the lease horizon, for commands that end leases. */
  #leaseClock(): string {
    return `${this.#runner.clock()}<${this.#horizon?.time ?? ''}`;
  }

  async #sweep(account: string, atMost: number): Promise<Swept> {
    const keys = this.#keys.ofAccount(account);
    const swept = await this.#runner.run(sweep, keys, [this.#leaseClock(), String(atMost)]);
    if (swept.now !== undefined) this.#horizon?.sync(swept.now);
    return swept;
  }
}

/** A scan's next cursor and its members. */
function scanned(reply: unknown): [string, string[]] {
  const fields = new ReplyReader(reply);
  return [fields.text(), fields.nested().texts()];
}
