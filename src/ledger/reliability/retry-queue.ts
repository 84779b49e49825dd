import { type Answer, isLater, rejection } from '../../async/answer.ts';
import { backoff } from '../../async/backoff.ts';
import { StoreUnavailableError } from '../contract/ledger-store.ts';

export interface RetryQueueOptions {
  readonly now: () => number;
  /** Called when the number of what waits passes 100, 200, 400 and so on. */
  readonly onGrowth: (waiting: number, oldestMs: number) => void;
  /** @default 5000 */
  readonly longestPauseMs?: number;
}

/** A command that is to be delivered. */
export interface Delivery<T> {
  /** Time after which it is not tried again. */
  readonly until?: number;
  /** Of the request that it is about. */
  readonly requestId?: string;
  /** Tries it once. */
  send(): Answer<T>;
  /** Called with why the first try failed, if it is to be repeated. */
  onWaiting?(error: Error): void;
}

/** A charge that waits for the store. */
export interface WaitingCharge {
  readonly account: string;
  readonly requestId: string;
  /** How long it has waited. */
  readonly waitingMs: number;
}

/** Pauses between two rounds of which nothing was answered. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;
/** Concurrent account queues: few while the store is unavailable, so that waiting calls don't keep it down. */
const SCOUTS = 4;
const MAX_QUEUES = 32;
/** Sent at once of one lane: as many round trips are saved. */
const MAX_PER_ACCOUNT = 16;
const GROWTH_FROM = 100;

/**
 * Commands that are repeated until the store has answered them, which their ids make safe.
 *
 * The first try is at once. What then waits, waits in the lane of its account, and
 * leaves it in the order in which it came.
 */
export class RetryQueue {
  readonly #options: RetryQueueOptions;
  readonly #lanes = new Map<string, AccountQueue>();
  #count = 0;
  #waiting = 0;
  #growthAt = GROWTH_FROM;
  #failures = 0;
  #pumping = false;
  #closed = false;
  #endPause: (() => void) | undefined;

