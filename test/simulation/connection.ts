import {
  type AccountState,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Allow,
  type AllowResult,
  type Balance,
  type DeleteAccountResult,
  type DeletedAccount,
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
  StoreUnavailableError,
  type DimensionRow,
  type UsageRow,
  type Verify,
  type VerifyResult,
  type Void,
  type VoidResult,
} from '../../src/ledger/contract/ledger-store.ts';
import type {
  CreateKey,
  CreateKeyResult,
  EndUserStatus,
  FoundKey,
  KeyRecord,
  KeyStatus,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../../src/ledger/contract/key-records.ts';
import type { Random } from './random.ts';
import type { Command, Sent, StoreServer } from './store-server.ts';
import type { Actor, VirtualTime } from './virtual-time.ts';

/** Faults between a gateway and its store, as probabilities per command. */
export interface NetworkFaults {
  dropRequest: number;
  dropReply: number;
  duplicate: number;
  /** Arrives up to 10 s late, after its timeout. */
  delay: number;
  /** Is refused by a server that lacks replicas or memory. */
  refuse: number;
  latencyMs: number;
}

export interface ConnectionOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly server: StoreServer;
  /** Of the gateway. */
  readonly actor: Actor;
  readonly faults: NetworkFaults;
  /** Replication delay, for commands that wait for replicas; undefined: none waits. */
  readonly durableAfterMs: number | undefined;
  /** The server reports its identity. */
  readonly tellsIdentity: boolean;
  /** Called with every reply that has the account's journal position. */
  readonly onReply: (reply: StampedReply) => void;
}

export interface StampedReply {
  readonly name: Command;
  readonly account: string;
  /** The id of its request, grant or adjustment, or the key or account that it is about. */
  readonly about: string;
  readonly sentAt: number;
  readonly code: string;
  readonly seq: bigint;
  /** Of the server that answered. */
  readonly epoch: number;
}

const JUDGED_FOR_MS = 1000;
const ADMIT_TIMEOUT_MS = 250;
const TIMEOUT_MS = 2000;

