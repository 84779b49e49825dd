import type { LedgerEvent } from '../contract/events.ts';
import { JournalCompaction } from './journal-compaction.ts';
import type { LedgerStore } from '../contract/ledger-store.ts';

export interface MaintenanceOptions {
  readonly store: LedgerStore;
  readonly emit: (event: LedgerEvent) => void;
  readonly onError: (error: Error) => void;
  /** Full days of which journal lines are kept; Infinity keeps them all. */
  readonly journalRetentionDays: number;
  /** Full days of which usage is kept; Infinity keeps it all. */
  readonly usageRetentionDays: number;
  /** @default Date.now */
  readonly now?: () => number;
  /** At least 0 and less than 1. @default Math.random */
  readonly random?: () => number;
}

/**
 * What a store needs though nobody asks for it: leases that nobody renews end, credits that are due expire,
 * old request ids are forgotten, old journal lines and rows of usage fold.
 *
 * Every process sees to it, each at moments of its own. What is due is done by whoever comes first. The round
 * over all journals is made once a day, and is short where another process has made it.
 */
export class Maintenance {
  readonly #store: LedgerStore;
  readonly #onError: (error: Error) => void;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #journals: JournalCompaction;
  #roundDue = 0;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;
  #isFailing = false;

  constructor(options: MaintenanceOptions) {
    const {
      store,
      emit,
      onError,
      journalRetentionDays,
      usageRetentionDays,
      now = Date.now,
      random = Math.random,
    } = options;
    this.#store = store;
    this.#onError = onError;
    this.#now = now;
    this.#random = random;
    this.#journals = new JournalCompaction({ store, emit, journalRetentionDays, usageRetentionDays, now });
  }

  /** Begins; called again, nothing happens. Keeps no process alive. */
  start(): void {
    if (this.#timer || this.#isClosed) return;
    this.#roundDue = this.#now() + HOUR_MS * this.#random();
    this.#schedule(EVERY_MS);
  }

  /** Ends, once what is under way is done. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #schedule(ms: number): void {
    if (this.#isClosed) return;
    const run = (): void => {
      this.#running = this.#run();
    };
    this.#timer = setTimeout(run, ms * (0.5 + this.#random())).unref();
  }

  async #run(): Promise<void> {
    let hasMore = false;
    try {
      const swept = await this.#store.sweep(SWEPT_AT_ONCE);
      const isRoundDone = this.#isClosed || (await this.#visitJournals());
      hasMore = swept >= SWEPT_AT_ONCE || !isRoundDone;
      this.#isFailing = false;
    } catch (cause) {
      if (!this.#isFailing) this.#onError(new Error('Housekeeping of the ledger failed', { cause }));
      this.#isFailing = true;
    }
    this.#schedule(hasMore ? BUSY_MS : EVERY_MS);
  }

  async #visitJournals(): Promise<boolean> {
    if (this.#now() < this.#roundDue) return true;
    if (!(await this.#journals.step())) return false;
    this.#roundDue = this.#now() + 24 * HOUR_MS * (0.75 + this.#random() / 2);
    return true;
  }
}

/** On average: a pause is anything from half of it to one and a half, so that processes don't keep step. */
const EVERY_MS = 30_000;
const BUSY_MS = 1000;
const HOUR_MS = 60 * 60 * 1000;
const SWEPT_AT_ONCE = 1000;
