import { Timeout } from '../async/timeout.ts';
import { PerTarget, type Target } from '../catalog/model.ts';
import { UpstreamAtCapacityError, WaitingLineFullError } from '../errors/upstream-errors.ts';
import { ClientDisconnectedError, type DisconnectListener } from '../http/exchange.ts';
import { asError } from '../platform/as-error.ts';
import type { WaitSettings } from '../options/resolve-wait.ts';

/** Some targets, whichever models they belong to. */
export interface Targets {
  has(target: Target): boolean;
}

/** A request that waits until its targets have room. */
export interface WaitingRequest {
  readonly account: string;
  /** Its model's ID, or the wildcard pattern that it came from: `most` counts by it. */
  readonly model: string;
  /** An estimate of prompt and answer: what its account is charged in turns. */
  readonly tokens: number;
  readonly targets: readonly Target[];
  readonly terms: WaitSettings;
  /**
   * As `RequestRoom.reserve`: takes room, and returns 0, or the ms until there may be some; the request leaves if it throws.
   *
   * @param awaited - targets to leave to others
   */
  readonly reserve: (awaited: Targets) => number;
  /** Calls the listener when the client leaves. */
  readonly onDisconnect: (listener: DisconnectListener | undefined) => void;
}

/** Room may come without an end of another request: a target recovers, an operator readmits one. */
const MAX_PAUSE_MS = 1000;

/**
 * Requests whose targets are full, in one line of the process.
 *
 * Accounts have turns, by deficit round robin: in each round an account is served for as many tokens as the largest request that waits has,
 * and what is left counts for its next turn. The next request waits for room; requests behind it go before
 * it only where it doesn't want to go. Requests of its account that share no target with it have a line and turns of their own. So a large
 * request is not starved by small ones, and nothing waits for a target that it doesn't use.
 */
export class WaitingLine {
  readonly #onFreed: (listener: () => void) => () => void;
  /** The next turn first. */
  readonly #lines: AccountLine[] = [];
  /** The targets of all that wait. */
  readonly #awaited: Targets = { has: (target) => this.#lines.some((line) => line.awaits(target)) };
  #round: Round | undefined;
  #closedBy: Error | undefined;
  #timer: NodeJS.Timeout | undefined;
  #unsubscribe: (() => void) | undefined;

  /** @param onFreed - calls a listener whenever targets may have room; returns what ends that */
  constructor(onFreed: (listener: () => void) => () => void) {
    this.#onFreed = onFreed;
  }

  /** Number of requests that wait. */
  get length(): number {
    return this.#lines.reduce((sum, { waiting }) => sum + waiting.length, 0);
  }

  /** Number of those of one model, named as in `WaitingRequest`. */
  lengthOf(model: string): number {
    return this.#lines.reduce((sum, line) => sum + line.countOf(model), 0);
  }

  /**
   * Waits until the request has room: not at all if a target that no other request waits for has some.
   *
   * @throws {UpstreamAtCapacityError} when its time is over
   * @throws {WaitingLineFullError} if the line of its model is full, and its account has its part of it
   * @throws {ClientDisconnectedError} when its client leaves
   * @throws as `RequestRoom.reserve`
   */
  wait(request: WaitingRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closedBy) throw this.#closedBy;
      if (request.reserve(this.#awaited) === 0) {
        resolve();
        return;
      }
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
    for (const entry of this.#lines.flatMap((line) => line.waiting)) this.#leave(entry, reason);
  }

  /** Where the line of the model is full, the newest request leaves of the account that has the most. */
  #makePlace({ model, account, terms: { most } }: WaitingRequest): void {
    const counts = new Map([[account, 0]]);
    for (const line of this.#lines) {
      counts.set(line.account, (counts.get(line.account) ?? 0) + line.countOf(model));
    }
    if (this.lengthOf(model) < most) return;
    const [largest, count] = [...counts].reduce((one, other) => (other[1] > one[1] ? other : one));
    const last = this.#lines
      .findLast((line) => line.account === largest && line.countOf(model) > 0)
      ?.waiting.findLast((entry) => entry.request.model === model);
    if (!last || count <= (counts.get(account) ?? 0) + 1) throw new WaitingLineFullError(most);
    this.#leave(last, new WaitingLineFullError(most));
  }

