import { andThen, type Answer, isLater, rejection } from '../async/answer.ts';
import type { Caller } from '../keys/caller.ts';
import { countedAt } from '../keys/dimensions.ts';
import { minimumHold, needOf, outputLimit } from './admission.ts';
import { type RouterError } from '../errors/router-error.ts';
import { Hold, type HoldServices } from './hold.ts';
import { HoldKeeper, type HoldKeeperOptions } from './hold-keeper.ts';
import { refusalOf } from './refusal.ts';
import type { Settled } from '../observability/hooks.ts';
import type {
  Admit,
  AdmitResult,
  Dimensions,
  IdempotencyKey,
  LedgerStore,
  Settle,
  SettledUsage,
  SettleResult,
} from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { Provider } from '../catalog/provider.ts';
import { PerTarget, type Model } from '../catalog/model.ts';
import { firstHold, type Quote } from '../metering/estimate.ts';
import type { Settings } from '../options/resolve-options.ts';
import { type Charge, chargeFor, type ChargeTerms, calibrateFrom, type Outcome } from './charge-policy.ts';
import type { KeyRates } from '../ledger/contract/key-records.ts';

/** Of a target: more than there are. */
const MAX_TIERS_REPORTED = 8;
const MAX_ACCOUNTS_REPORTED = 10_000;

export interface BillingServiceOptions extends HoldKeeperOptions {
  /** What is learned of tokens. @default nothing at first */
  readonly calibrations?: PerTarget<EstimateCalibration>;
  readonly settings: Pick<Settings, 'holdMode' | 'emptyAnswerIsFree' | 'dimensions'>;
  readonly onSettled: ((settled: Settled) => unknown) | undefined;
  /** A request with the operator's key has cost so much at the provider; where that is unknown, it was charged so much. */
  readonly onCost?: (provider: Provider, cost: NanoDollars) => void;
}

/** A request that is to be sent. */
export interface HoldRequest {
  readonly requestId: string;
  readonly caller: Caller;
  readonly model: Model;
  readonly quote: Quote;
  /** Its answer is to be an event stream. */
  readonly stream: boolean;
  readonly idempotencyKey: IdempotencyKey | undefined;
  /** Whom it is for. */
  readonly endUser: string | undefined;
  readonly dimensions: Dimensions | undefined;
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
  readonly keeper: HoldKeeper;
  readonly store: LedgerStore;
  readonly leaseMs: number;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly #calibrations: PerTarget<EstimateCalibration>;
  /** Service tiers without a price that were reported. */
  readonly #toldTiers = new PerTarget(() => new Set<string>());
  /** Accounts that have as many end users as they may. */
  readonly #toldEndUsers = new Set<string>();
  /** Holds of nothing, of accounts that there are not. */
  readonly #freeHolds = new WeakSet<Hold>();

  constructor(options: BillingServiceOptions) {
    this.#options = options;
    this.keeper = new HoldKeeper(options);
    this.store = options.store;
    this.leaseMs = this.keeper.leaseMs;
    this.onError = options.onError;
    this.#calibrations = options.calibrations ?? new PerTarget(() => new EstimateCalibration());
  }

