import type { Ending } from '../ledger/contract/ledger-store.ts';
import { larger, type NanoDollars, smaller } from '../ledger/contract/money.ts';
import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import { isPlausible, outputTokensEstimate, plausiblePart, type Quote } from '../metering/estimate.ts';
import {
  charge,
  chargeReported,
  FREE,
  type Price,
  dearestHeld,
  priceOfServed,
  pricesOfTier,
} from '../metering/price.ts';
import { costsOf, feesOf } from '../metering/server-tool-fees.ts';
import { plainNamesOf } from '../catalog/request-prices.ts';
import { textUsage, type Usage, usageAtMost } from '../metering/usage-dialects.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Target } from '../catalog/model.ts';

/** How a request ended. */
export interface Outcome {
  readonly ending: Ending;
  readonly target: Target;
  /** The request head was written to a connected socket, and the provider has not rejected it. */
  readonly dispatched: boolean;
  /** The answer that was relayed, whole or in part. */
  readonly answer?: RelayedAnswer;
}

export interface RelayedAnswer {
  readonly status: number;
  readonly meter: UsageMeter;
  /** What the client got, if the meter saw more. */
  readonly delivered?: Delivered | undefined;
  /** Time of the first byte of the body, from `performance.now()`; undefined if none came. */
  readonly firstByteAt?: number | undefined;
  /** The client stopped reading, which may be why the answer broke off. */
  readonly stalled?: boolean | undefined;
}

/** Output delivered to the client, in tokens: estimated from its text, and as reported by the provider so far. */
export interface Delivered {
  readonly estimated: number;
  readonly reported: number;
}

/** What is charged for a request. */
export interface Charge {
  /** The charged usage. */
  readonly usage: Usage;
  readonly source: 'upstream' | 'estimated';
  readonly charge: NanoDollars;
  /** What the provider bills, if its price is known: for the whole answer, delivered or not. */
  readonly cost: NanoDollars | undefined;
  /** The price charged: that of the service tier that served the request. */
  readonly price: Price;
  /** The service tier that served the request, if it has no price. */
  readonly unpricedTier: string | undefined;
}

/** What a charge depends on besides the outcome. */
export interface ChargeTerms {
  readonly quote: Quote;
  /** The reserved amount. */
  readonly held: NanoDollars;
  readonly account: string;
  /** The target's. */
  readonly calibration: EstimateCalibration;
  readonly emptyAnswerIsFree: boolean;
}

/** Who pays what: the charge of an ended request, or undefined if its hold is released.
 * | the request ended | charged |
 * |---|---|
 * | before it was sent; rejected or failed by the provider; broken before any output, unless the client had stopped reading | nothing |
 * | with usage from the provider | that usage, zero included; an impossible count is capped at the possible maximum |
 * | with an error in place of an answer, without usage | nothing |
 * | with an error after some output, without usage | the estimated prompt and delivered output |
 * | without usage | the estimated prompt and delivered output |
 * | client disconnected before output | the estimated prompt and hidden output |
 * | client disconnected during the answer | the usage reported so far, else the estimated prompt and delivered output |
 * | client disconnected, answer read to its end | the usage, as if the client had stayed, else the estimated prompt and the output read |
 * | refused by a guard that ran beside it, or left while it ran | as if the client had disconnected during the answer; what had arrived counts as delivered |
 * | credits exhausted | the prompt and the delivered output |
 * | empty, in an error or broken off, with `emptyAnswerIsFree` | nothing, unless the client had stopped reading |
 * Usage is charged at the price of the service tier that served the request, or at the cost that the provider reports,
 * if that is the price. An estimate of delivered or read output includes the average hidden output of its target, and
 * is never charged above the hold. A free request is posted as a charge of 0 if the provider's cost is known, so that
 * the totals show the loss.
 */
export function chargeFor(outcome: Outcome, terms: ChargeTerms): Charge | undefined {
  const charged = chargeOf(outcome, terms);
  if (!charged || !isFree(outcome, charged, terms)) return charged;
  return charged.cost ? { ...charged, charge: 0n } : undefined;
}