  #join(entry: Entry): void {
    const { account, tokens, targets } = entry.request;
    let line = this.#lines.find(
      (each) => each.account === account && targets.some((target) => each.awaits(target)),
    );
    if (!line) this.#lines.push((line = new AccountLine(account)));
    line.waiting.push(entry);
    if (this.#round) this.#round.turn = Math.max(this.#round.turn, tokens);
    this.#unsubscribe ??= this.#onFreed(() => {
      this.#serve();
    });
  }

  #leave(entry: Entry, error: Error): void {
    const line = this.#lines.find(({ waiting }) => waiting.includes(entry));
    const index = line?.waiting.indexOf(entry) ?? -1;
    if (!line || index === -1) return;
    line.waiting.splice(index, 1);
    this.#dropIfEmpty(line);
    this.#shortenRound(entry.request.tokens);
    entry.reject(error);
    // Who waited for the same targets behind it may be next.
    this.#serve();
  }

  /** Serves those whose turn it is, as far as there is room. */
  #serve(): void {
    if (this.#closedBy) return;
    let pauseMs = MAX_PAUSE_MS;
    /** Those of requests that wait for room, by their turn. */
    const known = new PerTarget((target) => target);
    const awaited: Targets = { has: (target) => known.find(target) !== undefined };
    /** How many can't be served in their time, at the beginning of each line. */
    const hopeless = new Map<AccountLine, number>();
    for (let n = 0; n < this.#lines.length;) {
      const line = this.#lines[n];
      const at = (line && hopeless.get(line)) ?? 0;
      const entry = line?.waiting[at];
      if (!line || !entry) {
        n += 1;
        continue;
      }
      const { request } = entry;
      const isBehind = request.targets.some((target) => awaited.has(target));
      if (!this.#hasTurn(line, request.tokens)) {
        this.#lines.splice(n, 1);
        this.#lines.push(line);
        continue;
      }
      const freeMs = this.#reserve(entry, awaited);
      // It has left, and those behind it were served.
      if (freeMs === undefined) return;
      const waitMs = isBehind ? Math.min(freeMs, MAX_PAUSE_MS) : freeMs;
      if (waitMs > 0) {
        entry.waitMs = waitMs;
        pauseMs = Math.min(pauseMs, waitMs);
        // A request that can't be served in its time keeps no other from room.
        if (Number.isFinite(waitMs) && waitMs > entry.leftMs) {
          hopeless.set(line, at + 1);
          continue;
        }
        for (const target of request.targets) known.of(target);
        n += 1;
        continue;
      }
      line.waiting.splice(at, 1);
      line.served(request.tokens);
      this.#dropIfEmpty(line);
      entry.resolve();
    }
    this.#serveIn(pauseMs);
  }

  /** As `AccountLine.hasTurn`; begins the next round where the line has had its turn in this one. */
  #hasTurn(line: AccountLine, tokens: number): boolean {
    if (!this.#round || line.isOverIn(this.#round)) this.#round = { turn: this.#largest() };
    return line.hasTurn(this.#round, tokens);
  }

  /** A request that left and wasn't served makes no turns longer. */
  #shortenRound(tokens: number): void {
    const round = this.#round;
    if (!round || tokens < round.turn) return;
    const largest = this.#largest();
    if (largest >= round.turn) return;
    round.turn = largest;
    for (const line of this.#lines) line.keepAtMost(round.turn);
  }

  /** The tokens of the largest request that waits. */
  #largest(): number {
    let largest = 0;
    for (const { waiting } of this.#lines)
      for (const { request } of waiting) largest = Math.max(largest, request.tokens);
    return largest;
  }

  #reserve(entry: Entry, awaited: Targets): number | undefined {
    try {
      return entry.request.reserve(awaited);
    } catch (error) {
      this.#leave(entry, asError(error));
      return undefined;
    }
  }

  #serveIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#lines.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#serve();
    }, ms);
  }

  #dropIfEmpty(line: AccountLine): void {
    if (line.waiting.length > 0) return;
    this.#lines.splice(this.#lines.indexOf(line), 1);
    if (this.#lines.length > 0) return;
    this.#round = undefined;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    clearTimeout(this.#timer);
  }
}

/** Each account has one turn in it, all of them as many tokens. */
interface Round {
  /** In tokens. A large request that comes makes it longer: those that had a shorter one have the rest with their next. */
  turn: number;
}

/** The requests of one account that wait for the same targets, in their order. */
class AccountLine {
  readonly account: string;
  readonly waiting: Entry[] = [];
  /** Tokens that it may still be served in its turn. */
  #left = 0;
  /** Of its last turn. */
  #round: Round | undefined;
  /** Tokens that it got for that. */
  #had = 0;
  #isItsTurn = false;

  constructor(account: string) {
    this.account = account;
  }

  /** Whether one of them waits for the target, by whichever model, and from before or after a reload. */
  awaits({ provider, healthKey }: Target): boolean {
    return this.waiting.some(({ request: { targets } }) =>
      targets.some((target) => target.provider === provider && target.healthKey === healthKey),
    );
  }

  countOf(model: string): number {
    return this.waiting.reduce((sum, { request }) => sum + Number(request.model === model), 0);
  }

  /** Whether it has had its turn in this round. */
  isOverIn(round: Round): boolean {
    return !this.#isItsTurn && this.#round === round;
  }

  /** Whether its turn covers the tokens. Begins its turn where it is the next, and ends it where it doesn't. */
  hasTurn(round: Round, tokens: number): boolean {
    if (!this.#isItsTurn) {
      const rest = this.#round ? Math.max(0, this.#round.turn - this.#had) : 0;
      this.#left += rest + round.turn;
      this.#round = round;
      this.#had = round.turn;
    }
    this.#isItsTurn = this.#left >= tokens;
    return this.#isItsTurn;
  }

  /** Turns have become this short. */
  keepAtMost(tokens: number): void {
    this.#left = Math.min(this.#left, tokens);
    this.#had = Infinity;
  }

  served(tokens: number): void {
    this.#left -= tokens;
  }
}

/** One request in the line, with its clock. */
class Entry {
  readonly request: WaitingRequest;
  /** Until there may be room, as far as known. */
  waitMs = 0;
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
    request.onDisconnect({
      onDisconnect: () => {
        leave(new ClientDisconnectedError());
      },
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
