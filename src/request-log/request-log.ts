import { setImmediate } from 'node:timers/promises';

import { PassingMap } from '../async/passing-map.ts';
import {
  LATE_ROWS_MS,
  type RequestLogRow,
  type RequestLogStore,
  TRIM_STEP,
} from '../ledger/contract/request-log.ts';
import type { Hooks, ResponseEnded, Settled } from '../observability/hooks.ts';
import { type LoggedRequest, rowOf } from './logged-request.ts';
import { RefusalQuota } from './refusal-quota.ts';
import { type FoundRequests, findLogged, idAt, NEWEST, type RequestSearch, searchLog } from './search.ts';

/** What requests were, where they went, and what they cost: a log for operators, not the books. */
export interface RequestLog {
  /** A request by its id, the `x-request-id` of its response; undefined if it isn't in the log, or not any more. */
  find(id: string): Promise<LoggedRequest | undefined>;
  /**
   * Requests of all processes that share the store, the newest first. Those of other processes may be a second late.
   *
   * @throws {TypeError} naming the invalid member
   */
  search(search?: RequestSearch): Promise<FoundRequests>;
  /** What this process has logged, and what it hasn't. */
  counts(): RequestLogCounts;
}

/** Numbers of requests, since the process started. */
export interface RequestLogCounts {
  readonly written: number;
  /** Not written yet: a second's, those whose charge isn't posted, or those that an unavailable store didn't take. */
  readonly waiting: number;
  /** Refusals that were not logged: beyond 100 a minute of an account. */
  readonly refusalsLeftOut: number;
  /** Lost because the store was unavailable for too long. */
  readonly lost: number;
}

export interface RequestLogOptions {
  readonly store: RequestLogStore;
  /** Requests are kept this long; with 0 none is logged. */
  readonly days: number;
  /** Most requests that are kept. */
  readonly max: number;
  readonly now: () => number;
  readonly onError: (error: Error) => void;
}

const DAY_MS = 86_400_000;
const FLUSH_MS = 1000;
/** Rows of one write. */
const BATCH = 100;
/** Rows that wait while the store can't be written; beyond them the oldest are lost. */
const MAX_WAITING = 10_000;
/** Requests whose charge isn't posted yet. */
const MAX_PENDING = 10_000;
/** Charges that are posted before their response is over; those of holds never have one. */
const MAX_EARLY = 1000;
/** For a charge that takes longer, the request is logged without it first. */
const PENDING_MS = 2000;
const TRIM_MS = 60_000;

interface Pending {
  readonly ended: ResponseEnded;
  readonly since: number;
  isWritten: boolean;
}

/**
 * Logs each request when its response is over and its charge is posted: its row is made at once, and written in a batch.
 *
 * A crash loses what waits: a second, or what an unavailable store hasn't taken.
 */
export class RequestLogWriter implements RequestLog {
  readonly #options: RequestLogOptions;
  readonly #pending = new PassingMap<Pending>();
  readonly #early = new PassingMap<Settled>();
  readonly #refusals = new RefusalQuota();
  /** Made at once: events that wait would be in the old generation, and bring a full collection nearer. */
  #waiting: RequestLogRow[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #trimming: Promise<void> | undefined;
  #trimTimer: NodeJS.Timeout | undefined;
  /** Deleted accounts whose late rows are forgotten by a timer, or at the end. */
  readonly #forgetting = new Map<NodeJS.Timeout, () => Promise<void>>();
  /** The first write trims. */
  #writtenSinceTrim = Infinity;
  /** The failure was reported: the next is, once the store has taken something. */
  #isFailing = false;
  #written = 0;
  #lost = 0;
  #lostReported = 0;

  constructor(options: RequestLogOptions) {
    this.#options = options;
  }

