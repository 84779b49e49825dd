import type { LedgerEvent } from '../contract/events.ts';
import type { JournalLine, LedgerStore } from '../contract/ledger-store.ts';
import { DAY_MS, dayOf } from '../contract/usage.ts';

export interface JournalCompactionOptions {
  readonly store: LedgerStore;
  readonly emit: (event: LedgerEvent) => void;
  /** Full UTC days, before today, for which journal lines are kept; Infinity keeps all. */
  readonly journalRetentionDays: number;
  /** The same for usage rows. */
  readonly usageRetentionDays: number;
  readonly now: () => number;
}

/**
 * Visits all accounts, in bounded steps: compacts old journal lines and usage rows, prunes end users and sessions, and emits
 * `journal_long` for long journals.
 */
export class JournalCompaction {
  readonly #options: JournalCompactionOptions;
  #accounts: AsyncIterator<string> | undefined;
  /** The account in whose journal the last step stopped. */
  #unfinished: string | undefined;
  /** Account with a long journal -> number of lines in its last event. */
  readonly #long = new Map<string, number>();

  constructor(options: JournalCompactionOptions) {
    this.#options = options;
  }

  /** Continues the round, or starts one; returns whether it is complete. After an error the round starts again. */
  async step(): Promise<boolean> {
    const budget = { pages: MAX_PAGES };
    try {
      for (let visited = 0; visited < MAX_ACCOUNTS && budget.pages > 0; visited++) {
        const account = this.#unfinished ?? (await this.#next());
        if (account === undefined) return true;
        const isFinished = await this.#visit(account, budget);
        this.#unfinished = isFinished ? undefined : account;
      }
      return false;
    } catch (error) {
      this.#accounts = undefined;
      this.#unfinished = undefined;
      throw error;
    }
  }

  async #next(): Promise<string | undefined> {
    this.#accounts ??= this.#options.store.accounts()[Symbol.asyncIterator]();
    const next = await this.#accounts.next();
    if (next.done !== true) return next.value;
    this.#accounts = undefined;
    return undefined;
  }

  async #visit(account: string, budget: { pages: number }): Promise<boolean> {
    const { store, emit, journalRetentionDays, now } = this.#options;
    const keptFrom = (Math.floor(now() / DAY_MS) - journalRetentionDays) * DAY_MS;
    let [first] = await store.journal(account, 0n, 1);
    let compacted: JournalLine | undefined;
    while (first && first.at < keptFrom && budget.pages > 0) {
      budget.pages -= 1;
      const page = await store.journal(account, 0n, PAGE);
      const young = page.findIndex((line) => line.at >= keptFrom);
      const last = young === -1 ? page.at(-1) : page[young - 1];
      if (!last) break;
      await store.compact(account, last.seq);
      compacted = last;
      [first] = young === -1 ? await store.journal(account, 0n, 1) : [page[young]];
    }
    if (compacted) emit({ type: 'journal_compacted', account, through: String(compacted.seq) });
    if (first && first.at < keptFrom) return false;
    await this.#emitIfLong(account, first ? first.seq : 0n);
    await this.#compactUsage(account);
    await this.#options.store.prune(account);
    return true;
  }

  async #compactUsage(account: string): Promise<void> {
    const { store, usageRetentionDays, now } = this.#options;
    if (usageRetentionDays === Infinity) return;
    await store.compactUsage(account, dayOf(now() - usageRetentionDays * DAY_MS));
  }

  /** @param first - position of the oldest line; 0 without lines */
  async #emitIfLong(account: string, first: bigint): Promise<void> {
    const { store, emit } = this.#options;
    let lines = 0;
    for (let next = LONG_JOURNAL; ; next *= 2) {
      const last = first + BigInt(next) - 1n;
      const [line] = await store.journal(account, last - 1n, 1);
      if (!line) break;
      lines = next;
    }
    if (lines > (this.#long.get(account) ?? 0)) emit({ type: 'journal_long', account, lines });
    if (lines > 0) this.#long.set(account, lines);
    else this.#long.delete(account);
  }
}
const PAGE = 1000;
/** Maximum that one step reads, to bound the load on a store in use. */
const MAX_PAGES = 10;
const MAX_ACCOUNTS = 100;
/** Lines, about 9 MB in Redis. */
const LONG_JOURNAL = 50_000;
