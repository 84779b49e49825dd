import type { Caller } from './accounts/authenticate.ts';
import { outputLimit, refusal } from './admission.ts';
import { asError, CreditStoreUnavailableError } from './errors.ts';
import type { LedgerEvent } from './ledger/events.ts';
import { type AdmitResult, type LedgerStore, StoreUnavailable } from './ledger/ledger.ts';
import { formatUsd, type NanoDollars } from './ledger/money.ts';
import type { Quote } from './metering/estimate.ts';
import type { UsageMeter } from './metering/usage-meter.ts';
import type { Model, Target } from './models/catalog.ts';
import type { Settings, Settled } from './options.ts';
import { type Consumption, consumptionOf, type Outcome } from './outcome.ts';

/** How long a hold lives without a sign of life from us, and how often one is given. */
const LEASE_MS = 120_000;
const HEARTBEAT_MS = 30_000;
/** How long an admit may take before the client is told to come again. */
const ADMIT_DEADLINE_MS = 5_000;
/** Pauses between two tries to post a settlement. */
const RETRY_MS = [50, 100, 250, 500, 1000, 2500];
const LONGEST_RETRY_MS = 5000;

export interface SettlementsOptions {
  readonly store: LedgerStore;
  readonly holdMode: Settings['holdMode'];
  readonly onSettled: (settled: Settled) => unknown;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly tell: (event: LedgerEvent) => void;
}

/** The holds of a router: taken before a request leaves, kept alive while it runs, settled once when it ended. */
export class Settlements {
  readonly #options: SettlementsOptions;
  readonly #held = new Set<Hold>();
  readonly #posting = new Set<Promise<void>>();
  #heartbeat: NodeJS.Timeout | undefined;
  #abandoned = false;
  /** The store's clock less ours, in ms, as its last reply showed it. */
  #clockOffset = 0;

  constructor(options: SettlementsOptions) {
    this.#options = options;
  }