/** Calibrates a target's estimates with an answer that reported its usage at its end, even if its client had left. */
export function calibrateFrom(
  { ending, answer }: Outcome,
  { quote, account, calibration }: ChargeTerms,
): void {
  if (!answer || !isSuccess(answer.status) || answer.meter.failed) return;
  const { usage, delivered, finished } = answer.meter;
  if (ending !== 'finished' && !(isLeft(ending) && finished)) return;
  if (!usage) calibration.learnWithoutUsage(account);
  else if (isPlausible(usage, quote)) calibration.learn(account, quote, delivered, usage);
}

function chargeOf(
  { ending, target, dispatched, answer }: Outcome,
  chargeTerms: ChargeTerms,
): Charge | undefined {
  const { quote, held, account, calibration } = chargeTerms;
  const left = isLeft(ending) && dispatched;
  const reported = answer?.meter.usage;
  const usage = reported && plausiblePart(reported, quote);
  const terms = pricingTerms(target, quote, held, usage);
  if (!answer)
    return left ? atMost(held, priced(terms, estimated(chargeTerms, 0, left), 'estimated')) : undefined;

  const { meter, delivered } = answer;
  if (!isSuccess(answer.status)) return usage && priced(terms, usage, 'upstream', meter);

  const seen = outputTokensEstimate(meter.delivered);
  // A count from the middle of an answer may lag behind the output delivered since.
  const mayLag = usage && ending !== 'finished' && !meter.finished;
  const lags = mayLag && calibration.shown(account, seen) > usage.completionTokens;
  if (!usage && seen === 0) {
    if (meter.failed || !(left || answer.stalled === true || (ending === 'finished' && meter.finished)))
      return undefined;
  }
  const counted = usage && !lags ? usage : withEstimate(usage, estimated(chargeTerms, seen, left));
  const source = usage && !lags ? 'upstream' : 'estimated';
  // A cost without counts, at the end of an answer, is for all of it.
  const isBilled = source === 'upstream' || (!usage && ending === 'finished');
  const charged = priced(terms, counted, source, isBilled ? meter : withoutCost(meter));
  if (delivered) {
    const tokens = Math.max(calibration.output(account, delivered.estimated, quote.n), delivered.reported);
    return atMost(held, {
      ...priced(terms, shortened(charged.usage, tokens), 'estimated', withoutCost(meter)),
      cost: charged.cost,
    });
  }
  const isReported = isBilled && charged.price.reported && meter.reportedCost !== undefined;
  return source === 'upstream' || isReported ? charged : atMost(held, charged);
}

/** Usage for this many tokens of text; with none, only a client that did not wait may have missed hidden output. */
function estimated({ quote, account, calibration }: ChargeTerms, seen: number, left: boolean): Usage {
  const output = seen > 0 || left ? calibration.output(account, seen, quote.n) : 0;
  return textUsage(calibration.prompt(account, quote.promptTokens), output);
}

/** The estimate; only its output, where a usage lags behind that. */
function withEstimate(usage: Usage | undefined, estimate: Usage): Usage {
  return usage ? { ...usage, completionTokens: estimate.completionTokens } : estimate;
}

/** Whether the client doesn't pay, although tokens were used. */
function isFree({ ending, answer }: Outcome, { usage }: Charge, { emptyAnswerIsFree }: ChargeTerms): boolean {
  if (answer && !isSuccess(answer.status)) return true;
  if (!emptyAnswerIsFree || !answer || answer.stalled) return false;
  if (isLeft(ending) || ending === 'credits_exhausted') return false;
  const { meter } = answer;
  const isEmpty = usage.completionTokens === 0 && !meter.gaveReason;
  const isBroken = ending !== 'finished' && !meter.finished;
  return meter.failed || isEmpty || isBroken;
}

