import { withTimeout } from '../async/timeout.ts';
import { CreditsExhaustedError, CreditStoreUnavailableError, type RouterError } from '../errors/errors.ts';
import { asError } from '../platform/as-error.ts';
import type { DeliveryGate } from '../http/relay.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
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

/** A hold grows once so much of the output that it covers was delivered. */
const GROW_AT = 0.6;
/** How long a stream that has reached its hold waits for a store that is away. */
const GROWTH_WAIT_MS = 5000;
/** Pauses between two tries to ask such a store. */
const RETRY_MS = [50, 100, 250, 500];
const MAX_RETRY_MS = 1000;

/** What keeps a stream within a hold that grows with it; undefined where all that it can cost is held. */
export function adaptiveHoldOf(hold: Hold, meter: UsageMeter): AdaptiveHold | undefined {
  const { grows, quote } = hold.terms;
  return grows && hold.amount < quote.maximum ? new AdaptiveHold(hold, meter) : undefined;
}

/**
 * An adaptive hold that grows with its answer, and keeps what is delivered within what is held.
 *
 * Output is what its text is estimated at, or what the provider has counted, where that is more. At
 * 60 % of what the hold covers it is doubled; the answer goes on meanwhile, as far as the hold. Where
 * the balance doesn't cover twice as much, what is there is taken; refused at 60 %, it is asked for once
 * more at the end of the hold, where money may have come in. A store that is away is asked again, and a
 * stream that has reached its hold waits for it for 5 seconds. Once all is held that the request was
 * admitted for, nothing is looked at any more.
 */
export class AdaptiveHold implements DeliveryGate {
  readonly #hold: Hold;
  readonly #meter: UsageMeter;
  readonly #maxPlausible: number;
  /** What was asked for: if it was had, the hold covers the longest prompt of this size, else the likely one. */
  #requested: NanoDollars;
  /** So many tokens of output are covered, and beyond so many more are wanted. */
  #covered = 0;
  #growAt = 0;
  #growing: Promise<'grown' | 'refused'> | undefined;
  /** Of what went on to the client. */
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

  mayPass(): boolean {
    const estimated = outputTokensEstimate(this.#meter.delivered);
    const told = this.#reportedNow();
    const output = Math.max(estimated, told);
    if (output > this.#growAt) this.#growing ??= this.#grow();
    if (output > this.#covered) return false;
    this.#estimated = estimated;
    this.#reported = told;
    return true;
  }

  async untilPassable(): Promise<RouterError | undefined> {
    let isLate = false;
    const grown = this.#waitUntilGrown(() => isLate);
    return withTimeout(grown, GROWTH_WAIT_MS, () => {
      isLate = true;
      return this.mayPass() ? undefined : new CreditStoreUnavailableError();
    });
  }

  async #waitUntilGrown(isLate: () => boolean): Promise<RouterError | undefined> {
    for (;;) {
      const answer = await (this.#growing ??= this.#grow());
      if (isLate() || this.mayPass()) return undefined;
      if (answer === 'refused') return new CreditsExhaustedError();
    }
  }

  /** The provider's own count; 0 where it has none, or none that can be. */
  #reportedNow(): number {
    const { completionTold } = this.#meter;
    return completionTold <= this.#maxPlausible ? completionTold : 0;
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

  /** Never rejects: whoever began it may not wait for it. */
  async #grow(): Promise<'grown' | 'refused'> {
    for (let tries = 0; !this.#hold.settled; tries++) {
      try {
        const grown = await this.#requestMore();
        this.#growing = undefined;
        this.#measure();
        if (grown) return 'grown';
        break;
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) {
          this.#hold.report(asError(error));
          break;
        }
        const pause = RETRY_MS[tries] ?? MAX_RETRY_MS;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
    this.#growing = undefined;
    this.#growAt = Infinity;
    return 'refused';
  }

  /** Asks for twice as much, or for what is left. */
  async #requestMore(): Promise<boolean> {
    const { quote } = this.#hold.terms;
    const output = Math.max(outputTokensEstimate(this.#meter.delivered), this.#reportedNow());
    let tokens = 2 * Math.max(this.#covered, 1);
    while (GROW_AT * tokens < output) tokens *= 2;
    this.#requested = holdFor(quote, tokens);
    const result = await this.#hold.renew(this.#requested);
    if (result.code !== 'no_funds') return result.code === 'ok';

    const rest = result.hold + result.available;
    if (rest <= result.hold || rest >= this.#requested) return false;
    return (await this.#hold.renew(rest)).code === 'ok';
  }
}
