import { randomBytes } from 'node:crypto';

import { hostName } from '../../platform/host-name.ts';
import type { LedgerEvent } from '../contract/events.ts';
import { JournalCompaction } from './journal-compaction.ts';
import type { LedgerStore } from '../contract/ledger-store.ts';
import { ROUND_CLAIM } from '../contract/reserved-ids.ts';

export interface MaintenanceOptions {
  readonly store: LedgerStore;
  readonly emit: (event: LedgerEvent) => void;
  readonly onError: (error: Error) => void;
  /** Full days for which journal lines are kept; Infinity keeps all. */
  readonly journalRetentionDays: number;
  /** Full days for which usage rows are kept; Infinity keeps all. */
  readonly usageRetentionDays: number;
  /** @default Date.now */
  readonly now?: () => number;
  /** At least 0 and less than 1. @default Math.random */
  readonly random?: () => number;
}

/** How long a gateway counts as alive after its last announcement: a gateway that was killed, until this has passed. */
export const GATEWAY_LEASE_MS = 120_000;

/**
 * Background jobs of a store: announces that this gateway uses it, ends leases that ran out, expires due credits, deletes old
 * request records, compacts old journal lines and usage rows, and prunes end users and sessions.
 *
 * Every process runs them, at random times; the first one does the work that is due. The round over all accounts runs
 * once a day, in the process that claims it; of a store without claims, in each.
 */
export class Maintenance {
  readonly #store: LedgerStore;
  readonly #onError: (error: Error) => void;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #journals: JournalCompaction;
  #roundDue = 0;
  #hasRound = false;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;
  #isFailing = false;
  /** Host and process, so that an operator finds it; unique, because a process can have several routers. */
  readonly #gateway = `${hostName() ?? 'unknown host'} pid ${process.pid} ${randomBytes(4).toString('hex')}`;
  #announced: Promise<boolean> = Promise.resolve(false);

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

  /** Starts the jobs. Idempotent. Doesn't keep the process alive. */
  start(): void {
    if (this.#timer || this.#isClosed) return;
    this.#roundDue = this.#now() + HOUR_MS * this.#random();
    this.#announce();
    this.#schedule(EVERY_MS);
  }

  /** Stops, after the running job. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
    // Not to a store that doesn't answer: the lease and the claim end by themselves.
    if (!(await this.#announced)) return;
    await this.#store.announceGateway?.(this.#gateway, 0).catch(() => {});
    if (this.#hasRound) await this.#store.claim?.(ROUND_CLAIM, 0).catch(() => {});
  }

  /** In the background: nothing waits for it. */
  #announce(): void {
    const announced = this.#store.announceGateway?.(this.#gateway, GATEWAY_LEASE_MS);
    this.#announced = Promise.resolve(announced).then(
      () => true,
      () => false,
    );
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
    this.#announce();
    try {
      const swept = await this.#store.sweep(SWEPT_AT_ONCE);
      const isRoundDone = this.#isClosed || (await this.#visitJournals());
      hasMore = swept >= SWEPT_AT_ONCE || !isRoundDone;
      this.#isFailing = false;
    } catch (cause) {
      if (!this.#isFailing) this.#onError(new Error('Ledger maintenance failed', { cause }));
      this.#isFailing = true;
    }
    this.#schedule(hasMore ? BUSY_MS : EVERY_MS);
  }

  async #visitJournals(): Promise<boolean> {
    if (this.#now() < this.#roundDue) return true;
    this.#hasRound ||= await this.#claimsRound();
    if (!this.#hasRound) {
      this.#roundDue = this.#now() + HOUR_MS * (0.5 + this.#random());
      return true;
    }
    if (!(await this.#journals.step())) return false;
    this.#hasRound = false;
    this.#roundDue = this.#now() + 24 * HOUR_MS * (0.75 + this.#random() / 2);
    return true;
  }

  async #claimsRound(): Promise<boolean> {
    if (!this.#store.claim) return true;
    return (await this.#store.claim(ROUND_CLAIM, ROUND_CLAIM_MS)) !== undefined;
  }
}

/** By the store's clock. If a process is killed during its round, the next begins after this time. */
const ROUND_CLAIM_MS = 20 * 60 * 60 * 1000;
/** Average pause: each one is multiplied by 0.5 to 1.5, so that processes don't run in step. */
const EVERY_MS = 30_000;
const BUSY_MS = 1000;
const HOUR_MS = 60 * 60 * 1000;
const SWEPT_AT_ONCE = 1000;