  /**
   * Holds what the request could cost, in one round trip.
   *
   * @throws {CreditStoreUnavailableError} if the store did not answer; the store voids what it may have held
   */
  admit(request: HoldRequest): Answer<Admission> {
    const result = this.keeper.admit(this.#commandFor(request), request.caller.session);
    return andThen(result, (reply) => this.#admission(request, reply));
  }

  #commandFor(request: HoldRequest): Admit {
    const { requestId, caller, model, quote, idempotencyKey, endUser } = request;
    const command: Writable<Admit> = {
      account: caller.account,
      key: caller.key,
      requestId,
      model: model.id,
      want: this.#grows(request) ? firstHold(quote) : quote.maximum,
      min: minimumHold(quote, this.#options.settings.holdMode),
      tokens: quote.tokens,
      externalKey: caller.externalKey,
      keyVersion: caller.keyVersion,
      accountVersion: caller.accountVersion,
      endUser,
      leaseMs: this.leaseMs,
      notAfter: this.keeper.admitBy,
    };
    if (idempotencyKey) command.idempotencyKey = idempotencyKey;
    return command;
  }

  /** What isn't a stream is there all at once: its hold can't grow. */
  #grows({ stream }: HoldRequest): boolean {
    return stream && this.#options.settings.holdMode === 'adaptive';
  }

  #admission(request: HoldRequest, result: AdmitResult): Admission {
    const { requestId, caller, quote } = request;
    const { holdMode } = this.#options.settings;
    const { rates } = result;
    if (result.code === 'frozen') {
      this.keeper.tell({ type: 'frozen', account: caller.account, requestId });
    }
    if (result.code === 'changed') return { rates, keyChanged: true };
    // What costs nothing needs no account.
    if (result.code === 'no_account' && quote.maximum === 0n) {
      const hold = this.#holdFor(request, undefined, 0n);
      this.#freeHolds.add(hold);
      return { rates, hold };
    }
    if (result.code !== 'ok' && result.code !== 'exists') {
      return { rates, refusal: refusalOf(result, needOf(quote, holdMode)) };
    }
    if (result.code === 'ok' && result.sharesEndUser) this.#tellOfEndUsers(caller.account);
    const limit = this.#grows(request) ? undefined : outputLimit(result.hold, quote, holdMode);
    const hold = this.#holdFor(request, limit, result.hold);
    this.keeper.renewal.add(hold);
    return { rates, hold };
  }

  #holdFor(request: HoldRequest, limit: number | undefined, amount: NanoDollars): Hold {
    return new Hold(this, request, { amount, outputLimit: limit, grows: this.#grows(request) });
  }

  priceOf(cut: Outcome, hold: Hold): NanoDollars {
    return chargeFor(cut, this.#chargeTerms(hold, cut))?.charge ?? 0n;
  }

  delivering(hold: Hold): void {
    this.keeper.renewal.soon(hold);
  }

  /** Posts what became of a hold, off the client's path. */
  post(hold: Hold, outcome: Outcome): void {
    this.keeper.renewal.delete(hold);
    const terms = this.#chargeTerms(hold, outcome);
    const consumption = chargeFor(outcome, terms);
    if (consumption?.unpricedTier !== undefined) this.#tellOfTier(hold, outcome, consumption.unpricedTier);
    const { provider, usesByok } = outcome.target;
    if (consumption && !usesByok) this.#options.onCost?.(provider, consumption.cost ?? consumption.charge);
    const usage = consumption && settledUsage(hold, outcome, consumption, performance.now());
    calibrateFrom(outcome, terms);
    if (this.#freeHolds.has(hold)) {
      this.#tell(hold, outcome, consumption, 0n, undefined);
      return;
    }
    let posted: Answer<void>;
    try {
      posted =
        consumption && usage ? this.#settle(hold, outcome, consumption, usage) : this.#release(hold, outcome);
    } catch (error) {
      posted = rejection(error);
    }
    if (isLater(posted)) this.keeper.track(hold.terms.requestId, posted);
  }

  /** Resolves when nothing is left to be posted of a request that has ended. */
  posted(requestId: string): Promise<void> {
    return this.keeper.posted(requestId);
  }

  /** Charges that the store has not answered. */
  get waiting(): number {
    return this.keeper.waiting;
  }

  /** Resolves when everything that was to be posted is posted. */
  drain(): Promise<void> {
    return this.keeper.drain();
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
    const dimensions = this.#dimensionsOf(hold, outcome);
    const command: Writable<Settle> = {
      account: caller.account,
      requestId,
      amount: consumption.charge,
      key: caller.key,
      model: outcome.target.modelId,
      usage,
      force: true,
    };
    if (this.keeper.watchesBudgets) command.watchesBudgets = true;
    if (endUser !== undefined) command.endUser = endUser;
    if (dimensions) command.dimensions = dimensions;
    if (idempotencyKey) command.idempotencyKey = idempotencyKey;
    const result = this.store.settle(command);
    return isLater(result)
      ? this.#settledLater(hold, outcome, consumption, result)
      : this.#settled(hold, outcome, consumption, result);
  }

  async #settledLater(
    hold: Hold,
    outcome: Outcome,
    consumption: Charge,
    result: Promise<SettleResult>,
  ): Promise<void> {
    this.#settled(hold, outcome, consumption, await result);
  }

  #settled(hold: Hold, outcome: Outcome, consumption: Charge, result: SettleResult): void {
    const { requestId, caller } = hold.terms;
    if (result.code !== 'ok' && result.code !== 'duplicate') {
      this.onError(new Error(`A charge could not be posted: the store says ${result.code}`), requestId);
      // Nothing was charged, and nothing will be.
      this.#tell(hold, outcome, undefined, 0n, undefined);
      return;
    }
    this.keeper.charged(caller.account, requestId, hold.amount, result);
    this.#tell(hold, outcome, consumption, result.charged, result);
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
    this.keeper.tell({ type: 'end_users_full', account });
  }

