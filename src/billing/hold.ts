import { type Answer, andThen } from '../async/answer.ts';
import type { Caller } from '../keys/caller.ts';
import type {
  Dimensions,
  ExtendResult,
  IdempotencyKey,
  LedgerStore,
} from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import type { Quote } from '../metering/estimate.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Target } from '../catalog/model.ts';
import type { Outcome, RelayedAnswer } from './charge-policy.ts';
import type { Lease, LeasedHold } from './lease-renewal.ts';

/** What a hold was taken for. */
export interface HoldTerms {
  readonly requestId: string;
  readonly caller: Caller;
  readonly quote: Quote;
  /** Its answer is to be an event stream. */
  readonly stream: boolean;
  /** What its client calls it. */
  readonly idempotencyKey: IdempotencyKey | undefined;
  /** Whom the request is for. */
  readonly endUser: string | undefined;
  readonly dimensions: Dimensions | undefined;
  /** When the request arrived, by `performance.now()`. */
  readonly startedAt: number;
}

/** What was held. */
export interface Held {
  readonly amount: NanoDollars;
  /** The output limit, a choice, that the hold covers, where it covers less than the request asked for. */
  readonly outputLimit: number | undefined;
  /** It is of a stream, and holds more as that goes on. */
  readonly grows: boolean;
}

/** What all holds of a router share. */
export interface HoldServices {
  readonly store: LedgerStore;
  readonly leaseMs: number;
  /** What a request would be charged that ended now, and so. */
  priceOf(cut: Outcome, hold: Hold): NanoDollars;
  /** An answer is being delivered for this hold. */
  delivering(hold: Hold): void;
  readonly onError: (error: Error, requestId: string) => void;
  /** Posts what became of it. Called once a hold. */
  post(hold: Hold, outcome: Outcome): void;
}

/** The money of one running request. */
export class Hold implements LeasedHold {
  readonly terms: HoldTerms;
  lease: Lease | undefined;
  readonly outputLimit: number | undefined;
  readonly #billing: HoldServices;
  readonly #mayGrow: boolean;
  #amount: NanoDollars;
  #running: { readonly target: Target; readonly meter: UsageMeter } | undefined;
  #settled = false;

  constructor(billing: HoldServices, terms: HoldTerms, { amount, outputLimit, grows }: Held) {
    this.#billing = billing;
    this.terms = terms;
    this.outputLimit = outputLimit;
    this.#mayGrow = grows;
    this.#amount = amount;
  }

  /** The most that was held: what a rollback took of it is asked for again with each renewal. */
  get amount(): NanoDollars {
    return this.#amount;
  }

  /** It holds less than its request may cost, and more as its answer grows. */
  get grows(): boolean {
    return this.#mayGrow && this.#amount < this.terms.quote.maximum;
  }

  get settled(): boolean {
    return this.#settled;
  }

  /** What would be charged if an answer had come to its end now, in USD, for its client. */
  costNow(target: Target, answer: Pick<RelayedAnswer, 'status' | 'meter'>): string {
    const outcome: Outcome = { ending: 'finished', target, dispatched: true, answer };
    return formatUsd(this.#billing.priceOf(outcome, this));
  }

  /** From now on this answer is being delivered: its meter is what a crash would be charged by. */
  watch(target: Target, meter: UsageMeter): void {
    this.#running = { target, meter };
    this.#billing.delivering(this);
  }

  /**
   * Renews the lease with the charge to post if this process crashes; asks for a larger hold if one is given.
   *
   * Throws or rejects with a StoreUnavailableError if the store didn't answer. The renewal may have been applied: the next one repeats it.
   */
  renew(atLeast: NanoDollars = this.#amount): Answer<ExtendResult> {
    const { store, leaseMs } = this.#billing;
    const { requestId, caller } = this.terms;
    const extending = store.extend({
      account: caller.account,
      requestId,
      hold: atLeast,
      leaseMs,
      checkpoint: this.#checkpoint(),
    });
    return andThen(extending, (result) => {
      if (result.code === 'ok' && result.hold > this.#amount) this.#amount = result.hold;
      return result;
    });
  }

  /** Settles or voids, by what became of the request; the second time nothing happens. */
  settle(outcome: Outcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#billing.post(this, outcome);
  }

  report(error: Error): void {
    this.#billing.onError(error, this.terms.requestId);
  }

  /** What is charged if this process dies now: nothing before there is an answer, at most the hold. */
  #checkpoint(): NanoDollars {
    if (!this.#running) return 0n;
    const { target, meter } = this.#running;
    // As if the client had left: the prompt is paid for as soon as an answer has begun.
    const cut: Outcome = { ending: 'client_gone', target, dispatched: true, answer: { status: 200, meter } };
    const price = this.#billing.priceOf(cut, this);
    return price < this.#amount ? price : this.#amount;
  }
}
