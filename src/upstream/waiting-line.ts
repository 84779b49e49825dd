import { Timeout } from '../async/timeout.ts';
import { PerTarget, type Target } from '../catalog/model.ts';
import { UpstreamAtCapacityError, WaitingLineFullError } from '../errors/upstream-errors.ts';
import { ClientDisconnectedError } from '../http/exchange.ts';
import type { WaitSettings } from '../options/resolve-wait.ts';

/** A request that waits until its targets have room. */
export interface WaitingRequest {
  readonly account: string;
  /** Its model's ID, or the wildcard pattern that it came from: `most` counts by it. */
  readonly model: string;
  /** An estimate of prompt and answer: what its account is charged in turns. */
  readonly tokens: number;
  readonly targets: readonly Target[];
  readonly terms: WaitSettings;
  /** As `RequestRoom.reserve`: takes room, and returns 0, or the ms until there may be some. */
  readonly reserve: () => number;
  /** Calls the listener when the client leaves. */
  readonly onDisconnect: (listener: (() => void) | undefined) => void;
}

/** Room may come without an end of another request: a target recovers, an operator readmits one. */
const MAX_PAUSE_MS = 1000;

/**
 * Requests whose targets are full, in one line of the process.
 *
 * Accounts have turns, by deficit round robin: in each turn an account is served for as many tokens as the largest request that waits
 * has, and what is left counts for its next turn. The next request waits for room; requests behind it, of its account and of others, go
 * before it only if none of their targets is one of its own. So a large request is not starved by small ones, and nothing waits for a
 * target that it doesn't use.
 */
export class WaitingLine {
  readonly #onFreed: (listener: () => void) => () => void;
  /** The next turn first. */
  readonly #accounts: AccountLine[] = [];
  /** Tokens of a turn. */
  #turn = 1;
  #closedBy: Error | undefined;
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;

  /** @param onFreed - calls a listener whenever targets may have room; returns what ends that */
  constructor(onFreed: (listener: () => void) => () => void) {
    this.#onFreed = onFreed;
  }

  /** Number of requests that wait. */
  get length(): number {
    return this.#accounts.reduce((sum, { length }) => sum + length, 0);
  }

  /**
   * Waits until the request has room.
   *
   * @throws {UpstreamAtCapacityError} when its time is over
   * @throws {WaitingLineFullError} if the line of its model is full, and its account has its part of it
   * @throws {ClientDisconnectedError} when its client leaves
   */
  wait(request: WaitingRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closedBy) throw this.#closedBy;
      this.#makePlace(request);
      const entry = new Entry(request, resolve, reject, (error) => {
        this.#leave(entry, error);
      });
      this.#join(entry);
      this.#serve();
    });
  }

  /** All that wait are rejected, and all that come. */
  close(reason: Error): void {
    this.#closedBy = reason;
    for (const entry of this.#accounts.flatMap((line) => [...line.all()])) this.#leave(entry, reason);
  }

  /** Where the line of the model is full, the newest request leaves of the account that has the most. */
  #makePlace({ model, account, terms: { most } }: WaitingRequest): void {
    const counts = this.#accounts.map((line) => ({ line, count: line.countOf(model) }));
    const total = counts.reduce((sum, { count }) => sum + count, 0);
    if (total < most) return;
    const own = counts.find(({ line }) => line.account === account)?.count ?? 0;
    const largest = counts.reduce((one, other) => (other.count > one.count ? other : one));
    const last = largest.line.lastOf(model);
    if (!last || largest.count <= own + 1) throw new WaitingLineFullError(most);
    this.#leave(last, new WaitingLineFullError(most));
  }

  #join(entry: Entry): void {
    const { account, tokens } = entry.request;
    let line = this.#accounts.find((each) => each.account === account);
    if (!line) this.#accounts.push((line = new AccountLine(account)));
    line.add(entry);
    this.#turn = Math.max(this.#turn, tokens);
    this.#unsubscribe ??= this.#onFreed(() => {
      this.#serve();
    });
  }

  #leave(entry: Entry, error: Error): void {
    const line = this.#accounts.find(({ account }) => account === entry.request.account);
    if (!line?.delete(entry)) return;
    this.#dropIfEmpty(line);
    entry.reject(error);
    // Who waited for the same targets behind it may be next.
    this.#serve();
  }

  /** Serves those whose turn it is, as far as there is room. */
  #serve(): void {
    if (this.#closedBy) return;
    let pauseMs = MAX_PAUSE_MS;
    /** Those of requests that wait for room, by their turn. */
    const awaited = new PerTarget((target) => target);
    for (let n = 0; n < this.#accounts.length;) {
      const line = this.#accounts[n];
      if (!line) break;
      const step = this.#serveNext(line, awaited);
      if (step === 'turn is over') {
        this.#accounts.splice(n, 1);
        this.#accounts.push(line);
      } else if (step !== 'served') {
        pauseMs = Math.min(pauseMs, step.waitMs);
        n += 1;
      }
    }
    this.#serveIn(pauseMs);
  }

  /** Serves the account's first request that has room, and none of whose targets is awaited. */
  #serveNext(
    line: AccountLine,
    awaited: PerTarget<Target>,
  ): 'served' | 'turn is over' | { readonly waitMs: number } {
    let soonestMs = MAX_PAUSE_MS;
    for (const entry of line.heads()) {
      const { targets, tokens, reserve } = entry.request;
      if (targets.some((target) => awaited.find(target))) continue;
      if (!line.hasTurn(this.#turn, tokens)) return 'turn is over';
      const waitMs = reserve();
      if (waitMs === 0) {
        line.delete(entry);
        line.served(tokens);
        this.#dropIfEmpty(line);
        entry.resolve();
        return 'served';
      }
      entry.waitMs = waitMs;
      // A request that can't be served in its time keeps no other from room.
      const isHopeless = Number.isFinite(waitMs) && waitMs > entry.leftMs;
      if (!isHopeless) for (const target of targets) awaited.of(target);
      soonestMs = Math.min(soonestMs, waitMs);
    }
    return { waitMs: soonestMs };
  }

  #serveIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#accounts.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#serve();
    }, ms);
  }

  #dropIfEmpty(line: AccountLine): void {
    if (line.length > 0) return;
    this.#accounts.splice(this.#accounts.indexOf(line), 1);
    if (this.#accounts.length > 0) return;
    this.#turn = 1;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    clearTimeout(this.#timer);
  }
}