/** A gateway's connection to its store, with the errors of RedisStore: not applied, or unknown. */
export class Connection implements LedgerStore {
  readonly mayRollBack = true;
  #onLost: (() => void) | undefined;
  /** No packet gets through. */
  isCut = false;
  readonly #options: ConnectionOptions;
  /** The server at the last check, and when that was. */
  #identity: number | undefined;
  #judgedAt = -Infinity;
  readonly #pending = new Set<(error: StoreUnavailableError) => void>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  onConnectionLost(listener: () => void): void {
    this.#onLost = listener;
  }

  /** The connection is lost: what was sent may have been applied. */
  lose(): void {
    this.#onLost?.();
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const reject of pending) reject(new StoreUnavailableError('unknown'));
  }

  admit(command: Admit): Promise<AdmitResult> {
    return this.#send('admit', command.account, command.requestId, async (store) => store.admit(command));
  }

  extend(command: Extend): Promise<ExtendResult> {
    return this.#send('extend', command.account, command.requestId, async (store) => store.extend(command));
  }

  settle(command: Settle): Promise<SettleResult> {
    return this.#send('settle', command.account, command.requestId, async (store) => store.settle(command));
  }

  void(command: Void): Promise<VoidResult> {
    return this.#send('void', command.account, command.requestId, async (store) => store.void(command));
  }

  grant(command: Grant): Promise<GrantResult> {
    return this.#send('grant', command.account, command.id, (store) => store.grant(command));
  }

  adjust(command: Adjust): Promise<AdjustResult> {
    return this.#send('adjust', command.account, command.id, (store) => store.adjust(command));
  }

  setFloor(command: SetFloor): Promise<SetFloorResult> {
    return this.#send('setFloor', command.account, '', (store) => store.setFloor(command));
  }

  allow(command: Allow): Promise<AllowResult> {
    return this.#send('allow', command.account, command.id, (store) => store.allow(command));
  }

  endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    return this.#send('endAllowance', command.account, command.id, (store) => store.endAllowance(command));
  }

  refund(command: Refund): Promise<RefundResult> {
    return this.#send('refund', command.account, command.requestId, (store) => store.refund(command));
  }

  deleteAccount(account: string): Promise<DeleteAccountResult> {
    return this.#send('deleteAccount', account, '', (store) => store.deleteAccount(account));
  }

  deletedAccounts(): AsyncIterable<DeletedAccount> {
    return this.#options.server.inside.deletedAccounts();
  }

  verify(command: Verify): Promise<VerifyResult> {
    return this.#send('verify', command.account, '', (store) => store.verify(command));
  }

  sweep(budget: number): Promise<number> {
    return this.#send('sweep', '', '', (store) => store.sweep(budget));
  }

  request(account: string, requestId: string): Promise<RequestRecord | undefined> {
    return this.#send('request', account, requestId, (store) => store.request(account, requestId));
  }

  snapshot(account: string): Promise<AccountState | undefined> {
    return this.#send('snapshot', account, '', (store) => store.snapshot(account));
  }

  balance(account: string): Promise<Balance | undefined> {
    return this.#send('balance', account, '', (store) => store.balance(account));
  }

  journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    return this.#send('journal', account, '', (store) => store.journal(account, afterSeq, limit));
  }

  compact(account: string, seq: bigint): Promise<void> {
    return this.#send('compact', account, '', (store) => store.compact(account, seq));
  }

  usage(...query: Parameters<LedgerStore['usage']>): Promise<readonly UsageRow[]> {
    return this.#send('usage', query[0], '', (store) => store.usage(...query));
  }

  usageBy(...query: Parameters<LedgerStore['usageBy']>): Promise<readonly DimensionRow[]> {
    return this.#send('usageBy', query[0], '', (store) => store.usageBy(...query));
  }

  compactUsage(account: string, beforeDay: string): Promise<void> {
    return this.#send('compactUsage', account, '', (store) => store.compactUsage(account, beforeDay));
  }

  prune(account: string): Promise<number> {
    return this.#send('prune', account, '', (store) => store.prune(account));
  }

  freeze(account: string, frozen: boolean): Promise<boolean> {
    return this.#send('freeze', account, account, (store) => store.freeze(account, frozen));
  }

  accounts(): AsyncIterable<string> {
    return this.#options.server.inside.accounts();
  }

  createKey(command: CreateKey): Promise<CreateKeyResult> {
    return this.#send('createKey', command.account, command.key, (store) => store.createKey(command));
  }

  findKey(hash: string): Promise<FoundKey | undefined> {
    return this.#send('findKey', '', hash, (store) => store.findKey(hash));
  }

  keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    return this.#send('keyState', account, key, (store) => store.keyState(account, key));
  }

  endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    return this.#send('endUserState', account, endUser, (store) => store.endUserState(account, endUser, key));
  }

  keys(account: string): Promise<readonly KeyRecord[]> {
    return this.#send('keys', account, '', (store) => store.keys(account));
  }

  updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    return this.#send('updateKey', command.account, command.key, (store) => store.updateKey(command));
  }

  rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    return this.#send('rotateKey', command.account, command.key, (store) => store.rotateKey(command));
  }

  revokeKey(account: string, key: string): Promise<boolean> {
    return this.#send('revokeKey', account, key, (store) => store.revokeKey(account, key));
  }

  async close(): Promise<void> {
    this.isCut = true;
    this.lose();
  }

  #send<T>(
    name: Command,
    account: string,
    about: string,
    run: (store: LedgerStore) => Promise<T>,
  ): Promise<T> {
    const { time, random, server, actor, faults } = this.#options;
    const sentAt = time.now;
    return new Promise<T>((resolve, reject) => {
      const timeoutMs = name === 'admit' ? ADMIT_TIMEOUT_MS : TIMEOUT_MS;
      if (this.isCut || !server.isUp) {
        // There is no connection, and none is made in time.
        time.after(actor, timeoutMs, () => reject(new StoreUnavailableError('no')));
        return;
      }
      const fail = (error: StoreUnavailableError): void => {
        this.#pending.delete(fail);
        timeout.cancelled = true;
        reject(error);
      };
      const timeout = time.after(actor, timeoutMs, () => fail(new StoreUnavailableError('unknown')));
      this.#pending.add(fail);
      if (random.chance(faults.refuse)) {
        time.after(actor, this.#latency(), () => {
          if (this.#pending.has(fail)) fail(new StoreUnavailableError('no'));
        });
        return;
      }
      const settle: Settled = (succeeded, outcome, epoch) => {
        if (!this.#pending.delete(fail)) return;
        timeout.cancelled = true;
        this.#judge();
        if (!succeeded) {
          reject(outcome);
          return;
        }
        if (isStamped(outcome)) {
          const { code, seq } = outcome;
          this.#options.onReply({ name, account, about, sentAt, code, seq, epoch });
        }
        resolve(outcome as T);
      };
      const copies = random.chance(faults.duplicate) ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        if (random.chance(faults.dropRequest)) continue;
        const late = random.chance(faults.delay) ? random.below(10_000) : 0;
        time.after(server.actor, this.#latency() + late, () =>
          this.#arrive({ name, account, about, sentAt, run }, settle),
        );
      }
    });
  }

  #arrive(command: Sent, settle: Settled): void {
    const { time, random, server, actor, faults } = this.#options;
    if (this.isCut || !server.isUp) return;
    const reply = (succeeded: boolean, outcome: unknown): void => {
      if (this.isCut || random.chance(faults.dropReply)) return;
      time.after(actor, this.#latency(), () => settle(succeeded, outcome, epoch));
    };
    const { name } = command;
    const epoch = server.epochFor(actor.name);
    const applied = server.apply({ ...command, from: actor.name });
    const { length } = server;
    applied.then(
      (outcome) => this.#onceDurable(name, length, outcome, (told) => reply(true, told)),
      (error: unknown) => reply(false, error),
    );
  }

  /** Checks once a second, while in use, whether the server is still the same. */
  #judge(): void {
    const { time, server, actor, tellsIdentity } = this.#options;
    if (!tellsIdentity || time.now - this.#judgedAt < JUDGED_FOR_MS) return;
    this.#judgedAt = time.now;
    const identity = server.identityFor(actor.name);
    if (this.#identity !== undefined && identity !== this.#identity) this.#onLost?.();
    this.#identity = identity;
  }

  /** Waits until a replica has the write, if requested, like a WAIT on a separate connection. */
  #onceDurable(name: Command, length: number, outcome: unknown, then: (outcome: unknown) => void): void {
    const { time, server, actor, durableAfterMs } = this.#options;
    if (durableAfterMs === undefined || !WAIT.has(name) || typeof outcome !== 'object') {
      then(outcome);
      return;
    }
    const epoch = server.epochFor(actor.name);
    time.after(server.actor, Math.min(durableAfterMs, DURABLE_TIMEOUT_MS), () => {
      // The waiting connection was lost with the server.
      if (!server.isUp || server.epochFor(actor.name) !== epoch) return;
      // A former primary's writes reach no replica.
      const isDurable = durableAfterMs <= DURABLE_TIMEOUT_MS && !server.isFormerFor(actor.name);
      if (isDurable) server.makeSafe(length);
      then({ ...outcome, durable: isDurable });
    });
  }

  #latency(): number {
    const { random, faults } = this.#options;
    return random.skewed(0.1, faults.latencyMs);
  }
}

/** Completes a command with an answer of this server. */
type Settled = (succeeded: boolean, outcome: unknown, epoch: number) => void;

const WAIT: ReadonlySet<Command> = new Set<Command>([
  'grant',
  'adjust',
  'createKey',
  'updateKey',
  'rotateKey',
]);
const DURABLE_TIMEOUT_MS = 1000;

/** Of a writing command. The reply to a read does not show when it was executed. */
function isStamped(reply: unknown): reply is { readonly code: string; readonly seq: bigint } {
  return typeof reply === 'object' && reply !== null && 'code' in reply && 'seq' in reply;
}
