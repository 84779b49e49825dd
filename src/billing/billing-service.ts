import { andThen, type Answer, answerOf, isLater } from '../async/answer.ts';
import type { Caller } from '../keys/caller.ts';
import { minimumHold, outputLimit, admissionError } from './admission.ts';
import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import { type RouterError } from '../errors/router-error.ts';
import { asError } from '../platform/as-error.ts';
import { LeaseRenewal } from './lease-renewal.ts';
import { Hold, type HoldServices } from './hold.ts';
import type { Settled } from '../observability/hooks.ts';
import { SlotList } from '../async/slot-list.ts';
import type { LedgerEvent } from '../ledger/contract/events.ts';
import {
  type AdmitResult,
  type IdempotencyKey,
  type LedgerStore,
  type SettledUsage,
  StoreUnavailableError,
} from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { clockOf, type StoreClock } from '../ledger/contract/store-clock.ts';
import { EstimateCalibration } from '../metering/estimate-calibration.ts';
import { PerTarget, type Model } from '../catalog/model.ts';
import { firstHold, type Quote } from '../metering/estimate.ts';
import type { Settings } from '../options/resolve-options.ts';
import { type Charge, chargeFor, type ChargeTerms, calibrateFrom, type Outcome } from './charge-policy.ts';
import type { KeyRates } from '../ledger/contract/key-records.ts';

/** How long an admit may take before the client gets a retryable error. */
const ADMIT_DEADLINE_MS = 5_000;
/** Of a target: more than there are. */
const MAX_TIERS_REPORTED = 8;
const MAX_ACCOUNTS_REPORTED = 10_000;

export interface BillingServiceOptions {
  /** Repeats a settle or void until it is answered, and voids what an admit without an answer may have held: a ReliableStore. */
  readonly store: LedgerStore;
  /** Learns from every admit. @default clockOf(store) */
  readonly clock?: StoreClock;
  /** What is learned of tokens. @default nothing at first */
  readonly calibrations?: PerTarget<EstimateCalibration>;
  readonly settings: Pick<Settings, 'holdMode' | 'emptyAnswerIsFree'>;
  /** How long a hold lives without a renewal of its lease. @default 120000 */
  readonly leaseMs?: number;
  /** How often a lease is renewed. @default 30000 */
  readonly renewMs?: number;
  readonly onSettled: ((settled: Settled) => unknown) | undefined;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly tell: (event: LedgerEvent) => void;
}

interface Posting {
  readonly requestId: string;
  readonly done: Promise<void>;
}

/** A request that is to be sent. */
export interface AdmitRequest {
  readonly requestId: string;
  readonly caller: Caller;
  readonly model: Model;
  readonly quote: Quote;
  /** Its answer is to be an event stream. */
  readonly stream: boolean;
  readonly idempotencyKey: IdempotencyKey | undefined;
  /** Whom it is for. */
  readonly endUser: string | undefined;
  /** When it arrived, by `performance.now()`. */
  readonly startedAt: number;
}

/** What became of a request that asked to be admitted. */
export type Admission = {
  /** What is left of the key's limits, where it has some. */
  readonly rates: KeyRates | undefined;
} & (
  | { readonly hold: Hold; readonly refusal?: undefined }
  /** Nothing is held then. */
  | { readonly refusal: RouterError; readonly hold?: undefined }
  /** The key was changed since it was looked up; nothing is held then. */
  | { readonly keyChanged: true; readonly hold?: undefined; readonly refusal?: undefined }
);

/** The holds of a router: taken before a request leaves, kept alive while it runs, settled once when it ended. */
export class BillingService implements HoldServices {
  readonly #options: BillingServiceOptions;
  readonly store: LedgerStore;
  readonly leaseMs: number;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly #renewal: LeaseRenewal;
  readonly #calibrations: PerTarget<EstimateCalibration>;
  /** Service tiers without a price that were reported. */
  readonly #toldTiers = new PerTarget(() => new Set<string>());
  /** Accounts that have as many end users as they may. */
  readonly #toldEndUsers = new Set<string>();
  readonly #posting = new SlotList<Posting>();
  /** Holds of nothing, of accounts that there are not. */
  readonly #freeHolds = new WeakSet<Hold>();
  readonly #clock: StoreClock;

