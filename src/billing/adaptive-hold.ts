import { backoff } from '../async/backoff.ts';
import { withTimeout } from '../async/timeout.ts';
import { CreditsExhaustedError, CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import { type RouterError } from '../errors/router-error.ts';
import { asError } from '../platform/as-error.ts';
import type { DeliveryGate } from '../http/relay.ts';
import { type ExtendResult, StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import type { NanoDollars } from '../ledger/contract/money.ts';
import {
  firstHold,
  holdFor,
  outputTokensCovered,
  outputTokensEstimate,
  plausibleOutputTokens,
  withSearches,
} from '../metering/estimate.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Delivered } from './charge-policy.ts';
import type { Hold } from './hold.ts';

/** A hold grows once this share of the output that it covers was delivered. */
const GROW_AT = 0.6;
/** How long a stream that has reached its hold waits for an unavailable store. */
const GROWTH_WAIT_MS = 5000;
/** Backoff between calls to an unavailable store. */
const RETRY = { firstMs: 50, maxMs: 1000 };

/** What became of a growth: the ledger has granted or refused it, or it doesn't say. */
type Growth = 'grown' | 'refused' | 'unknown';

/** A hold that grows with its answer, and keeps what is delivered within the hold.
 *
 * Output is estimated from its text, or counted by the provider if that is more. At 60 % of what the hold
 * covers, it is doubled, while delivery goes on up to the hold. If the balance doesn't cover twice as much,
 * the hold takes what is left. If nothing is left, it asks once more at the end of the hold, as money may
 * have come in. An unavailable store is retried, and a stream that has reached its hold waits for it for 5
 * seconds. Once the maximum cost is held, nothing is checked any more.
 */
export class AdaptiveHold implements DeliveryGate {
  readonly #hold: Hold;
  readonly #meter: UsageMeter;
  readonly #maxPlausible: number;
  /** The requested amount: if it was granted, the hold covers the longest prompt of this size, else the likely one. */
  #requested: NanoDollars;
  /** Output tokens that the hold covers. */
  #covered = 0;
  /** Output tokens beyond which the hold grows. */
  #growAt = 0;
  #growing: Promise<Growth> | undefined;
  /** Tokens delivered to the client. */
  #estimated = 0;
  #reported = 0;

  constructor(hold: Hold, meter: UsageMeter) {
    this.#hold = hold;
    this.#meter = meter;
    this.#maxPlausible = plausibleOutputTokens(hold.terms.quote);
    this.#requested = firstHold(hold.terms.quote);
    this.#measure();
  }

  get delivered(): Delivered {
    return { estimated: this.#estimated, reported: this.#reported };
  }

  canSend(): boolean {
    const estimated = outputTokensEstimate(this.#meter.delivered);
    const reported = this.#reportedNow();
    const output = Math.max(estimated, reported);
    if (output > this.#growAt) this.#growing ??= this.#grow();
    if (output > this.#covered) return false;
    this.#estimated = estimated;
    this.#reported = reported;
    return true;
  }

  async waitUntilAllowed(): Promise<RouterError | undefined> {
    let isLate = false;
    const grown = this.#waitUntilGrown(() => isLate);
    return withTimeout(grown, GROWTH_WAIT_MS, () => {
      isLate = true;
      return this.canSend() ? undefined : storeUnavailable();
    });
  }

  async #waitUntilGrown(isLate: () => boolean): Promise<RouterError | undefined> {
    for (;;) {
      const answer = await (this.#growing ??= this.#grow());
      if (isLate() || this.canSend()) return undefined;
      if (answer === 'refused') return new CreditsExhaustedError();
      if (answer === 'unknown') return storeUnavailable();
    }
  }

  /** The provider's own count; 0 if there is none, or an implausible one. */
  #reportedNow(): number {
    const { reportedCompletionTokens } = this.#meter;
    return reportedCompletionTokens <= this.#maxPlausible ? reportedCompletionTokens : 0;
  }

  #measure(): void {
    const { amount, terms } = this.#hold;
    const { quote } = terms;
    if (amount >= quote.maximum) {
      this.#covered = Infinity;
      this.#growAt = Infinity;
      return;
    }
    this.#covered =
      amount >= this.#requested
        ? outputTokensCovered(amount, quote.promptTokensAtMost, quote)
        : outputTokensCovered(amount, quote.promptTokensNeeded, withSearches(quote, 0));
    this.#growAt = GROW_AT * this.#covered;
  }

  /** Never rejects: its caller may not await it. */
  async #grow(): Promise<Growth> {
    let growth: Growth = 'unknown';
    for (let tries = 0; !this.#hold.settled; tries++) {
      try {
        growth = await this.#requestMore();
        this.#growing = undefined;
        this.#measure();
        if (growth === 'grown') return growth;
        break;
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) {
          this.#hold.report(asError(error));
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, backoff(tries, RETRY)));
      }
    }
    this.#growing = undefined;
    this.#growAt = Infinity;
    return growth;
  }

  /** Asks the ledger for twice as much, or for what is left. */
  async #requestMore(): Promise<Growth> {
    const { quote } = this.#hold.terms;
    const output = Math.max(outputTokensEstimate(this.#meter.delivered), this.#reportedNow());
    let tokens = 2 * Math.max(this.#covered, 1);
    while (GROW_AT * tokens < output) tokens *= 2;
    this.#requested = holdFor(quote, tokens);
    const result = await this.#hold.renew(this.#requested);
    if (result.code !== 'no_funds') return growthOf(result);

    const rest = result.hold + result.available;
    if (rest <= result.hold || rest >= this.#requested) return 'refused';
    return growthOf(await this.#hold.renew(rest));
  }
}

function growthOf({ code }: ExtendResult): Growth {
  if (code === 'ok') return 'grown';
  // Of a hold whose lease has ended, the ledger doesn't say what is left.
  return code === 'no_funds' ? 'refused' : 'unknown';
}

function storeUnavailable(): RouterError {
  return new CreditStoreUnavailableError(undefined, true);
}