  /** Undefined if nothing is logged: then requests need no trace. */
  get hooks(): Hooks | undefined {
    if (this.#options.days === 0) return undefined;
    return {
      onResponse: (ended) => {
        this.#responded(ended);
      },
      onSettled: (settled) => {
        this.#settled(settled);
      },
      keepsDefaultLog: true,
    };
  }

  /** Deletes what is too old, each minute, also while there are no requests. Doesn't keep the process alive. */
  start(): void {
    this.#trimTimer ??= setInterval(() => {
      void this.#trim();
    }, TRIM_MS).unref();
  }

  async find(id: string): Promise<LoggedRequest | undefined> {
    await this.flush();
    return this.findWritten(id);
  }

  /** As `find`, for clients: it writes nothing. */
  findWritten(id: string): Promise<LoggedRequest | undefined> {
    return findLogged(this.#options.store, id);
  }

  async search(search: RequestSearch = {}): Promise<FoundRequests> {
    await this.flush();
    return searchLog(this.#options.store, search);
  }

  counts(): RequestLogCounts {
    const unwritten = [...this.#pending.values()].filter(({ isWritten }) => !isWritten);
    return {
      written: this.#written,
      waiting: this.#waiting.length + unwritten.length,
      refusalsLeftOut: this.#refusals.leftOut,
      lost: this.#lost,
    };
  }

  /** Deletes what is logged of an account, and once more, in a while, what other processes had not written yet. */
  async forget(account: string): Promise<void> {
    while (this.#writing) await this.#writing;
    this.#waiting = this.#waiting.filter((row) => row.account !== account);
    for (const [id, { ended }] of this.#pending.entries())
      if (ended.account === account) this.#pending.delete(id);
    await this.#options.store.forget(account);
    const before = idAt(this.#options.now());
    const timer = setTimeout(() => void again(), LATE_ROWS_MS).unref();
    const again = async (): Promise<void> => {
      clearTimeout(timer);
      this.#forgetting.delete(timer);
      await this.#options.store.forget(account, before).catch((error: unknown) => {
        this.#report(`The log of requests may still have rows of the deleted account ${account}`, error);
      });
    };
    this.#forgetting.set(timer, again);
  }

  /** Writes what waits. Never rejects: what can't be written waits on. */
  async flush(): Promise<void> {
    await this.#writing;
    if (this.#waiting.length === 0) return;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
    await this.#writing;
  }

  /** Writes what waits. Call it when every charge is posted, or will not be. */
  async close(): Promise<void> {
    clearInterval(this.#trimTimer);
    for (const pending of this.#pending.values()) this.#writePending(pending);
    await this.flush();
    clearTimeout(this.#timer);
    for (const again of this.#forgetting.values()) await again();
    await this.#trimming;
    this.#reportLost();
  }

  #responded(ended: ResponseEnded): void {
    const { requestId, endpoint, account, admitted, status } = ended;
    // A key that was revoked, or whose account was deleted, may still be known by its hash.
    if (status === 401 || account === undefined || (endpoint !== 'completions' && endpoint !== 'metered'))
      return;
    if (!admitted) {
      if (this.#refusals.allows(account)) this.#add(rowOf(ended, undefined, false));
      return;
    }
    const settled = this.#early.get(requestId);
    if (settled) {
      this.#early.delete(requestId);
      this.#add(rowOf(ended, settled, false));
      return;
    }
    if (this.#pending.size === MAX_PENDING) this.#writeOldestPending();
    this.#pending.set(requestId, { ended, since: performance.now(), isWritten: false });
    this.#schedule();
  }

  #settled(settled: Settled): void {
    const { requestId } = settled;
    const pending = this.#pending.get(requestId);
    if (pending) {
      this.#pending.delete(requestId);
      this.#add(rowOf(pending.ended, settled, pending.isWritten));
      return;
    }
    if (this.#early.size === MAX_EARLY) {
      const [oldest] = this.#early.values();
      if (oldest) this.#early.delete(oldest.requestId);
    }
    this.#early.set(requestId, settled);
  }

  #add(row: RequestLogRow): void {
    this.#waiting.push(row);
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift();
      this.#lost += 1;
    }
    if (this.#waiting.length === BATCH) void this.flush();
    this.#schedule();
  }

  /** A process that is idle sets no timer. */
  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#tick();
    }, FLUSH_MS).unref();
  }

  async #tick(): Promise<void> {
    const late = performance.now() - PENDING_MS;
    for (const pending of this.#pending.values()) {
      if (pending.since > late) break;
      this.#writePending(pending);
    }
    await this.flush();
    const waits = this.#waiting.length > 0 || [...this.#pending.values()].some(({ isWritten }) => !isWritten);
    if (waits) this.#schedule();
  }

  #writeOldestPending(): void {
    const [oldest] = this.#pending.values();
    if (!oldest) return;
    this.#writePending(oldest);
    this.#pending.delete(oldest.ended.requestId);
  }

  #writePending(pending: Pending): void {
    if (pending.isWritten) return;
    pending.isWritten = true;
    this.#add(rowOf(pending.ended, undefined, false));
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.slice(0, BATCH);
        await this.#options.store.append(batch);
        const written = new Set(batch);
        this.#waiting = this.#waiting.filter((row) => !written.has(row));
        this.#isFailing = false;
        this.#written += batch.length;
        this.#writtenSinceTrim += batch.length;
      }
      this.#reportLost();
    } catch (error) {
      this.#report('The log of requests could not be written', error);
    }
    if (this.#writtenSinceTrim > this.#options.max / 100) void this.#trim();
  }

  #reportLost(): void {
    const lost = this.#lost - this.#lostReported;
    this.#lostReported = this.#lost;
    if (lost === 0) return;
    this.#options.onError(new Error(`The log of requests lost ${lost} rows: its store was unavailable`));
  }

  #report(message: string, cause: unknown): void {
    if (!this.#isFailing) this.#options.onError(new Error(message, { cause }));
    this.#isFailing = true;
  }

  /** One at a time. Never rejects. */
  #trim(): Promise<void> {
    this.#writtenSinceTrim = 0;
    this.#trimming ??= this.#trimAll().finally(() => {
      this.#trimming = undefined;
    });
    return this.#trimming;
  }

  async #trimAll(): Promise<void> {
    const { store, days, max, now } = this.#options;
    try {
      const before = days === 0 ? NEWEST : idAt(now() - days * DAY_MS);
      while ((await store.trim(before, max)) === TRIM_STEP) await setImmediate();
      // Without a log, there is nothing more to delete.
      if (days === 0) clearInterval(this.#trimTimer);
    } catch (error) {
      this.#report('The log of requests could not be trimmed', error);
    }
  }
}