  constructor(options: BillingServiceOptions) {
    this.#options = options;
    const { store, leaseMs = 120_000, renewMs = 30_000, onError } = options;
    this.store = store;
    this.leaseMs = leaseMs;
    this.onError = onError;
    this.#clock = options.clock ?? clockOf(store);
    this.#calibrations = options.calibrations ?? new PerTarget(() => new EstimateCalibration());
    this.#renewal = new LeaseRenewal(renewMs);
  }

  /**
   * Holds what the request could cost, in one round trip.
   *
   * @throws {CreditStoreUnavailableError} if the store did not answer; the store voids what it may have held
   */
  admit(request: AdmitRequest): Answer<Admission> {
    const result = answerOf(() => this.#ask(request));
    const isFinal = !isLater(result) && result.code !== 'stale';
    return isFinal ? this.#admission(request, result) : this.#admitLater(request, result);
  }

  async #admitLater(request: AdmitRequest, first: Answer<AdmitResult>): Promise<Admission> {
    let result: AdmitResult;
    try {
      result = await first;
      // The clock here or there was set: its client still waits.
      if (result.code === 'stale') {
        this.#clock.sync(result.now);
        result = await this.#ask(request);
      }
    } catch (error) {
      throw error instanceof StoreUnavailableError ? new CreditStoreUnavailableError(error) : error;
    }
    return this.#admission(request, result);
  }

  #ask(request: AdmitRequest): Answer<AdmitResult> {
    const { requestId, caller, model, quote, idempotencyKey, endUser } = request;
    return this.store.admit({
      account: caller.account,
      key: caller.key,
      requestId,
      model: model.id,
      want: this.#grows(request) ? firstHold(quote) : quote.maximum,
      min: minimumHold(quote, this.#options.settings.holdMode),
      leaseMs: this.leaseMs,
      tokens: quote.tokens,
      externalKey: caller.externalKey,
      keyVersion: caller.keyVersion,
      accountVersion: caller.accountVersion,
      endUser,
      notAfter: this.#clock.now() + ADMIT_DEADLINE_MS,
      ...(idempotencyKey && { idempotencyKey }),
    });
  }

