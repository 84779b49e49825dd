import { LRUCache } from 'lru-cache';

import type { Target } from '../catalog/model.ts';
import type { Provider } from '../catalog/provider.ts';
import type { SlotState } from '../ledger/contract/fleet-view.ts';
import type { LimitUse, ProviderLimitStatus } from '../observability/provider-status.ts';
import type { UpstreamLimits } from '../options/upstream-limits.ts';
import type { FleetSlot } from './fleet-slot.ts';
import type { FleetSync } from './fleet-sync.ts';
import { type CountedRequest, ProviderWords, uncounted } from './provider-words.ts';
import type { LimitsLeft } from './rate-limits.ts';
import { SlidingWindow } from './sliding-window.ts';

/** What one attempt takes of the limits of its target. */
export interface Permit {
  /** The attempt is over. @param tokens - those that it used, if they are known */
  end(tokens?: number): void;
  /** Nothing was sent: it counts no more. */
  cancel(): void;
}

/** Targets and keys that said that a limit is used up (LRU). */
const MAX_EXHAUSTED = 1000;
/** Slots of a provider that are found again (LRU). */
const MAX_SLOTS = 1000;
/** Names the counters of a provider's key for all models: no model has this name. */
const ALL_MODELS = '';
/** Of a provider without keys. */
const NO_KEY = '';

export interface CapacityOptions {
  /** What other processes use counts, too; undefined: each counts alone. */
  readonly fleet?: FleetSync | undefined;
  /** A minute has 60 of these. @default 1000 */
  readonly bucketMs?: number | undefined;
  /** In ms, monotonic. */
  readonly now?: () => number;
}

/**
 * The limits of targets and of providers' keys: what was sent in the last minute, what runs, and what providers said is used up.
 * Counters belong to a provider's configuration, and outlive a reload that leaves it as it is.
 */
export class Capacity {
  /** By key and model. */
  readonly #counters = new WeakMap<Provider, Map<string, Counters>>();
  /** Until when a provider's headers say that a limit is used up. */
  readonly #exhausted = new LRUCache<string, number>({ max: MAX_EXHAUSTED });
  readonly #words: ProviderWords;
  /** By provider, key and model: what limits of options count, and what the provider said. */
  readonly #slots = new WeakMap<Provider, LRUCache<string, FleetSlot>>();
  /** Until all targets and keys have enough left for a request, by the providers' word. */
  #scarceUntil = 0;
  readonly #freed = new Set<() => void>();
  #willTell = false;
  readonly #now: () => number;
  readonly #fleet: FleetSync | undefined;
  readonly #bucketMs: number;