/** Whether the client didn't get the rest of the answer, by its own doing. */
function isLeft(ending: Ending): boolean {
  return ending === 'client_gone' || ending === 'refused';
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** What an answer reports about its price. */
type ReportedPrice = Pick<UsageMeter, 'serviceTier' | 'reportedCost'>;

/** For the estimate of a part: the reported cost is for another usage. */
function withoutCost({ serviceTier }: ReportedPrice): ReportedPrice {
  return { serviceTier, reportedCost: undefined };
}

/** What the price of a usage depends on, whatever is counted of it. */
interface PricingTerms {
  readonly target: Target;
  readonly held: NanoDollars;
  /** Of the features that were used. */
  readonly fees: NanoDollars;
  /** What they cost at the provider; undefined if that is unknown. */
  readonly toolCosts: NanoDollars | undefined;
}

/** @param searched - the reported usage: it counts searches, even if tokens are estimated */
function pricingTerms(
  target: Target,
  { features }: Quote,
  held: NanoDollars,
  searched: Usage | undefined,
): PricingTerms {
  const { serverTools, usesByok } = target;
  const fees = usesByok || !features ? 0n : feesOf(features, serverTools, searched, target.price);
  const toolCosts =
    usesByok || !features || !target.cost ? 0n : costsOf(features, serverTools, searched, target.cost);
  return { target, held, fees, toolCosts };
}

/** Prices a usage at the tier that served it, or at the reported cost. */
function priced(
  { target, held, fees, toolCosts }: PricingTerms,
  counted: Usage,
  source: Charge['source'],
  answered?: ReportedPrice,
): Charge {
  const { priceVariant, usesByok } = target;
  const usage = priceVariant?.hourWrites ? writtenForAnHour(counted) : counted;
  const reported = answered?.reportedCost;
  const found = servedPrice(target, target.price, answered);
  const covered = dearestHeld(target.price, priceVariant?.serviceTier, usage);
  const price = found ?? covered;
  const isReported = price.reported && reported !== undefined;
  const charged = isReported ? chargeReported(reported, price) : charge(usage, price, fees);
  // A tier that was not requested is charged up to the hold, or up to the price of the requested one.
  const isAsked =
    isReported || price === covered || pricesOfTier(target.price, priceVariant?.serviceTier).includes(price);
  return {
    usage,
    source,
    charge: isAsked ? charged : smaller(charged, larger(held, charge(usage, covered, fees))),
    cost:
      target.reportsCost && reported !== undefined
        ? (reported + 999n) / 1000n
        : target.cost && servedCost(usage, servedPrice(target, target.cost, answered), toolCosts),
    price,
    unpricedTier: found || isReported || price === FREE || usesByok ? undefined : answered?.serviceTier,
  };
}

/** The price of the tier that served an answer; undefined if it has none. */
function servedPrice(
  { priceVariant, provider }: Target,
  price: Price,
  answered: ReportedPrice | undefined,
): Price | undefined {
  return priceOfServed(price, priceVariant?.serviceTier, answered?.serviceTier, plainNamesOf(provider));
}

/** Undefined if the usage has a part that the cost has no price for. */
function servedCost(
  usage: Usage,
  cost: Price | undefined,
  toolCosts: NanoDollars | undefined,
): NanoDollars | undefined {
  const hour = usage.cacheWriteHourTokens ?? 0;
  if (!cost || (hour > 0 && cost !== FREE && cost.cacheWriteHourInput === undefined)) return undefined;
  return toolCosts === undefined ? undefined : charge(usage, cost, toolCosts);
}

/** Counts all cache writes as one-hour writes, unless the usage says how many were. */
function writtenForAnHour(usage: Usage): Usage {
  const { cacheWriteTokens, cacheWriteHourTokens = cacheWriteTokens } = usage;
  return cacheWriteHourTokens === 0 ? usage : { ...usage, cacheWriteHourTokens };
}

function atMost(held: NanoDollars, charged: Charge): Charge {
  return charged.charge <= held ? charged : { ...charged, charge: held };
}

function shortened(usage: Usage, completionTokens: number): Usage {
  return usageAtMost(usage, { ...usage, completionTokens });
}