  /** What isn't a stream is there all at once: its hold can't grow. */
  #grows({ stream }: AdmitRequest): boolean {
    return stream && this.#options.settings.holdMode === 'adaptive';
  }

  #admission(request: AdmitRequest, result: AdmitResult): Admission {
    this.#clock.sync(result.now);
    const { requestId, caller, quote } = request;
    const { holdMode } = this.#options.settings;
    const { rates } = result;
    if (result.code === 'frozen') {
      this.#options.tell({ type: 'frozen', account: caller.account, requestId });
    }
    if (result.code === 'changed') return { rates, keyChanged: true };
    // What costs nothing needs no account.
    if (result.code === 'no_account' && quote.maximum === 0n) {
      const hold = this.#holdFor(request, undefined, 0n);
      this.#freeHolds.add(hold);
      return { rates, hold };
    }
    if (result.code !== 'ok' && result.code !== 'exists') {
      return { rates, refusal: admissionError(result, quote, holdMode) };
    }
    if (result.code === 'ok' && result.sharesEndUser) this.#tellOfEndUsers(caller.account);
    const limit = this.#grows(request) ? undefined : outputLimit(result.hold, quote, holdMode);
    const hold = this.#holdFor(request, limit, result.hold);
    this.#renewal.add(hold);
    return { rates, hold };
  }

  #holdFor(request: AdmitRequest, limit: number | undefined, amount: NanoDollars): Hold {
    const { requestId, caller, quote, stream, startedAt, idempotencyKey, endUser } = request;
    const grows = this.#grows(request);
    const kept = { requestId, caller, quote, stream, startedAt, idempotencyKey, endUser };
    const terms = { ...kept, outputLimit: limit, grows };
    return new Hold(this, terms, amount);
  }

  priceOf(cut: Outcome, hold: Hold): NanoDollars {
    return chargeFor(cut, this.#chargeTerms(hold, cut))?.charge ?? 0n;
  }

  delivering(hold: Hold): void {
    this.#renewal.soon(hold);
  }

  /** Posts what became of a hold, off the client's path. */
  post(hold: Hold, outcome: Outcome): void {
    this.#renewal.delete(hold);
    const terms = this.#chargeTerms(hold, outcome);
    const consumption = chargeFor(outcome, terms);
    if (consumption?.unpricedTier !== undefined) this.#tellOfTier(hold, outcome, consumption.unpricedTier);
    const usage = consumption && settledUsage(hold, outcome, consumption, performance.now());
    calibrateFrom(outcome, terms);
    if (this.#freeHolds.has(hold)) {
      this.#tell(hold, outcome, consumption, 0n, 0n);
      return;
    }
    const posted = answerOf(() =>
      consumption && usage ? this.#settle(hold, outcome, consumption, usage) : this.#release(hold, outcome),
    );
    if (isLater(posted)) this.#awaitPosting(hold.terms.requestId, posted);
  }

  #awaitPosting(requestId: string, posted: Promise<void>): void {
    const done = posted.catch((error: unknown) => {
      // A store gives up only what waits when it is closed; who closes it tells how much that is.
      if (!(error instanceof StoreUnavailableError)) this.onError(asError(error), requestId);
    });
    const place = this.#posting.add({ requestId, done });
    void done.finally(() => {
      this.#posting.delete(place);
    });
  }

  /** Resolves when nothing is left to be posted of a request that has ended. */
  async posted(requestId: string): Promise<void> {
    const posting = this.#posting.values().find((one) => one.requestId === requestId);
    await posting?.done;
  }

  /** Charges that the store has not answered. */
  get waiting(): number {
    return this.#posting.size;
  }

  /** Resolves when everything that was to be posted is posted. */
  async drain(): Promise<void> {
    this.#renewal.stop();
    while (this.#posting.size > 0) await Promise.all(this.#posting.values().map(({ done }) => done));
  }

  #chargeTerms({ terms, amount }: Hold, { target }: Outcome): ChargeTerms {
    const { quote, caller } = terms;
    return {
      quote,
      held: amount,
      account: caller.account,
      calibration: this.#calibrations.of(target),
      emptyAnswerIsFree: this.#options.settings.emptyAnswerIsFree,
    };
  }

  #settle(hold: Hold, outcome: Outcome, consumption: Charge, usage: SettledUsage): Answer<void> {
    const { requestId, caller, idempotencyKey, endUser } = hold.terms;
    const settled = this.store.settle({
      account: caller.account,
      requestId,
      amount: consumption.charge,
      key: caller.key,
      model: outcome.target.modelId,
      usage,
      force: true,
      ...(endUser !== undefined && { endUser }),
      ...(idempotencyKey && { idempotencyKey }),
    });
    return andThen(settled, (result) => {
      if (result.code !== 'ok' && result.code !== 'duplicate') {
        this.onError(new Error(`A charge could not be posted: the store says ${result.code}`), requestId);
        return;
      }
      const writtenOff = result.code === 'ok' ? result.writtenOff : 0n;
      if (result.code === 'ok') this.#tellOfLosses(hold, result.charged, writtenOff);
      this.#tell(hold, outcome, consumption, result.charged, writtenOff);
    });
  }

  /** Once of each target and tier: its provider serves what has no price. */
  #tellOfTier({ terms }: Hold, { target }: Outcome, tier: string): void {
    const told = this.#toldTiers.of(target);
    if (told.has(tier) || told.size === MAX_TIERS_REPORTED) return;
    told.add(tier);
    const { provider, model, modelId } = target;
    this.onError(
      new Error(
        `${provider.name} served ${model} in the service tier ${JSON.stringify(tier)}, which has no price: ` +
          `give models[${JSON.stringify(modelId)}].pricing.serviceTiers`,
      ),
      terms.requestId,
    );
  }

  /** Once of each account: some of its end users share their limits from now on. */
  #tellOfEndUsers(account: string): void {
    if (this.#toldEndUsers.has(account) || this.#toldEndUsers.size === MAX_ACCOUNTS_REPORTED) return;
    this.#toldEndUsers.add(account);
    this.#options.tell({ type: 'end_users_full', account });
  }

  #tellOfLosses({ terms, amount }: Hold, charged: NanoDollars, writtenOff: NanoDollars): void {
    const { tell } = this.#options;
    const { requestId, caller } = terms;
    const { account } = caller;
    if (charged > amount) {
      tell({ type: 'overrun', account, requestId, held: formatUsd(amount), charged: formatUsd(charged) });
    }
    if (writtenOff > 0n) tell({ type: 'write_off', account, requestId, amount: formatUsd(writtenOff) });
  }

  #release(hold: Hold, outcome: Outcome): Answer<void> {
    const { requestId, caller } = hold.terms;
    const voided = this.store.void({
      account: caller.account,
      requestId,
      key: caller.key,
      // What providers refuse may have any name that a client made up: those don't each get a row of usage.
      model: outcome.target.wildcard ?? outcome.target.modelId,
      ending: outcome.ending,
      ...(outcome.dispatched && { provider: outcome.target.provider.name }),
    });
    return andThen(voided, () => {
      this.#tell(hold, outcome, undefined, 0n, 0n);
    });
  }

  #tell(
    hold: Hold,
    { target, ending }: Outcome,
    consumption: Charge | undefined,
    charged: NanoDollars,
    writtenOff: NanoDollars,
  ): void {
    const { onSettled } = this.#options;
    if (!onSettled) return;
    const { requestId, caller } = hold.terms;
    onSettled({
      requestId,
      account: caller.account,
      key: caller.key,
      model: target.modelId,
      ...(target.wildcard !== undefined && { wildcard: target.wildcard }),
      provider: target.provider.name,
      upstreamModel: target.model,
      ...(target.healthKey !== target.model && { upstreamWildcard: target.healthKey }),
      charged: formatUsd(charged),
      writtenOff: formatUsd(writtenOff),
      ...(consumption?.cost !== undefined && { cost: formatUsd(consumption.cost) }),
      ...(consumption && { price: consumption.price.version }),
      voided: consumption === undefined,
      ...(consumption && { usage: consumption.usage }),
      usageSource: consumption?.source ?? 'none',
      ending,
    });
  }
}

