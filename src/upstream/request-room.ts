import type { Target } from '../catalog/model.ts';
import { UpstreamAtCapacityError } from '../errors/upstream-errors.ts';
import type { Usage } from '../metering/usage-dialects.ts';
import type { Capacity, Permit } from './capacity.ts';
import type { CircuitBreakers } from './circuit-breaker.ts';
import type { Conversation } from './conversations.ts';
import type { ProviderKeys } from './provider-keys.ts';
import type { Targets, WaitingLine } from './waiting-line.ts';

export interface RoomServices {
  readonly waitingLine: WaitingLine;
  readonly capacity: Capacity;
  readonly breakers: CircuitBreakers;
  readonly providerKeys: ProviderKeys;
}

/** BYOK: the caller's keys for providers. */
export interface ByokKeys {
  of(provider: string): string | undefined;
}

export interface RoomTerms {
  readonly account: string;
  /** An estimate of prompt and answer. */
  readonly tokens: number;
  /** The operator's limits don't concern them. */
  readonly byokKeys: ByokKeys | undefined;
  readonly conversation: Conversation | undefined;
  /** The request can wait: it isn't sent where a provider said that its limit is used up, or that is ejected, while others are full. */
  readonly canWait: boolean;
}

/** Of a provider without keys. */
const NO_KEY: readonly string[] = [''];
const NONE: Targets = { has: () => false };

interface Place {
  readonly target: Target;
  /** The name of the provider's key; '' without one. */
  readonly key: string;
}

/** The room of one request at its targets: reserved before its credits are held, taken by its attempts. */
export class RequestRoom {
  readonly #services: RoomServices;
  readonly #terms: RoomTerms;
  #reserved: (Place & { readonly permit: Permit }) | undefined;
  /** Of the last attempt. */
  #running: Permit | undefined;

  constructor(services: RoomServices, terms: RoomTerms) {
    this.#services = services;
    this.#terms = terms;
  }

  get tokens(): number {
    return this.#terms.tokens;
  }

  /**
   * Reserves room at the first target that has some. Targets without anything left by their provider's word, and ejected ones,
   * come last, as they may fail.
   *
   * @param awaited - targets that count as full, as others wait for them
   * @returns 0, or the ms until one of them may have room; Infinity until another request ends
   * @throws {TargetsEjectedError} if operators have ejected all of them
   */
  reserve(targets: readonly Target[], awaited: Targets = NONE): number {
    const { account, canWait, byokKeys } = this.#terms;
    const { breakers } = this.#services;
    const now = Date.now();
    let soonestMs = Infinity;
    let isHealthyFull = false;
    let spare: Place | undefined;
    // While it waited, an operator may have ejected some.
    for (const target of breakers.byHand.without(targets, now)) {
      const isHealthy = breakers.of(target).isAvailable(now, account);
      if (awaited.has(target) && byokKeys?.of(target.provider.name) === undefined) {
        isHealthyFull ||= isHealthy;
        continue;
      }
      for (const key of this.#keysOf(target)) {
        const [fullMs, exhaustedMs] = this.#waitsAt(target, key);
        if (fullMs === 0 && exhaustedMs === 0 && isHealthy) return this.#reserveAt({ target, key });
        if (fullMs === 0) spare ??= { target, key };
        if (isHealthy || fullMs > 0) soonestMs = Math.min(soonestMs, Math.max(fullMs, exhaustedMs));
        isHealthyFull ||= isHealthy;
      }
    }
    return spare && !(canWait && isHealthyFull) ? this.#reserveAt(spare) : soonestMs;
  }

  /** Reserves room for an attempt after the last one, which is over, at the first target that has some, and returns that. */
  reserveAgain(targets: readonly Target[]): Target | undefined {
    this.end();
    for (const target of targets) {
      const key = this.#keysOf(target).find((each) => this.#waitsAt(target, each)[0] === 0);
      if (key === undefined) continue;
      this.#reserveAt({ target, key });
      return target;
    }
    return undefined;
  }

  /** The targets, with the one that has the reserved room first. */
  inOrder(targets: readonly [Target, ...Target[]]): readonly [Target, ...Target[]] {
    const reserved = targets.find((target) => this.#hasReserved(target));
    if (!reserved || reserved === targets[0]) return targets;
    return [reserved, ...targets.filter((target) => target !== reserved)];
  }

  /** The name of the key that has the reserved room. */
  keyAt(target: Target): string | undefined {
    return this.#hasReserved(target) ? this.#reserved?.key : undefined;
  }

  /**
   * Takes room for an attempt, the reserved one if it is there; the attempt before is over, and nothing is reserved any more. False if
   * there is none.
   *
   * @param key - as in `Place`
   */
  take(target: Target, key: string): boolean {
    this.#running?.end();
    this.#running = undefined;
    const permit = this.#reserved?.permit;
    const isReserved = this.keyAt(target) === key;
    this.#reserved = undefined;
    if (isReserved) {
      this.#running = permit;
      return true;
    }
    permit?.cancel();
    const { capacity } = this.#services;
    const { tokens } = this.#terms;
    if (capacity.waitMs(target, key, tokens) > 0) return false;
    this.#running = capacity.take(target, key, tokens);
    return true;
  }

  /** The same where there is no other key. @throws {UpstreamAtCapacityError} if there is no room */
  assertTaken(target: Target, key = ''): void {
    if (!this.take(target, key)) throw new UpstreamAtCapacityError(this.waitMs(target));
  }

  /** Until one of the target's keys has room, in ms. */
  waitMs(target: Target): number {
    return Math.min(...this.#keysOf(target).map((key) => this.#waitsAt(target, key)[0]));
  }

  /** The last attempt is over, and nothing is reserved any more. @param usage - of that attempt, if it is known */
  end(usage?: Pick<Usage, 'promptTokens' | 'completionTokens'>): void {
    this.#reserved?.permit.cancel();
    this.#reserved = undefined;
    this.#running?.end(usage && usage.promptTokens + usage.completionTokens);
    this.#running = undefined;
  }

  /** A request that was planned again has other objects for the same targets. */
  #hasReserved({ provider, healthKey, model }: Target): boolean {
    const reserved = this.#reserved?.target;
    return reserved?.provider === provider && reserved.healthKey === healthKey && reserved.model === model;
  }

  #reserveAt({ target, key }: Place): 0 {
    const { byokKeys, tokens } = this.#terms;
    const isOperators = byokKeys?.of(target.provider.name) === undefined;
    if (isOperators) {
      this.#reserved = { target, key, permit: this.#services.capacity.take(target, key, tokens) };
    }
    return 0;
  }

  /** Until the limits of the options, and those of the provider, have something left, in ms. */
  #waitsAt(target: Target, key: string): readonly [number, number] {
    const { byokKeys, tokens } = this.#terms;
    if (byokKeys?.of(target.provider.name) !== undefined) return [0, 0];
    const { capacity } = this.#services;
    return [capacity.waitMs(target, key, tokens), capacity.exhaustedMs(target, key, tokens)];
  }

  #keysOf(target: Target): readonly string[] {
    const { provider, model } = target;
    if (provider.apiKeys.length === 0) return NO_KEY;
    const { account, conversation } = this.#terms;
    const preferred = conversation?.keyAt(target);
    return this.#services.providerKeys.keysFor(provider, model, account, preferred).map(({ name }) => name);
  }
}