  constructor(options: RetryQueueOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** What waits and is about a request, the oldest first. @param max - the most to return */
  list(max: number): WaitingCharge[] {
    const now = this.#options.now();
    const waiting = [...this.#lanes].flatMap(([account, { parcels }]) =>
      parcels.flatMap(({ requestId, since }) =>
        requestId === undefined ? [] : [{ account, requestId, waitingMs: Math.round(now - since) }],
      ),
    );
    return waiting.sort((one, other) => other.waitingMs - one.waitingMs).slice(0, max);
  }

  /**
   * The answer: at once where the store has it at once.
   *
   * @returns rejects with a StoreUnavailableError once it is closed, or `until` has passed
   */
  deliver<T>(account: string, delivery: Delivery<T>): Answer<T> {
    if (this.#closed) return Promise.reject(new StoreUnavailableError('no'));
    // Of before the call, which may deliver others.
    const number = (this.#count += 1);
    if (this.#lanes.has(account)) return this.#wait(account, delivery, number, this.#options.now());
    let first: Answer<T>;
    try {
      first = delivery.send();
    } catch (error) {
      first = rejection(error);
    }
    return isLater(first) ? this.#repeat(account, delivery, first, number) : first;
  }

  /** Awaits the first try, and repeats it if the store did not answer. */
  async #repeat<T>(account: string, delivery: Delivery<T>, first: Promise<T>, number: number): Promise<T> {
    const since = this.#options.now();
    const { until = Infinity } = delivery;
    try {
      return await first;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError) || this.#closed || this.#options.now() >= until)
        throw error;
      delivery.onWaiting?.(error);
    }
    return await this.#wait(account, delivery, number, since);
  }

  #wait<T>(account: string, delivery: Delivery<T>, number: number, since: number): Promise<T> {
    const { until = Infinity, requestId } = delivery;
    return new Promise((resolve, reject) => {
      const attempt = async (): Promise<void> => {
        resolve(await delivery.send());
      };
      this.#keep(account, { number, since, until, requestId, attempt, reject });
    });
  }

  /** The store answers again: what waits is tried now. */
  wake(): void {
    for (const lane of this.#lanes.values()) {
      if (lane.failedAwake) continue;
      lane.failures = 0;
      lane.restsUntil = 0;
      lane.awake = true;
    }
    this.#failures = 0;
    this.#endPause?.();
  }

  /** Gives up what waits: says how much that was. */
  close(): number {
    this.#closed = true;
    const given = this.#waiting;
    for (const lane of this.#lanes.values()) {
      for (const parcel of lane.parcels) parcel.reject(new StoreUnavailableError('unknown'));
    }
    this.#lanes.clear();
    this.#waiting = 0;
    this.#endPause?.();
    return given;
  }

  #keep(account: string, parcel: QueuedCall): void {
    let lane = this.#lanes.get(account);
    if (!lane) {
      lane = { parcels: [], failures: 0, restsUntil: 0, awake: false, failedAwake: false };
      this.#lanes.set(account, lane);
    }
    // First tries end in any order; it is the order of their beginning that counts.
    const after = lane.parcels.findLastIndex((each) => each.number < parcel.number);
    lane.parcels.splice(after + 1, 0, parcel);
    this.#waiting += 1;
    if (this.#waiting >= this.#growthAt) {
      this.#growthAt *= 2;
      this.#options.onGrowth(this.#waiting, this.#options.now() - this.#oldest());
    }
    if (!this.#pumping) void this.#pump();
  }

  #oldest(): number {
    let oldest = Infinity;
    for (const lane of this.#lanes.values()) oldest = Math.min(oldest, lane.parcels[0]?.since ?? Infinity);
    return oldest;
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    await this.#pause(this.#pauseAfter(0));
    while (this.#lanes.size > 0 && !this.#closed) {
      const lanes = this.#rested(this.#failures === 0 ? MAX_QUEUES : SCOUTS);
      if (lanes.length === 0) {
        await this.#pause(this.#shortestRest());
        continue;
      }
      const answered = await Promise.all(lanes.map(([account, lane]) => this.#advance(account, lane)));
      if (answered.includes(true)) {
        this.#failures = 0;
        continue;
      }
      await this.#pause(this.#pauseAfter(this.#failures));
      this.#failures += 1;
    }
    this.#growthAt = GROWTH_FROM;
    this.#failures = 0;
    this.#pumping = false;
  }

  /** Lanes whose turn it is: those that waited longest for one. */
  #rested(most: number): [string, AccountQueue][] {
    const now = this.#options.now();
    const rested: [string, AccountQueue][] = [];
    for (const entry of this.#lanes) {
      if (entry[1].restsUntil <= now) rested.push(entry);
      if (rested.length === most) break;
    }
    for (const [account, lane] of rested) {
      this.#lanes.delete(account);
      this.#lanes.set(account, lane);
    }
    return rested;
  }

  #shortestRest(): number {
    const until = Math.min(...Array.from(this.#lanes.values(), ({ restsUntil }) => restsUntil));
    return Math.max(1, until - this.#options.now());
  }

  /** Tries the first parcels of a lane; says whether any was answered. */
  async #advance(account: string, lane: AccountQueue): Promise<boolean> {
    // The first may be what can't be answered, though others could.
    const from = lane.failedAwake ? lane.failures % lane.parcels.length : 0;
    const parcels = lane.parcels.slice(from, from + (lane.failures === 0 ? MAX_PER_ACCOUNT : 1));
    const ended = await Promise.all(parcels.map((parcel) => this.#attempt(parcel)));
    if (this.#closed) return false;
    const gone = parcels.filter((_, index) => ended[index]);
    removeFrom(lane.parcels, parcels, new Set(gone));
    const answered = gone.length;
    this.#waiting -= answered;
    if (lane.parcels.length === 0) this.#lanes.delete(account);
    if (answered === parcels.length) {
      lane.failures = 0;
      lane.failedAwake = false;
      return true;
    }
    lane.failedAwake ||= lane.awake;
    lane.restsUntil = this.#options.now() + this.#pauseAfter(lane.failures);
    lane.failures += 1;
    return answered > 0;
  }

  /** Whether it need not be tried again. */
  async #attempt(parcel: QueuedCall): Promise<boolean> {
    if (this.#options.now() >= parcel.until) {
      parcel.reject(new StoreUnavailableError('unknown'));
      return true;
    }
    try {
      await parcel.attempt();
      return true;
    } catch (error) {
      if (error instanceof StoreUnavailableError) return false;
      parcel.reject(error);
      return true;
    }
  }

  #pauseAfter(failures: number): number {
    return backoff(failures, {
      firstMs: FIRST_PAUSE_MS,
      maxMs: this.#options.longestPauseMs ?? MAX_PAUSE_MS,
    });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#endPause?.(), ms);
      this.#endPause = () => {
        clearTimeout(timer);
        this.#endPause = undefined;
        resolve();
      };
    });
  }
}

/** Removes some of those that were tried. Looks at no others but those that came between them: a lane can be long. */
function removeFrom(lane: QueuedCall[], tried: readonly QueuedCall[], gone: ReadonlySet<QueuedCall>): void {
  const [first, last] = [tried.at(0), tried.at(-1)];
  if (!first || !last) return;
  const start = lane.indexOf(first);
  const end = lane.indexOf(last, start) + 1;
  lane.splice(start, end - start, ...lane.slice(start, end).filter((parcel) => !gone.has(parcel)));
}

/** Something that waits for an answer. */
interface QueuedCall {
  /** The order in which they came. */
  readonly number: number;
  readonly since: number;
  readonly until: number;
  readonly requestId: string | undefined;
  readonly attempt: () => Promise<void>;
  readonly reject: (error: unknown) => void;
}

interface AccountQueue {
  readonly parcels: QueuedCall[];
  failures: number;
  restsUntil: number;
  /** It was woken because the store answers others: if it fails nevertheless, it is not woken for that again. */
  awake: boolean;
  failedAwake: boolean;
}