/** The usage of a charge for the journal, with who answered the request, how and how fast. */
function settledUsage(
  { terms }: Hold,
  { target, answer, ending }: Outcome,
  { usage, source, cost, price }: Charge,
  endedAt: number,
): SettledUsage {
  const { modelId, model, provider, usesByok } = target;
  const { startedAt, stream } = terms;
  const firstByteAt = answer?.firstByteAt;
  const finishReason = answer?.meter.failed === true ? 'error' : answer?.meter.finishReason;
  const settled: { -readonly [Name in keyof SettledUsage]: SettledUsage[Name] } = {
    promptTokens: usage.promptTokens,
    cachedTokens: usage.cachedTokens,
    completionTokens: usage.completionTokens,
    reasoningTokens: usage.reasoningTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    webSearches: usage.webSearches,
    source,
    price: price.version,
    ending,
    provider: provider.name,
    byok: usesByok,
    durationMs: Math.round(endedAt - startedAt),
    streamed: stream,
  };
  if (cost !== undefined) settled.cost = cost;
  if (model !== modelId) settled.upstreamModel = model;
  if (firstByteAt !== undefined) settled.firstByteMs = Math.round(firstByteAt - startedAt);
  if (finishReason !== undefined) settled.finishReason = finishReason;
  return settled;
}