  #release(hold: Hold, outcome: Outcome): Answer<void> {
    const { requestId, caller } = hold.terms;
    const dimensions = this.#dimensionsOf(hold, outcome);
    const voided = this.store.void({
      account: caller.account,
      requestId,
      key: caller.key,
      // What providers refuse may have any name that a client made up: those don't each get a row of usage.
      model: outcome.target.wildcard ?? outcome.target.modelId,
      ending: outcome.ending,
      ...(dimensions && { dimensions }),
      ...(outcome.dispatched && { provider: outcome.target.provider.name }),
    });
    return andThen(voided, (result) => {
      this.#tell(hold, outcome, undefined, 0n, result.code === 'ok' ? result : undefined);
    });
  }

  #dimensionsOf({ terms }: Hold, { target }: Outcome): Dimensions | undefined {
    return countedAt(target.provider.name, terms.dimensions, this.#options.settings.dimensions);
  }

  #tell(
    hold: Hold,
    outcome: Outcome,
    consumption: Charge | undefined,
    charged: NanoDollars,
    posted: { readonly available?: NanoDollars; readonly writtenOff?: NanoDollars } | undefined,
  ): void {
    const { onSettled } = this.#options;
    if (!onSettled) return;
    const { requestId, caller } = hold.terms;
    const { target, ending } = outcome;
    const dimensions = this.#dimensionsOf(hold, outcome);
    // Made for each request: member by member, which takes less time than spreads.
    const settled: Writable<Settled> = {
      requestId,
      account: caller.account,
      key: caller.key,
      model: target.modelId,
      provider: target.provider.name,
      upstreamModel: target.model,
      charged: formatUsd(charged),
      writtenOff: formatUsd(posted?.writtenOff ?? 0n),
      voided: consumption === undefined,
      usageSource: consumption?.source ?? 'none',
      ending,
    };
    if (dimensions) settled.dimensions = dimensions;
    if (target.wildcard !== undefined) settled.wildcard = target.wildcard;
    if (target.healthKey !== target.model) settled.upstreamWildcard = target.healthKey;
    if (posted?.available !== undefined) settled.available = formatUsd(posted.available);
    if (consumption) {
      settled.byok = target.usesByok;
      settled.price = consumption.price.version;
      settled.usage = consumption.usage;
      if (consumption.cost !== undefined) settled.cost = formatUsd(consumption.cost);
    }
    onSettled(settled);
  }
}

type Writable<Members> = { -readonly [Name in keyof Members]: Members[Name] };

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
  const finishReason = answer?.meter.finishReason;
  const settled: Writable<SettledUsage> = {
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
