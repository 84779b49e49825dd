import { type AccountState, type Admit, type LedgerStore, StoreUnavailable } from '../ledger.ts';
import type { Listener } from './listener.ts';
import type { Change, LiveHold, Posted, RedoWindow, WatchedAccount } from './redo-window.ts';
import { requestTime } from '../request-ids.ts';

export interface Repetition {
  readonly lost: boolean;
  /** It was lost, and is there again. */
  readonly reapplied: boolean;
  /** The reply is from before what was acknowledged. */
  readonly fell: boolean;
  readonly found: bigint;
  /** The code by which the store says that it can't be applied. */
  readonly refused?: string;
}

/** Looks for what was acknowledged, and makes it again. */
export class Repetitions {
  readonly #store: LedgerStore;
  readonly #window: RedoWindow;
  readonly #listener: Listener;
  /** What was repeated without an answer. */
  readonly #unanswered = new WeakSet<Change | LiveHold>();

  constructor(store: LedgerStore, window: RedoWindow, listener: Listener) {
    this.#store = store;
    this.#window = window;
    this.#listener = listener;
  }

  /**
   * Whether a change or hold is still there.
   *
   * By no command that takes a hold, which is refused by a store whose memory is full, nor, as far as that can be,
   * by one that makes an account, as it may arrive where one was lost.
   */
  async find(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const store = this.#store;
    switch (change.type) {
      case 'hold': {
        const renewal = { ...change.extend, hold: 0n };
        const { reply, fell } = await this.#listener.ask(account, () => store.extend(renewal));
        const shrank = reply.code === 'ok' && reply.hold < change.extend.hold;
        return { lost: reply.code === 'unknown' || shrank, reapplied: false, fell, found: reply.seq };
      }
      case 'grant':
      case 'adjust':
        // It may have been made long before it was acknowledged, so nobody knows where its line was.
        return change.posted
          ? this.#findLine(account, change.command.id, change.posted)
          : this.repeat(account, change);
      case 'settle':
      case 'void': {
        const { requestId } = change.command;
        if (change.type === 'settle' && change.posted)
          return this.#findLine(account, requestId, change.posted);
        const record = await this.#listener.hear(() => store.request(account.id, requestId));
        const isThere = record?.state === (change.type === 'settle' ? 'settled' : 'voided');
        return this.#found(
          account,
          !isThere,
          ({ lowWater }) => !record && requestTime(requestId) <= lowWater,
        );
      }
      case 'createKey': {
        // By its id: its hash may have been changed since.
        const { key, hash, version = 1 } = change.command;
        const state = await this.#listener.hear(() => store.keyState(account.id, key));
        // What leads from its hash to it may stand on another server, which lost it.
        const isFound = state?.version !== version || (await this.#listener.hear(() => store.findKey(hash)));
        if (!isFound) return this.repeat(account, change);
        return this.#found(account, state === undefined);
      }
      default:
        return this.repeat(account, change);
    }
  }

  /** Applies a change or hold again; says whether it had been lost. */
  async repeat(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    let repetition: Repetition;
    try {
      repetition = await this.#send(account, change);
    } catch (error) {
      if (error instanceof StoreUnavailable && error.applied === 'unknown') this.#unanswered.add(change);
      throw error;
    }
    // Where an answer was lost, the next one says of the change that it is there, whoever made it.
    const mayBeNew = this.#unanswered.delete(change);
    const { lost } = repetition;
    if (!lost && !mayBeNew) return repetition;
    // It may be what was acknowledged last now, and be lost again.
    if ('posted' in change && !lost) change.posted = undefined;
    if (change.type !== 'hold' && account.changes.has(change)) this.#window.record(account, change, lost);
    if (change.type === 'hold' && lost) this.#window.holdAgain(account, change);
    return repetition;
  }

