import type {
  DeleteAccountResult,
  Refund,
  RefundResult,
  SetFloor,
  SetFloorResult,
} from '../contract/account-changes.ts';
import type { Allow, AllowResult, EndAllowance, EndAllowanceResult } from '../contract/allowances.ts';
import type {
  CreateKey,
  CreateKeyResult,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../contract/key-records.ts';
import type { Adjust, AdjustResult, Grant, GrantResult, LedgerStore } from '../contract/ledger-store.ts';
import { inTime } from './repair-waits.ts';
import { type Change, postedBy, type RedoLog, type Trace, type WatchedAccount } from './redo-log.ts';
import type { RollbackRepair } from './rollback-repair.ts';
import type { AccountCommands, CallResult, StoreCaller } from './store-caller.ts';

export interface OperatorChangesOptions {
  readonly store: LedgerStore;
  readonly window: RedoLog;
  readonly listener: StoreCaller;
  readonly redo: RollbackRepair;
  /** The store's time. */
  readonly clock: { now(): number };
}

/** Sends what operators change of accounts, and remembers it, where the store may lose it. */
export class OperatorChanges {
  readonly #store: LedgerStore;
  readonly #window: RedoLog;
  readonly #listener: StoreCaller;
  readonly #redo: RollbackRepair;
  readonly #clock: OperatorChangesOptions['clock'];

  constructor({ store, window, listener, redo, clock }: OperatorChangesOptions) {
    this.#store = store;
    this.#window = window;
    this.#listener = listener;
    this.#redo = redo;
    this.#clock = clock;
  }

  async grant(command: Grant): Promise<GrantResult> {
    const account = this.#window.watch(command.account);
    const heard = await this.#making(account, 'grant', command);
    this.#recordOnce(account, { type: 'grant', command, posted: postedBy(heard.reply) }, heard);
    return heard.reply;
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    const account = this.#window.watch(command.account);
    const { reply } = await this.#making(account, 'createKey', command, NO_WITNESSES);
    if (reply.code === 'ok') this.#record(account, { type: 'createKey', command });
    return reply;
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    const account = this.#window.watch(command.account);
    const heard = await this.#changing(account, 'adjust', command);
    this.#recordOnce(account, { type: 'adjust', command, posted: postedBy(heard.reply) }, heard);
    return heard.reply;
  }

  async refund(command: Refund): Promise<RefundResult> {
    const account = this.#window.watch(command.account);
    const heard = await this.#changing(account, 'refund', command);
    this.#recordOnce(account, { type: 'refund', command, posted: postedBy(heard.reply) }, heard);
    return heard.reply;
  }

  async setFloor(command: SetFloor): Promise<SetFloorResult> {
    const account = this.#window.watch(command.account);
    const { reply } = await this.#changing(account, 'setFloor', command, NO_WITNESSES);
    if (reply.code === 'ok' && reply.before !== command.floor) {
      this.#record(account, { type: 'setFloor', command: { ...command, from: reply.before } });
    }
    return reply;
  }

  async allow(command: Allow): Promise<AllowResult> {
    const account = this.#window.watch(command.account);
    const { reply } = await this.#making(account, 'allow', command);
    if (reply.code === 'ok') {
      this.#record(account, { type: 'allow', command: { ...command, version: reply.version } });
    }
    return reply;
  }

  async endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    const account = this.#window.watch(command.account);
    const { reply } = await this.#changing(account, 'endAllowance', command);
    if (reply.code === 'ok') {
      this.#record(account, { type: 'endAllowance', command: { ...command, version: reply.version } });
    }
    return reply;
  }

  async deleteAccount(id: string): Promise<DeleteAccountResult> {
    const account = this.#window.watch(id);
    // The sums are to have what a rollback may have taken.
    if (account.hasTraces) {
      await this.#listener.callAccount(account, 'verify', { account: id, witnesses: [] });
      await inTime(this.#redo.whole(account));
    }
    const result = await this.#listener.call(() => this.#store.deleteAccount(id));
    if (result.code !== 'running') this.#window.forget(account);
    return result;
  }

  updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    return this.#changeKey('updateKey', command, { type: 'updateKey', command });
  }

  rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    return this.#changeKey('rotateKey', command, { type: 'rotateKey', command });
  }

  async revokeKey(id: string, key: string): Promise<boolean> {
    const account = this.#window.watch(id);
    const { epoch: era } = account;
    const revoke = (): Promise<boolean> => this.#listener.call(() => this.#store.revokeKey(id, key));
    let known = await revoke();
    const made = known ? undefined : this.#window.madeKey(account, key);
    // An expired one may have been pruned.
    if (made && this.#clock.now() < (made.expiresAt ?? Infinity)) {
      // It is lost: made again later, it would work.
      await inTime(this.#redo.repair(account, account.seq, era));
      known = await revoke();
    }
    if (known) this.#record(account, { type: 'revokeKey', key });
    return known;
  }

  async freeze(id: string, frozen: boolean): Promise<boolean> {
    const account = this.#window.watch(id);
    const known = await this.#listener.call(() => this.#store.freeze(id, frozen));
    // A thaw that was lost is for its operator to see: repeated, it could undo what another froze since.
    if (!frozen) this.#window.thaw(account);
    else if (known) this.#record(account, { type: 'freeze' });
    return known;
  }

  /** Sends what makes an account, but none that was known and is lost, unless its operator asks for that. */
  async #making<Name extends 'grant' | 'createKey' | 'allow'>(
    account: WatchedAccount,
    name: Name,
    command: AccountCommands[Name]['command'],
    witnesses?: typeof NO_WITNESSES,
  ): Promise<CallResult<AccountCommands[Name]['reply']>> {
    const { isKnown } = account;
    const { mustExist = false, recreate = false } = command;
    const first = { ...command, mustExist: isKnown || mustExist };
    const heard = await this.#listener.callAccount(account, name, first, witnesses);
    if (!isKnown || heard.reply.code !== 'no_account') return heard;
    if (!heard.reply.deleted) {
      const lost = this.#listener.markMissing(account, heard.isCurrent);
      if (!recreate) throw lost;
    }
    return this.#listener.callAccount(account, name, { ...command, mustExist }, witnesses);
  }

  /** Sends what changes an account that must be there. */
  async #changing<Name extends 'adjust' | 'refund' | 'setFloor' | 'endAllowance'>(
    account: WatchedAccount,
    name: Name,
    command: AccountCommands[Name]['command'],
    witnesses?: typeof NO_WITNESSES,
  ): Promise<CallResult<AccountCommands[Name]['reply']>> {
    const heard = await this.#listener.callAccount(account, name, command, witnesses);
    if (heard.reply.code === 'no_account' && account.isKnown) {
      throw this.#listener.markMissing(account, heard.isCurrent);
    }
    return heard;
  }

  async #changeKey<Name extends 'updateKey' | 'rotateKey'>(
    name: Name,
    command: AccountCommands[Name]['command'],
    change: Change,
  ): Promise<AccountCommands[Name]['reply']> {
    const account = this.#window.watch(command.account);
    const { reply } = await this.#listener.callAccount(account, name, command, NO_WITNESSES);
    if (reply.code === 'ok') this.#record(account, change);
    return reply;
  }

  #record(account: WatchedAccount, change: Change): void {
    if (this.#store.mayRollBack === true) this.#redo.record(account, change);
  }

  /** What is repeated until it is durable is remembered as it was first. */
  #recordOnce(
    account: WatchedAccount,
    change: Extract<Change, { type: 'grant' | 'adjust' | 'refund' }>,
    { reply: { code }, witnesses }: CallResult<GrantResult | AdjustResult | RefundResult>,
  ): void {
    if (this.#store.mayRollBack !== true || (code !== 'ok' && code !== 'duplicate')) return;
    const isKnown = code === 'duplicate' && this.#window.knows(account, change);
    if (!isKnown) this.#redo.record(account, change, witnesses);
  }
}

/** Of changes that leave nothing that can be looked for. */
const NO_WITNESSES: { readonly traces: readonly Trace[] } = { traces: [] };
