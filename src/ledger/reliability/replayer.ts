import type { Admit, LedgerStore } from '../contract/ledger-store.ts';
import type { AccountCommands, StoreCaller } from './store-caller.ts';
import { type NanoDollars, smaller } from '../contract/money.ts';
import type { Change, LiveHold, RedoLog, WatchedAccount } from './redo-log.ts';

export interface Replay {
  /** It was lost, and is there again. */
  readonly reapplied: boolean;
  /** It can't be there again, and needn't: its request has ended otherwise. */
  readonly isGone?: boolean;
  /** The code by which the store says that it can't be applied. */
  readonly refused?: string;
  /** Of a charge: what was charged in all. */
  readonly charged?: NanoDollars;
}

/** Makes again what was acknowledged; what is still there is made once, by its id. */
export class Replayer {
  readonly #store: LedgerStore;
  readonly #window: RedoLog;
  readonly #listener: StoreCaller;

  constructor(store: LedgerStore, window: RedoLog, listener: StoreCaller) {
    this.#store = store;
    this.#window = window;
    this.#listener = listener;
  }

  /** Whether a key that was made is missing: by its id, as its hash may have been changed since. */
  async lacksKey(
    account: WatchedAccount,
    { command }: Extract<Change, { type: 'createKey' }>,
  ): Promise<boolean> {
    const { key, hash, version = 1 } = command;
    const state = await this.#listener.call(() => this.#store.keyState(account.id, key));
    if (!state) return true;
    // What leads from its hash to it may stand on another server, which lost it.
    if (state.version !== version || (await this.#listener.call(() => this.#store.findKey(hash))))
      return false;
    await this.#listener.call(() => this.#store.createKey({ ...command, mustExist: true }));
    return false;
  }

  /**
   * Applies a change or hold again.
   *
   * @throws {StoreUnavailableError} also where there is no account that it could be posted to
   */
  async repeat(account: WatchedAccount, change: Change | LiveHold): Promise<Replay> {
    const repetition = await this.#send(account, change);
    if (change.type !== 'hold' && account.changes.has(change) && repetition.reapplied) {
      this.#window.record(account, change);
    }
    return repetition;
  }

  async #send(account: WatchedAccount, change: Change | LiveHold): Promise<Replay> {
    const store = this.#store;
    const { id } = account;
    switch (change.type) {
      case 'grant':
        return this.#post(account, change, 'grant', { ...change.command, mustExist: true });
      case 'adjust':
        return this.#post(account, change, 'adjust', change.command);
      case 'refund':
        return this.#post(account, change, 'refund', change.command);
      case 'settle':
        return this.#post(account, change, 'settle', { ...change.command, force: true, inParts: true });
      case 'void': {
        const { reply } = await this.#listener.callAccount(account, 'void', change.command, PLAIN);
        const reapplied = reply.code === 'ok' || reply.code === 'planted';
        return { reapplied, isGone: !reapplied && reply.code !== 'duplicate' };
      }
      case 'hold':
        return this.#holdAgain(account, change);
      case 'setFloor':
        await this.#listener.call(() => store.setFloor(change.command));
        break;
      case 'allow':
        await this.#listener.call(() => store.allow({ ...change.command, mustExist: true }));
        break;
      case 'endAllowance':
        await this.#listener.call(() => store.endAllowance(change.command));
        break;
      case 'createKey':
        await this.#listener.call(() => store.createKey({ ...change.command, mustExist: true }));
        break;
      case 'updateKey':
        await this.#listener.call(() => store.updateKey(change.command));
        break;
      case 'rotateKey':
        await this.#listener.call(() => store.rotateKey(change.command));
        break;
      case 'revokeKey':
        await this.#listener.call(() => store.revokeKey(id, change.key));
        break;
      case 'freeze':
        await this.#listener.call(() => store.freeze(id, true));
        break;
    }
    return { reapplied: false };
  }

  async #post<Name extends 'grant' | 'adjust' | 'refund' | 'settle'>(
    account: WatchedAccount,
    change: Extract<Change, { posted: unknown }>,
    name: Name,
    command: AccountCommands[Name]['command'],
  ): Promise<Replay> {
    // Which line it has is known again once it is answered: another process may have posted it at another one.
    change.posted = undefined;
    const { reply, isCurrent } = await this.#listener.callAccount(account, name, command, PLAIN);
    const { code, seq, now } = reply;
    const charged = 'charged' in reply ? reply.charged : undefined;
    if (code === 'no_account') throw this.#listener.markMissing(account, isCurrent);
    if (code === 'ok') change.posted = { seq, at: now };
    return {
      reapplied: code === 'ok',
      ...(!TAKEN.has(code) && { refused: code }),
      ...(charged !== undefined && { charged }),
    };
  }

  async #holdAgain(account: WatchedAccount, hold: LiveHold): Promise<Replay> {
    const { admit, extend } = hold;
    const again: Admit = {
      ...admit,
      want: extend.hold,
      min: 0n,
      leaseMs: extend.leaseMs,
      notAfter: Infinity,
      restore: true,
    };
    const { reply } = await this.#listener.callAccount(account, 'admit', again, PLAIN);
    if (reply.code !== 'ok' && reply.code !== 'exists') return { reapplied: false, isGone: true };
    const renewed = await this.#listener.callAccount(account, 'extend', extend, PLAIN);
    const { code } = renewed.reply;
    // `unknown`: lost once more, since it was taken again.
    if (code !== 'ok' && code !== 'no_funds') return { reapplied: false, isGone: code === 'closed' };
    const reapplied = reply.code === 'ok' || reply.hold < extend.hold;
    if (reapplied) this.#window.holdAgain(account, hold, smaller(renewed.reply.hold, extend.hold));
    return { reapplied };
  }
}

/** A repetition has no witnesses, and is itself part of a repair. */
const PLAIN = { traces: [], isRepair: true } as const;

/** Answers to what posts that leave nothing to be done. */
const TAKEN: ReadonlySet<string> = new Set(['ok', 'duplicate']);