  constructor({ fleet, bucketMs = 1000, now = () => performance.now() }: CapacityOptions = {}) {
    this.#now = now;
    this.#fleet = fleet;
    this.#bucketMs = bucketMs;
    this.#words = new ProviderWords({
      slotOf: (provider, key, model) => this.#slotOf(provider, key, model),
      bucketMs,
      onScarce: (until) => {
        this.#noteScarce(until);
      },
    });
    fleet?.onExhausted((slot, until) => {
      this.#noteExhausted(slot, until);
    });
    fleet?.onChange(() => {
      this.#tellFreed();
    });
  }

  /** Whether a request for these targets has to look for room. */
  concerns(targets: readonly Target[]): boolean {
    for (const { limits, provider } of targets) if (limits || provider.limits) return true;
    return this.#scarceUntil > 0 && this.#scarceUntil > this.#now();
  }

  /**
   * Until the target may take a request with this key, by the limits of the options, in ms. 0: now; Infinity: only once another request ends.
   *
   * @param key - the key's name; '' for a provider without keys
   */
  waitMs(target: Target, key: string, tokens: number): number {
    const now = this.#now();
    const { limits, provider, healthKey } = target;
    return Math.max(
      limits ? this.#countersOf(provider, key, healthKey).waitMs(limits, tokens, now) : 0,
      provider.limits ? this.#countersOf(provider, key, ALL_MODELS).waitMs(provider.limits, tokens, now) : 0,
    );
  }

  /**
   * Until the provider takes the request, by its own word, what was sent since, and what other processes may send, in ms; 0 if it does.
   *
   * @param tokens - of prompt and answer; an estimate
   */
  exhaustedMs(target: Target, key: string, tokens: number): number {
    const now = this.#now();
    const { provider, model } = target;
    const until = this.#exhausted.get(limitName(provider, key, model)) ?? 0;
    return Math.max(0, until - now, this.#words.find(target, key)?.waitMs(tokens, now) ?? 0);
  }

  /** A request is sent with the operator's key. @param tokens - as above */
  sent(target: Target, key: string, tokens: number): CountedRequest {
    return this.#words.find(target, key)?.send(tokens, this.#now()) ?? uncounted(tokens);
  }

  /** The provider's answer said what is left of the limits of this key. @param request - as `sent` returned it */
  answered(target: Target, key: string, request: CountedRequest, left: LimitsLeft): void {
    if (left.exhaustedMs > 0) this.exhausted(target, key, left.exhaustedMs);
    if (left.requests || left.tokens) this.#words.of(target, key).answered(request, left, this.#now());
  }

  /** A limit of this key is used up. */
  exhausted({ provider, model }: Target, key: string, forMs: number): void {
    const slot = limitName(provider, key, model);
    const until = this.#noteExhausted(slot, this.#now() + forMs);
    this.#fleet?.exhausted(slot, until);
  }

  /** Returns until when it is used up: what was said before may be later, of another limit. */
  #noteExhausted(slot: string, said: number): number {
    const until = Math.max(said, this.#exhausted.get(slot) ?? 0);
    this.#exhausted.set(slot, until);
    this.#noteScarce(until);
    return until;
  }

  #noteScarce(until: number): void {
    this.#scarceUntil = Math.max(this.#scarceUntil, until);
  }

  /** Takes room, whether there is some or not: `waitMs` says so. */
  take(target: Target, key: string, tokens: number): Permit {
    const { limits, provider, healthKey } = target;
    const counters = [
      ...(limits ? [this.#countersOf(provider, key, healthKey)] : []),
      ...(provider.limits ? [this.#countersOf(provider, key, ALL_MODELS)] : []),
    ];
    if (counters.length === 0) return UNLIMITED;
    const now = this.#now();
    for (const each of counters) each.begin(tokens, now);
    let isOver = false;
    const over = (end: (each: Counters) => void): void => {
      if (isOver) return;
      isOver = true;
      counters.forEach(end);
      this.#tellFreed();
    };
    return {
      end: (used) => {
        over((each) => {
          each.end(tokens, used, now, this.#now());
        });
      },
      cancel: () => {
        over((each) => {
          each.cancel(tokens, now, this.#now());
        });
      },
    };
  }

  /**
   * Calls the listener soon after a request has ended that counted, once for several, or when the fleet may have room. Returns a function
   * that ends it.
   */
  onFreed(listener: () => void): () => void {
    this.#freed.add(listener);
    return () => this.#freed.delete(listener);
  }

  /** Not at once: who ends an attempt to begin another has its room before those that wait. */
  #tellFreed(): void {
    if (this.#willTell) return;
    this.#willTell = true;
    queueMicrotask(() => {
      this.#willTell = false;
      for (const listener of this.#freed) listener();
    });
  }

  /** What is used of the limits of a provider and of its targets, for operators. @param keys - their names */
  statuses(
    provider: Provider,
    targets: readonly Target[],
    keys: readonly string[],
  ): readonly ProviderLimitStatus[] {
    const now = this.#now();
    const places = [
      { model: ALL_MODELS, limits: provider.limits },
      ...targets.map(({ healthKey, limits }) => ({ model: healthKey, limits })),
    ];
    return places.flatMap(({ model, limits }) => {
      if (!limits) return [];
      return (keys.length === 0 ? [NO_KEY] : keys).map((key) => ({
        ...(key !== NO_KEY && { key }),
        ...(model !== ALL_MODELS && { model }),
        ...this.#countersOf(provider, key, model).status(limits, now),
      }));
    });
  }

  #countersOf(provider: Provider, key: string, model: string): Counters {
    let ofProvider = this.#counters.get(provider);
    if (!ofProvider) this.#counters.set(provider, (ofProvider = new Map()));
    const name = `${key}\n${model}`;
    let counters = ofProvider.get(name);
    if (!counters) {
      counters = new Counters(this.#bucketMs, this.#slotOf(provider, key, model));
      ofProvider.set(name, counters);
    }
    return counters;
  }

  #slotOf(provider: Provider, key: string, model: string): FleetSlot | undefined {
    if (!this.#fleet) return undefined;
    let slots = this.#slots.get(provider);
    if (!slots) this.#slots.set(provider, (slots = new LRUCache({ max: MAX_SLOTS })));
    const name = limitName(provider, key, model);
    const slot = slots.get(name) ?? this.#fleet.slot(name);
    slots.set(name, slot);
    return slot;
  }
}

const UNLIMITED: Permit = { end: () => {}, cancel: () => {} };

class Counters {
  readonly #requests: SlidingWindow;
  readonly #tokens: SlidingWindow;
  #running = 0;
  /** What the fleet leaves to this process. */
  readonly #slot: FleetSlot | undefined;

  constructor(bucketMs: number, slot: FleetSlot | undefined) {
    this.#requests = new SlidingWindow(bucketMs);
    this.#tokens = new SlidingWindow(bucketMs);
    this.#slot = slot;
    slot?.count((now) => ({
      requests: this.#requests.entriesAt(now),
      tokens: this.#tokens.entriesAt(now),
    }));
  }

  waitMs(limits: UpstreamLimits, tokens: number, now: number): number {
    const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
    const ofFleet = this.#slot?.waitMs(limits, tokens, now);
    if (ofFleet !== undefined) return ofFleet;
    if (concurrentRequests !== undefined && this.#running >= concurrentRequests) return Infinity;
    return Math.max(
      requestsPerMinute === undefined ? 0 : this.#requests.waitMs(1, requestsPerMinute, now),
      tokensPerMinute === undefined ? 0 : this.#tokens.waitMs(tokens, tokensPerMinute, now),
    );
  }

  begin(tokens: number, now: number): void {
    this.#running += 1;
    this.#slot?.begin(tokens);
    this.#add(1, tokens, now, now);
  }

  /** Puts what was used in place of the estimate: less counts less from its beginning on, more counts from now on. */
  end(estimated: number, used: number | undefined, begunAt: number, now: number): void {
    this.#running -= 1;
    this.#slot?.end();
    if (used !== undefined) this.#add(0, used - estimated, used < estimated ? begunAt : now, now);
  }

  cancel(tokens: number, begunAt: number, now: number): void {
    this.#running -= 1;
    this.#slot?.end();
    this.#add(-1, -tokens, begunAt, now);
  }

  /** By the last word of the fleet, or by what this process did. */
  status(limits: UpstreamLimits, now: number): Omit<ProviderLimitStatus, 'key' | 'model'> {
    const { requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
    const { members, used, left } = this.#slot?.look(limits, now) ?? this.#own(now);
    return {
      ...(members !== undefined && { processes: members }),
      ...(requestsPerMinute !== undefined && {
        requestsPerMinute: useOf(requestsPerMinute, used.requests, left?.requests),
      }),
      ...(tokensPerMinute !== undefined && {
        tokensPerMinute: useOf(tokensPerMinute, used.tokens, left?.tokens),
      }),
      ...(concurrentRequests !== undefined && {
        concurrentRequests: useOf(concurrentRequests, used.running, left?.running),
      }),
    };
  }

  #own(now: number): Partial<Pick<SlotState, 'members' | 'left'>> & Pick<SlotState, 'used'> {
    const running = this.#running;
    return { used: { requests: this.#requests.sumAt(now), tokens: this.#tokens.sumAt(now), running } };
  }

  #add(requests: number, tokens: number, at: number, now: number): void {
    const bucket = this.#requests.bucketAt(at);
    if (!this.#requests.counts(bucket, now)) return;
    this.#requests.add(requests, bucket);
    this.#tokens.add(tokens, bucket);
    this.#slot?.add(requests, tokens, bucket);
  }
}

/** Of the limit of a provider's key for a model, in all processes. */
function limitName({ name }: Provider, key: string, model: string): string {
  return JSON.stringify([name, key, model]);
}

function useOf(limit: number, used: number, left: number = limit - used): LimitUse {
  return { limit, used: Math.round(used), left: Math.max(0, Math.round(left)) };
}