  async #findLine(account: WatchedAccount, id: string, { seq, at }: Posted): Promise<Repetition> {
    const [line] = await this.#listener.hear(() => this.#store.journal(account.id, seq - 1n, 1));
    // Credits may have expired with it, behind it.
    const isThere = line?.seq === seq && line.at === at && (line.id === id || line.type === 'x');
    return this.#found(account, !isThere, ({ trimmed }) => trimmed.seq >= seq);
  }

  /** @param isForgotten - what is missing may as well have been folded, or be too old to be remembered */
  async #found(
    account: WatchedAccount,
    isMissing: boolean,
    isForgotten: (state: AccountState) => boolean = () => false,
  ): Promise<Repetition> {
    const nothing = { lost: false, reapplied: false, fell: false, found: account.seq };
    if (!isMissing) return nothing;
    const state = await this.#listener.hear(() => this.#store.snapshot(account.id));
    const lost = !state || !isForgotten(state);
    return { ...nothing, lost, found: state?.seq ?? 0n };
  }

  async #send(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const store = this.#store;
    const { id } = account;
    const nothing = { lost: false, reapplied: false, fell: false, found: account.seq };
    const makesAccounts = change.type === 'grant' || change.type === 'createKey';
    if (makesAccounts && !(await this.#listener.isThere(account))) return nothing;
    const ask = async (
      send: () => Promise<{ readonly code: string; readonly seq: bigint; readonly now: number }>,
      ...whenLost: readonly string[]
    ): Promise<Repetition> => {
      const { reply, fell } = await this.#listener.ask(account, send, 'posted' in change);
      const lost = whenLost.includes(reply.code);
      if (lost && 'posted' in change) change.posted = { seq: reply.seq, at: reply.now };
      const refused = 'posted' in change && !TAKEN.has(reply.code) && reply.code;
      return { lost, reapplied: lost, fell, found: reply.seq, ...(refused && { refused }) };
    };
    switch (change.type) {
      case 'grant':
        return ask(() => store.grant(change.command), 'ok');
      case 'adjust':
        return ask(() => store.adjust(change.command), 'ok');
      case 'settle': {
        const { command, admit } = change;
        const before = admit && (await this.#listener.ask(account, () => store.admit(again(admit))));
        const settled = await ask(() => store.settle({ ...command, force: true }), 'ok');
        return { ...settled, fell: settled.fell || before?.fell === true };
      }
      case 'void':
        return ask(() => store.void(change.command), 'ok', 'planted');
      case 'hold': {
        const { admit, extend } = change;
        const { reply, fell } = await this.#listener.ask(account, () =>
          store.admit({ ...again(admit), want: extend.hold, leaseMs: extend.leaseMs }),
        );
        if (reply.code !== 'ok' && reply.code !== 'exists') return { ...nothing, fell, found: reply.seq };
        const renewed = await this.#listener.ask(account, () => store.extend(extend));
        const lost = reply.code === 'ok' || reply.hold < extend.hold;
        return { lost, reapplied: lost, fell: fell || renewed.fell, found: renewed.reply.seq };
      }
      case 'createKey':
        await this.#listener.hear(() => store.createKey(change.command));
        break;
      case 'updateKey':
        await this.#listener.hear(() => store.updateKey(change.command));
        break;
      case 'rotateKey':
        await this.#listener.hear(() => store.rotateKey(change.command));
        break;
      case 'revokeKey':
        await this.#listener.hear(() => store.revokeKey(id, change.key));
        break;
      case 'freeze':
        await this.#listener.hear(() => store.freeze(id, true));
        break;
    }
    return nothing;
  }
}

/** Answers to what posts that leave nothing to be done; an account that is gone is told of by itself. */
const TAKEN: ReadonlySet<string> = new Set(['ok', 'duplicate', 'no_account']);

/** When it is lost, the journal is no shorter. */
export function leavesNoTrace({ type }: Change): boolean {
  return !['grant', 'adjust', 'settle'].includes(type);
}

/** The admit that took a hold, as one that takes it again. */
function again(admit: Admit): Admit {
  return { ...admit, min: 0n, notAfter: Infinity, reassert: true };
}