/** The requests of one account that wait, in their order for each model. */
class AccountLine {
  readonly account: string;
  readonly #byModel = new Map<string, Entry[]>();
  /** Tokens that it may still be served in its turn. */
  #left = 0;
  #isItsTurn = false;

  constructor(account: string) {
    this.account = account;
  }

  get length(): number {
    return [...this.#byModel.values()].reduce((sum, { length }) => sum + length, 0);
  }

  countOf(model: string): number {
    return this.#byModel.get(model)?.length ?? 0;
  }

  lastOf(model: string): Entry | undefined {
    return this.#byModel.get(model)?.at(-1);
  }

  /** The first one for each model, in their order: those behind it wait for the same targets. */
  heads(): readonly Entry[] {
    const heads = [...this.#byModel.values()].flatMap(([first]) => first ?? []);
    return heads.length < 2 ? heads : heads.sort((one, other) => one.number - other.number);
  }

  *all(): Iterable<Entry> {
    for (const entries of this.#byModel.values()) yield* entries;
  }

  add(entry: Entry): void {
    const { model } = entry.request;
    const ofModel = this.#byModel.get(model);
    if (ofModel) ofModel.push(entry);
    else this.#byModel.set(model, [entry]);
  }

  /** False if it isn't there. */
  delete(entry: Entry): boolean {
    const { model } = entry.request;
    const ofModel = this.#byModel.get(model);
    const index = ofModel?.indexOf(entry) ?? -1;
    if (!ofModel || index === -1) return false;
    ofModel.splice(index, 1);
    if (ofModel.length === 0) this.#byModel.delete(model);
    return true;
  }

  /** Whether its turn covers the tokens. Begins its turn where it is the next, and ends it where it doesn't. */
  hasTurn(turn: number, tokens: number): boolean {
    if (!this.#isItsTurn) this.#left += turn;
    this.#isItsTurn = this.#left >= tokens;
    return this.#isItsTurn;
  }

  served(tokens: number): void {
    this.#left -= tokens;
  }
}

/** One request in the line, with its clock. */
class Entry {
  static #made = 0;
  readonly request: WaitingRequest;
  /** Rises from one request to the next. */
  readonly number = (Entry.#made += 1);
  /** Until there may be room, as far as known. */
  waitMs = MAX_PAUSE_MS;
  readonly #until: number;
  readonly #settle: { readonly resolve: () => void; readonly reject: (error: Error) => void };
  readonly #timeout: Timeout;

  constructor(
    request: WaitingRequest,
    resolve: () => void,
    reject: (error: Error) => void,
    leave: (error: Error) => void,
  ) {
    this.request = request;
    this.#until = performance.now() + request.terms.upToMs;
    this.#settle = { resolve, reject };
    this.#timeout = new Timeout(request.terms.upToMs, () => {
      leave(new UpstreamAtCapacityError(this.waitMs));
    });
    request.onDisconnect(() => {
      leave(new ClientDisconnectedError());
    });
  }

  get leftMs(): number {
    return this.#until - performance.now();
  }

  resolve(): void {
    this.#end();
    this.#settle.resolve();
  }

  reject(error: Error): void {
    this.#end();
    this.#settle.reject(error);
  }

  #end(): void {
    this.#timeout.clear();
    this.request.onDisconnect(undefined);
  }
}
