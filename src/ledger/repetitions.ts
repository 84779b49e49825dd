import { type Admit, type LedgerStore, StoreUnavailable } from './ledger.ts';
import type { Listener } from './listener.ts';
import type { Change, LiveHold, RedoWindow, WatchedAccount } from './redo-window.ts';

/** Lines that one command adds at most, those of credits that expire with it included: where its own is looked for. */
const LINES_A_COMMAND = 110n;

export interface Repetition {
  readonly lost: boolean;
  /** The reply is from before what was acknowledged. */
  readonly fell: boolean;
  readonly found: bigint;
  /** It was repeated before, and nobody knows what that came to. */
  readonly isUnsure?: boolean;
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
   * By no command that makes an account, as it may arrive where one was lost, nor by one that takes a hold, which is
   * refused by a store whose memory is full.
   */
  async find(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const store = this.#store;
    switch (change.type) {
      case 'hold': {
        const renewal = { ...change.extend, hold: 0n };
        const { reply, fell } = await this.#listener.ask(account, () => store.extend(renewal));
        const shrank = reply.code === 'ok' && reply.hold < change.extend.hold;
        return { lost: reply.code === 'unknown' || shrank, fell, found: reply.seq };
      }
      case 'grant':
      case 'adjust': {
        const after = change.seq > LINES_A_COMMAND ? change.seq - LINES_A_COMMAND : 0n;
        const lines = await this.#listener.hear(() =>
          store.journal(account.id, after, 2 * Number(LINES_A_COMMAND)),
        );
        const isThere = lines.some(({ id }) => id === change.command.id);
        const isShort = (lines.at(-1)?.seq ?? 0n) < change.seq;
        const isGone = isShort || (account.changes.get(change)?.wasMade === true && !isThere);
        return this.#found(account, isGone, change.seq);
      }
      case 'createKey': {
        const record = await this.#listener.hear(() => store.findKey(change.command.hash));
        return this.#found(account, record === undefined);
      }
      default:
        return this.repeat(account, change);
    }
  }

  /** Applies a change or hold again; says whether it had been lost. */
  async repeat(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const repetition = await this.#sendRemembering(account, change);
    if (!repetition.lost && !repetition.isUnsure) return repetition;
    // It is what was acknowledged last now, and may be lost again.
    if (change.type === 'grant' || change.type === 'adjust') change.seq = repetition.found;
    if (change.type === 'hold') this.#window.holdAgain(account, change);
    else if (account.changes.has(change)) this.#window.record(account, change, true);
    return repetition;
  }

  /** Where an answer was lost, the next one says of the change that it was there, whoever made it. */
  async #sendRemembering(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    try {
      const repetition = await this.#send(account, change);
      return this.#unanswered.delete(change) ? { ...repetition, isUnsure: true } : repetition;
    } catch (error) {
      if (error instanceof StoreUnavailable && error.applied === 'unknown') this.#unanswered.add(change);
      throw error;
    }
  }

  /** @param position - of a line that is missing: it may as well have been folded */
  async #found(account: WatchedAccount, isMissing: boolean, position?: bigint): Promise<Repetition> {
    if (!isMissing) return { lost: false, fell: false, found: account.seq };
    const state = await this.#listener.hear(() => this.#store.snapshot(account.id));
    const isFolded = position !== undefined && state !== undefined && state.trimmed.seq >= position;
    return { lost: !isFolded, fell: false, found: state?.seq ?? 0n };
  }

  async #send(account: WatchedAccount, change: Change | LiveHold): Promise<Repetition> {
    const store = this.#store;
    const { id } = account;
    const nothing = { lost: false, fell: false, found: account.seq };
    const makesAccounts = change.type === 'grant' || change.type === 'createKey';
    if (makesAccounts && !(await this.#listener.isThere(account))) return nothing;
    const ask = async (
      send: () => Promise<{ readonly code: string; readonly seq: bigint }>,
      ...whenLost: readonly string[]
    ): Promise<Repetition> => {
      const posts = change.type === 'grant' || change.type === 'adjust' || change.type === 'settle';
      const { reply, fell } = await this.#listener.ask(account, send, posts);
      return { lost: whenLost.includes(reply.code), fell, found: reply.seq };
    };
    switch (change.type) {
      case 'grant':
        return ask(() => store.grant(change.command), 'ok');
      case 'adjust':
        return ask(() => store.adjust(change.command), 'ok');
      case 'settle': {
        const { command, admit } = change;
        if (admit) await this.#listener.ask(account, () => store.admit(again(admit)));
        return ask(() => store.settle({ ...command, force: true }), 'ok');
      }
      case 'void':
        return ask(() => store.void(change.command), 'ok', 'planted');
      case 'hold': {
        const { admit, extend } = change;
        const { reply, fell } = await this.#listener.ask(account, () =>
          store.admit({ ...again(admit), want: extend.hold, leaseMs: extend.leaseMs }),
        );
        if (reply.code !== 'ok' && reply.code !== 'exists') return { lost: false, fell, found: reply.seq };
        await this.#listener.ask(account, () => store.extend(extend));
        return { lost: reply.code === 'ok' || reply.hold < extend.hold, fell, found: reply.seq };
      }
      case 'createKey':
        await this.#listener.hear(() => store.createKey(change.command));
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

/** When it is lost, the journal is no shorter. */
export function leavesNoTrace({ type }: Change): boolean {
  return type === 'void' || type === 'createKey' || type === 'revokeKey' || type === 'freeze';
}

/** The admit that took a hold, as one that takes it again. */
function again(admit: Admit): Admit {
  return { ...admit, min: 0n, notAfter: Infinity, reassert: true };
}
