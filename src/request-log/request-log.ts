import { type RequestLogStore, TRIM_STEP } from '../ledger/contract/request-log.ts';
import { asError } from '../platform/as-error.ts';
import type { Hooks, ResponseEnded, Settled } from '../observability/hooks.ts';
import { type LoggedRequest, rowOf } from './logged-request.ts';
import { type FoundRequests, findLogged, idAt, type RequestSearch, searchLog } from './search.ts';

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
/** Rows that are written at once: making their JSON takes less than a ms. */
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
/** Refused requests of an account that are logged in a minute: a flood of them would push out those of others. */
const MAX_REFUSED = 100;
const MINUTE_MS = 60_000;

/** A row to be made. */
interface Waiting {
  readonly ended: ResponseEnded;
  readonly settled?: Settled;
  readonly replaces: boolean;
}

interface Pending {
  readonly ended: ResponseEnded;
  readonly since: number;
  isWritten: boolean;
}

/**
 * Logs each request when its response is over and its charge is posted, in batches off the path of requests.
 *
 * A crash loses what waits: a second, or what an unavailable store hasn't taken.
 */
export class RequestLogWriter implements RequestLog {
  readonly #options: RequestLogOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #early = new Map<string, Settled>();
  readonly #refused = new Map<string, number>();
  #refusedMinute = 0;
  #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #trimmedAt = -Infinity;
  #writtenSinceTrim = 0;
  #lost = 0;

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

  async find(id: string): Promise<LoggedRequest | undefined> {
    await this.flush();
    return findLogged(this.#options.store, id);
  }

  async search(search: RequestSearch = {}): Promise<FoundRequests> {
    await this.flush();
    return searchLog(this.#options.store, search);
  }

  /** Deletes what is logged of an account. */
  async forget(account: string): Promise<void> {
    await this.flush();
    this.#refused.delete(account);
    await this.#options.store.forget(account);
  }

  /** Writes what waits. Never rejects: what can't be written waits on. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing;
    if (this.#waiting.length === 0) return;
    this.#writing = this.#write();
    await this.#writing;
  }

  async close(): Promise<void> {
    for (const pending of this.#pending.values()) this.#writePending(pending);
    await this.flush();
    clearTimeout(this.#timer);
  }

  #responded(ended: ResponseEnded): void {
    const { requestId, endpoint, account, admitted } = ended;
    if (account === undefined || (endpoint !== 'completions' && endpoint !== 'metered')) return;
    if (!admitted) {
      if (this.#maySayRefused(account)) this.#add({ ended, replaces: false });
      return;
    }
    const settled = this.#early.get(requestId);
    if (settled) {
      this.#early.delete(requestId);
      this.#add({ ended, settled, replaces: false });
      return;
    }
    const [oldest] = this.#pending.size < MAX_PENDING ? [] : this.#pending;
    if (oldest) {
      this.#writePending(oldest[1]);
      this.#pending.delete(oldest[0]);
    }
    this.#pending.set(requestId, { ended, since: performance.now(), isWritten: false });
    this.#schedule();
  }

  #settled(settled: Settled): void {
    const { requestId } = settled;
    const pending = this.#pending.get(requestId);
    if (pending) {
      this.#pending.delete(requestId);
      this.#add({ ended: pending.ended, settled, replaces: pending.isWritten });
      return;
    }
    const [oldest] = this.#early.size < MAX_EARLY ? [] : this.#early.keys();
    if (oldest !== undefined) this.#early.delete(oldest);
    this.#early.set(requestId, settled);
  }

  #maySayRefused(account: string): boolean {
    const minute = Math.floor(performance.now() / MINUTE_MS);
    if (minute !== this.#refusedMinute) {
      this.#refusedMinute = minute;
      this.#refused.clear();
    }
    const refused = (this.#refused.get(account) ?? 0) + 1;
    this.#refused.set(account, refused);
    return refused <= MAX_REFUSED;
  }

  #add(row: Waiting): void {
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
    await this.#trim();
    const waits = this.#waiting.length > 0 || [...this.#pending.values()].some(({ isWritten }) => !isWritten);
    if (waits) this.#schedule();
  }

  #writePending(pending: Pending): void {
    if (pending.isWritten) return;
    pending.isWritten = true;
    this.#add({ ended: pending.ended, replaces: false });
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.slice(0, BATCH);
        const rows = batch.map(({ ended, settled, replaces }) => rowOf(ended, settled, replaces));
        await this.#options.store.append(rows);
        const written = new Set(batch);
        this.#waiting = this.#waiting.filter((row) => !written.has(row));
        this.#writtenSinceTrim += batch.length;
      }
    } catch (error) {
      this.#options.onError(asError(error));
    } finally {
      this.#writing = undefined;
    }
    if (this.#lost > 0 && this.#waiting.length === 0) {
      this.#options.onError(
        new Error(`The request log lost ${this.#lost} requests: its store could not be written`),
      );
      this.#lost = 0;
    }
  }

  async #trim(): Promise<void> {
    const { store, days, max, now, onError } = this.#options;
    const isDue = performance.now() - this.#trimmedAt > TRIM_MS || this.#writtenSinceTrim > max / 100;
    if (!isDue) return;
    this.#trimmedAt = performance.now();
    this.#writtenSinceTrim = 0;
    try {
      const before = idAt(now() - days * DAY_MS);
      while ((await store.trim(before, max)) === TRIM_STEP);
    } catch (error) {
      onError(asError(error));
    }
  }
}