  /**
   * Holds what the request could cost, in one round trip.
   *
   * @throws a RouterError that says what refused it; nothing is held then
   */
  async admit(requestId: string, caller: Caller, model: Model, quote: Quote): Promise<Hold> {
    const { store, holdMode } = this.#options;
    const min = holdMode === 'strict' ? quote.want : quote.min;
    const { account, key, externalKey } = caller;
    let result: AdmitResult;
    try {
      result = await store.admit({
        account,
        key,
        requestId,
        want: quote.want,
        min,
        leaseMs: LEASE_MS,
        tokens: quote.tokens,
        notAfter: Date.now() + this.#clockOffset + ADMIT_DEADLINE_MS,
        externalKey,
      });
    } catch (error) {
      // It may have been applied: the void finds it, or plants a tombstone that it will find.
      if (error instanceof StoreUnavailable && error.applied === 'unknown') this.#void(account, requestId);
      throw error instanceof StoreUnavailable ? new CreditStoreUnavailableError() : error;
    }
    this.#clockOffset = result.now - Date.now();
    if (result.code === 'frozen') this.#options.tell({ type: 'frozen', account });
    if (result.code !== 'ok' && result.code !== 'exists') throw refusal(result, min, quote);

    const terms = { requestId, caller, model, quote, amount: result.hold };
    const hold = new Hold(this, { ...terms, outputLimit: outputLimit(result.hold, quote) });
    this.#held.add(hold);
    this.#heartbeat ??= setInterval(() => {
      this.#renew();
    }, HEARTBEAT_MS).unref();
    return hold;
  }

  /** Posts what became of a hold, off the client's path. Called once a hold, by the hold. */
  post(hold: Hold, outcome: Outcome): void {
    this.#held.delete(hold);
    const consumption = consumptionOf(outcome, hold.terms);
    this.#track(
      consumption
        ? this.#untilAnswered(hold, () => this.#settle(hold, outcome, consumption))
        : this.#untilAnswered(hold, () => this.#release(hold, outcome)),
    );
  }

  /** Stops trying what the store has not answered; says how much that was. */
  abandon(): number {
    this.#abandoned = true;
    return this.#posting.size;
  }

  /** Resolves when everything that was to be posted is posted. */
  async drain(): Promise<void> {
    clearInterval(this.#heartbeat);
    this.#heartbeat = undefined;
    while (this.#posting.size > 0) await Promise.all(this.#posting);
  }

  async #settle(hold: Hold, outcome: Outcome, consumption: Consumption): Promise<void> {
    const { requestId, caller, model } = hold.terms;
    const { charge, cost, usage, source } = consumption;
    const result = await this.#options.store.settle({
      account: caller.account,
      requestId,
      amount: charge,
      key: caller.key,
      model: model.id,
      usage: {
        promptTokens: usage.promptTokens,
        cachedTokens: usage.cachedTokens,
        completionTokens: usage.completionTokens,
        reasoningTokens: usage.reasoningTokens,
        source,
        ...(cost !== undefined && { cost }),
        price: outcome.target.price.version,
        ending: outcome.ending,
      },
      force: true,
    });
    if (result.code !== 'ok' && result.code !== 'duplicate') {
      this.#options.onError(
        new Error(`A charge could not be posted: the store says ${result.code}`),
        requestId,
      );
      return;
    }
    const writtenOff = result.code === 'ok' ? result.writtenOff : 0n;
    if (result.code === 'ok') this.#tellOfLosses(hold, result.charged, writtenOff);
    this.#tell(hold, outcome, consumption, result.charged, writtenOff);
  }

  #tellOfLosses({ terms }: Hold, charged: NanoDollars, writtenOff: NanoDollars): void {
    const { tell } = this.#options;
    const { requestId, amount } = terms;
    const { account } = terms.caller;
    if (charged > amount) {
      tell({ type: 'overrun', account, requestId, held: formatUsd(amount), charged: formatUsd(charged) });
    }
    if (writtenOff > 0n) tell({ type: 'write_off', account, requestId, amount: formatUsd(writtenOff) });
  }

  async #release(hold: Hold, outcome: Outcome): Promise<void> {
    const { requestId, caller } = hold.terms;
    await this.#options.store.void({ account: caller.account, requestId });
    this.#tell(hold, outcome, undefined, 0n, 0n);
  }

  #tell(
    hold: Hold,
    { target, ending }: Outcome,
    consumption: Consumption | undefined,
    charged: NanoDollars,
    writtenOff: NanoDollars,
  ): void {
    const { requestId, caller, model } = hold.terms;
    this.#options.onSettled({
      requestId,
      account: caller.account,
      key: caller.key,
      model: model.id,
      provider: target.provider.name,
      upstreamModel: target.model,
      charged: formatUsd(charged),
      writtenOff: formatUsd(writtenOff),
      ...(consumption?.cost !== undefined && { cost: formatUsd(consumption.cost) }),
      voided: consumption === undefined,
      ...(consumption && { usage: consumption.usage }),
      usageSource: consumption?.source ?? 'none',
      ending,
    });
  }

  /** Repeats a call, which its id makes safe, until the store has answered it. */
  async #untilAnswered(hold: Hold, call: () => Promise<void>): Promise<void> {
    const { requestId } = hold.terms;
    for (let tries = 0; ; tries++) {
      try {
        await call();
        return;
      } catch (error) {
        this.#options.onError(asError(error), requestId);
        if (!(error instanceof StoreUnavailable) || this.#abandoned) return;
        const pause = RETRY_MS[tries] ?? LONGEST_RETRY_MS;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  #void(account: string, requestId: string): void {
    this.#track(
      this.#options.store.void({ account, requestId }).then(
        () => {},
        () => {}, // Its lease ends it.
      ),
    );
  }

  #track(posting: Promise<void>): void {
    const tracked = posting.finally(() => this.#posting.delete(tracked));
    this.#posting.add(tracked);
  }

  /** A sign of life for every hold, with what its request has consumed so far. */
  #renew(): void {
    if (this.#held.size === 0) {
      clearInterval(this.#heartbeat);
      this.#heartbeat = undefined;
    }
    for (const hold of this.#held) {
      const { requestId, caller, amount } = hold.terms;
      this.#options.store
        .extend({
          account: caller.account,
          requestId,
          hold: amount,
          leaseMs: LEASE_MS,
          checkpoint: hold.consumedSoFar(),
        })
        .catch((error: unknown) => {
          this.#options.onError(asError(error), requestId);
        });
    }
  }
}

/** What a hold was taken for. */
export interface HoldTerms {
  readonly requestId: string;
  readonly caller: Caller;
  readonly model: Model;
  readonly quote: Quote;
  /** What is held. */
  readonly amount: NanoDollars;
  /** The output limit, a choice, that the hold covers, where it covers less than the request asked for. */
  readonly outputLimit: number | undefined;
}

/** The money of one running request. */
export class Hold {
  readonly terms: HoldTerms;
  readonly #settlements: Settlements;
  #running: { readonly target: Target; readonly meter: UsageMeter } | undefined;
  #settled = false;

  constructor(settlements: Settlements, terms: HoldTerms) {
    this.#settlements = settlements;
    this.terms = terms;
  }

  get outputLimit(): number | undefined {
    return this.terms.outputLimit;
  }

  /** What the client is told of its hold: that its output was limited to what the balance covers. */
  get headers(): Readonly<Record<string, string>> {
    const { outputLimit } = this.terms;
    return outputLimit === undefined ? {} : { 'x-ccr-max-tokens': String(outputLimit) };
  }

  /** From now on this answer is being delivered: its meter is what a crash would be charged by. */
  watch(target: Target, meter: UsageMeter): void {
    this.#running = { target, meter };
  }

  /** Settles or voids, by what became of the request; the second time nothing happens. */
  settle(outcome: Outcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#settlements.post(this, outcome);
  }

  /** What the request would be charged if it were cut now, at most the hold. */
  consumedSoFar(): NanoDollars {
    if (!this.#running) return 0n;
    const { target, meter } = this.#running;
    const cut: Outcome = { ending: 'upstream_cut', target, dispatched: true, answer: { status: 200, meter } };
    const charge = consumptionOf(cut, this.terms)?.charge ?? 0n;
    return charge < this.terms.amount ? charge : this.terms.amount;
  }
}
