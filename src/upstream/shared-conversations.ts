import type { TurnReport, TurnState } from '../ledger/contract/fleet-view.ts';
import { type ConversationMemory, keyOf, LocalConversations, type ServedBy } from './conversations.ts';

/** Turns that wait to be told, of all accounts and of one: what comes beyond them is known to this process alone. */
const MAX_UNTOLD = 1024;
const MAX_UNTOLD_OF_ACCOUNT = 256;

interface Untold {
  readonly account: string;
  readonly turn: number;
  readonly servedBy: ServedBy;
  /** In ms since the epoch. */
  readonly until: number;
}

/** Where conversations were served by the processes of a fleet: a copy in this one, which answers at once. */
export class SharedConversations implements ConversationMemory {
  readonly #local: LocalConversations;
  readonly #now: () => number;
  #untold = new UntoldTurns();
  /** Not answered yet. */
  #reported = new UntoldTurns();
  /** The number of the last state. */
  #heard = 0;

  /** @param now - in ms since the epoch */
  constructor(now: () => number = () => Date.now()) {
    this.#local = new LocalConversations(now);
    this.#now = now;
  }

  find(account: string, turns: readonly number[]): ServedBy | undefined {
    return this.#local.find(account, turns);
  }

  keep(account: string, turn: number, servedBy: ServedBy, ttlMs: number): void {
    this.#local.keep(account, turn, servedBy, ttlMs);
    this.#untold.add({ account, turn, servedBy, until: this.#now() + ttlMs });
  }

  /** Whether there is something to tell. */
  get isUrgent(): boolean {
    return this.#untold.size > 0;
  }

  /** What this process served since its last report, and from where on it wants to hear of others. */
  report(): Omit<TurnReport, 'member'> {
    const reported = this.#untold;
    this.#reported = reported;
    this.#untold = new UntoldTurns();
    const now = this.#now();
    const turns = [...reported.values()].map(
      ({ account, turn, servedBy: { provider, model, key }, until }) => {
        return { account, turn, provider, model, key, forMs: Math.max(0, until - now) };
      },
    );
    return { since: this.#heard, turns };
  }

  /** Where other processes served turns, all before what was reported. */
  hear({ number, hasMore, turns }: TurnState): void {
    for (const { account, turn, provider, model, key, forMs } of turns) {
      // What this process did since then is newer.
      if (this.#untold.has(account, turn) || this.#reported.has(account, turn)) continue;
      this.#local.keep(account, turn, { provider, model, key }, forMs);
    }
    this.#heard = number;
    if (hasMore) this.unheard();
    else this.#reported = new UntoldTurns();
  }

  /** The report was not taken: the next one has it again. */
  unheard(): void {
    const newer = this.#untold;
    this.#untold = this.#reported;
    this.#reported = new UntoldTurns();
    for (const turn of newer.values()) this.#untold.add(turn);
  }
}

/** The newest word on each turn, of as many as there is room for. */
class UntoldTurns {
  readonly #turns = new Map<string, Untold>();
  readonly #perAccount = new Map<string, number>();

  get size(): number {
    return this.#turns.size;
  }

  values(): Iterable<Untold> {
    return this.#turns.values();
  }

  has(account: string, turn: number): boolean {
    return this.#turns.has(keyOf(account, turn));
  }

  add(turn: Untold): void {
    const key = keyOf(turn.account, turn.turn);
    if (!this.#turns.has(key)) {
      const ofAccount = this.#perAccount.get(turn.account) ?? 0;
      if (this.#turns.size >= MAX_UNTOLD || ofAccount >= MAX_UNTOLD_OF_ACCOUNT) return;
      this.#perAccount.set(turn.account, ofAccount + 1);
    }
    this.#turns.set(key, turn);
  }
}
