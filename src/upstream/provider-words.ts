import { LRUCache } from 'lru-cache';

import type { Target } from '../catalog/model.ts';
import type { Provider } from '../catalog/provider.ts';
import type { WordAmounts, WordState } from '../ledger/contract/fleet-view.ts';
import { Countdown } from './countdown.ts';
import type { FleetSlot, SharedWord } from './fleet-slot.ts';
import type { LimitLeft, LimitsLeft } from './rate-limits.ts';
import { SlidingWindow } from './sliding-window.ts';

/** Keys and models of a provider whose words are kept (LRU). */
const MAX_WORDS = 1000;
/** What is left is scarce if it is less than this process sends in this number of minutes, at the rate of the last one. */
const SCARCE_MINUTES = 4;
/** This number of requests, or of the largest one's tokens, is scarce in any case: they may be sent at once. */
const FEW_REQUESTS = 8;
const FEW_OF_LARGEST = 2;
/**
 * The shortest time that a word holds, if something is left, in buckets, which are seconds: limits that slide or refill say when a
 * little more is free, and by then the answers that know better are on their way.
 */
const HOLD_BUCKETS = 2;
const MINUTE_BUCKETS = 60;

export interface WordTerms {
  /** Other processes count, too. */
  readonly slotOf: (provider: Provider, key: string, model: string) => FleetSlot | undefined;
  /** A minute has 60 of these. */
  readonly bucketMs: number;
  /** Called with the time until which requests have to look at what is left; 0: nothing is scarce. */
  readonly onScarce: (until: number) => void;
}

/** What providers say is left of the limits of a key for a model. Nothing is counted for a provider that says nothing. */
export class ProviderWords {
  readonly #providers = new WeakMap<Provider, LRUCache<string, ProviderWord>>();
  readonly #terms: WordTerms;

  constructor(terms: WordTerms) {
    this.#terms = terms;
  }

  find({ provider, model }: Target, key: string): ProviderWord | undefined {
    return this.#providers.get(provider)?.get(nameOf(key, model));
  }

  of(target: Target, key: string): ProviderWord {
    const { provider, model } = target;
    let words = this.#providers.get(provider);
    if (!words) this.#providers.set(provider, (words = new LRUCache({ max: MAX_WORDS })));
    const name = nameOf(key, model);
    let word = words.get(name);
    if (!word) {
      word = new ProviderWord(this.#terms, this.#terms.slotOf(provider, key, model));
      words.set(name, word);
    }
    return word;
  }
}

/** A request that was sent with the operator's key. */
export interface CountedRequest {
  /** An estimate. */
  readonly tokens: number;
  /** As in `Countdown`; 0 if the provider had said nothing yet. */
  readonly requestNumber: number;
  readonly tokenNumber: number;
  /** The request is over. @param used - its tokens */
  end(used: number): void;
}

/** Where the provider has said nothing so far. */
export function uncounted(tokens: number): CountedRequest {
  return { tokens, requestNumber: 0, tokenNumber: 0, end: countNothing };
}

const countNothing = (): void => {};

/** The word of one provider on one key and model. */
export class ProviderWord implements SharedWord {
  readonly requests: Countdown = new Countdown();
  readonly tokens: Countdown = new Countdown();
  readonly #terms: WordTerms;
  readonly #slot: FleetSlot | undefined;
  /** Of this process, in the last minute. */
  readonly #sentRequests: SlidingWindow;
  readonly #sentTokens: SlidingWindow;
  /** The largest request of about the last minute, in tokens, and when it was sent. */
  #largest = { tokens: 0, at: -Infinity };

  constructor(terms: WordTerms, slot: FleetSlot | undefined) {
    this.#terms = terms;
    this.#slot = slot;
    this.#sentRequests = new SlidingWindow(terms.bucketMs);
    this.#sentTokens = new SlidingWindow(terms.bucketMs);
    slot?.share(this);
  }

  /** @param estimate - in tokens */
  send(estimate: number, now: number): CountedRequest {
    const tokens = Math.round(estimate);
    const requestNumber = this.requests.send(1);
    const tokenNumber = this.tokens.send(tokens);
    this.#sized(tokens, now);
    const bucket = this.#sentRequests.bucketAt(now);
    this.#sentRequests.add(1, bucket);
    this.#sentTokens.add(tokens, bucket);
    this.#slot?.sent(tokens, now);
    this.#look(now);
    return {
      tokens,
      requestNumber,
      tokenNumber,
      end: (used) => {
        this.tokens.correct(tokenNumber, used - tokens);
      },
    };
  }

  answered(request: CountedRequest, { requests, tokens }: LimitsLeft, now: number): void {
    this.#sized(request.tokens, now);
    const until = ({ left, resetMs }: LimitLeft): number =>
      now + Math.max(resetMs, left > 0 ? HOLD_BUCKETS * this.#terms.bucketMs : 0);
    if (requests) this.requests.said(request.requestNumber, requests.left, until(requests));
    if (tokens) this.tokens.said(request.tokenNumber, tokens.left, until(tokens), tokens.limit);
    this.#look(now);
  }

  /** Until a request with this estimate of tokens may be sent, in ms; 0 if it may. */
  waitMs(tokens: number, now: number): number {
    // What is more than the whole limit is sent when all of it is left.
    const needed = Math.min(tokens, this.tokens.limit);
    const until = Math.max(this.requests.lacksUntil(1, now), this.tokens.lacksUntil(needed, now));
    return until > 0 ? until - now : (this.#slot?.wordWaitMs(tokens, now) ?? 0);
  }

  hear({ requests, tokens }: WordAmounts<WordState>, now: number): void {
    this.requests.hear(requests, now);
    this.tokens.hear(tokens, now);
    const until = Math.max(this.requests.lacksUntil(Infinity, now), this.tokens.lacksUntil(Infinity, now));
    this.#terms.onScarce(until);
  }

  forget(): void {
    this.requests.forget();
    this.tokens.forget();
  }

  #sized(tokens: number, now: number): void {
    const isOld = now - this.#largest.at > MINUTE_BUCKETS * this.#terms.bucketMs;
    if (isOld || tokens >= this.#largest.tokens) this.#largest = { tokens, at: now };
  }

  /** Has requests look at what is left, and the fleet divide it, if it is scarce. */
  #look(now: number): void {
    const { requests, tokens } = this;
    const few = FEW_OF_LARGEST * this.#largest.tokens;
    const until = Math.max(requests.lacksUntil(FEW_REQUESTS, now), tokens.lacksUntil(few, now));
    this.#terms.onScarce(until);
    const isScarce =
      until > 0 ||
      requests.leftAt(now) < SCARCE_MINUTES * this.#sentRequests.sumAt(now) ||
      tokens.leftAt(now) < SCARCE_MINUTES * this.#sentTokens.sumAt(now);
    if (isScarce) this.#slot?.use();
  }
}

function nameOf(key: string, model: string): string {
  return `${key}\n${model}`;
}
