import type { Ending } from '../ledger/contract/ledger-store.ts';
import type { NanoDollars } from '../ledger/contract/money.ts';
import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import { isPlausible, outputTokensEstimate, plausiblePart, type Quote } from '../metering/estimate.ts';
import { charge, chargeReported, FREE, type Price } from '../metering/price.ts';
import { costsOf, feesOf } from '../metering/server-tool-fees.ts';
import { dearestHeld, priceOfServed, pricesOfTier } from '../metering/service-tiers.ts';
import { plainNamesOf } from '../catalog/price-variants.ts';
import { textUsage, type Usage, usageAtMost } from '../metering/usage-dialects.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Target } from '../catalog/model.ts';
import type { Settings } from '../options/resolve-options.ts';

/** What became of a request. */
export interface Outcome {
  readonly ending: Ending;
  readonly target: Target;
  /** Its head was written to a connected socket, and the provider has not refused it. */
  readonly dispatched: boolean;
  /** The answer that was relayed, whole or in part. */
  readonly answer?: RelayedAnswer;
}

export interface RelayedAnswer {
  readonly status: number;
  readonly meter: UsageMeter;
  /** The client left before output came, whatever was read since; undefined where the meter knows. */
  readonly leftBeforeOutput?: boolean | undefined;
  /** What the client got, where the meter saw more than that. */
  readonly delivered?: Delivered | undefined;
  /** When the first byte of its body came, by `performance.now()`; undefined if none did. */
  readonly firstByteAt?: number | undefined;
  /** The client did not read it: where it broke off, that may be why. */
  readonly stalled?: boolean | undefined;
}

/** Output that went on to the client, in tokens: by estimate of its text, and as the provider counted it so far. */
export interface Delivered {
  readonly estimated: number;
  readonly reported: number;
}

/** What is charged for it. */
export interface Charge {
  /** What is paid for. */
  readonly usage: Usage;
  readonly source: 'upstream' | 'estimated';
  readonly charge: NanoDollars;
  /** What the provider bills, where its price is known: for all of the answer, whoever got it. */
  readonly cost: NanoDollars | undefined;
  /** By which it is charged: that of the service tier that served. */
  readonly price: Price;
  /** The service tier that served, where there is no price of it. */
  readonly unpricedTier: string | undefined;
}

/** What a consumption depends on, beside its outcome. */
export interface ChargeTerms {
  readonly quote: Quote;
  /** What is held. */
  readonly held: NanoDollars;
  /** Whose request it is. */
  readonly account: string;
  /** Of the target. */
  readonly calibration: EstimateCalibration;
  readonly policy: Pick<Settings, 'disconnect' | 'emptyAnswerIsFree'>;
}

/**
 * Who pays what when: what is posted of an ended request, or undefined where its hold is given back.
 *
 * | it ended | charged |
 * |---|---|
 * | before it went out; refused or failed by the provider; broken without a word of output, save for a client that had stopped reading | nothing |
 * | with usage from the provider | that usage, zero included; of a count that can't be, the most that can |
 * | with an error in place of an answer, without usage | nothing |
 * | with an error after some output, without usage | the estimate of the prompt and of what was delivered |
 * | without usage | the estimate of the prompt and of what was delivered |
 * | client gone, before output | the estimate of the prompt and of what is hidden; with `disconnect.beforeOutput: 'free'` nothing |
 * | client gone, in mid-answer | the usage told so far, else the estimate of the prompt and of what was delivered |
 * | client gone, the rest drained | the usage, as if it had stayed, else the estimate of the prompt and of what was read |
 * | credits exhausted | the prompt and what was delivered |
 * | empty, in an error or broken off, with `emptyAnswerIsFree` | nothing, unless its client had stopped reading |
 *
 * A usage is charged at the price of the service tier that served, or as its provider reports its cost, where that is the price.
 * An estimate of what was delivered or read has in it what answers of its target hide on average, and never charges more
 * than was held. What is free is posted as a charge of 0 where it is known what the
 * provider bills for it, so that the loss is in the books.
 */
export function chargeFor(outcome: Outcome, terms: ChargeTerms): Charge | undefined {
  const consumption = consumed(outcome, terms);
  if (!consumption || !isFree(outcome, consumption, terms.policy)) return consumption;
  return consumption.cost ? { ...consumption, charge: 0n } : undefined;
}

/** An answer that told its usage at its end shows how good the estimates of its target are, also where its client had left. */
export function calibrateFrom(
  { ending, answer }: Outcome,
  { quote, account, calibration: correction }: ChargeTerms,
): void {
  if (!answer || !isSuccess(answer.status) || answer.meter.failed) return;
  const { usage, delivered, finished } = answer.meter;
  if (ending !== 'finished' && !(ending === 'client_gone' && finished)) return;
  if (!usage) correction.learnUntold(account);
  else if (isPlausible(usage, quote)) correction.learn(account, quote, delivered, usage);
}

function consumed(
  { ending, target, dispatched, answer }: Outcome,
  { quote, held, account, calibration: correction }: ChargeTerms,
): Charge | undefined {
  const left = ending === 'client_gone' && dispatched;
  /** Of so many tokens of text; of none, something may be hidden only where a client did not wait for any. */
  const estimate = (seen: number): Usage => {
    const output = seen > 0 || left ? correction.output(account, seen, quote.n) : 0;
    return textUsage(correction.prompt(account, quote.promptTokens), output);
  };
  const told = answer?.meter.usage;
  const usage = told && plausiblePart(told, quote);
  const priced = pricing(target, quote, held, usage);
  if (!answer) return left ? atMost(held, priced(estimate(0), 'estimated')) : undefined;

  const { meter, delivered } = answer;
  if (!isSuccess(answer.status)) return usage && priced(usage, 'upstream', meter);

  const seen = outputTokensEstimate(meter.delivered);
  // Counts from the middle of an answer may lag behind what was delivered since.
  const mayLag = usage && ending !== 'finished' && !meter.finished;
  const lags = mayLag && correction.shown(account, seen) > usage.completionTokens;
  if (!usage && seen === 0) {
    if (meter.failed || !(left || answer.stalled === true || (ending === 'finished' && meter.finished)))
      return undefined;
  }
  const counted = usage && lags ? { ...usage, completionTokens: estimate(seen).completionTokens } : usage;
  const source = usage && !lags ? 'upstream' : 'estimated';
  const consumption = priced(counted ?? estimate(seen), source, meter);
  if (delivered) {
    const tokens = Math.max(correction.output(account, delivered.estimated, quote.n), delivered.reported);
    return atMost(held, {
      ...priced(shortened(consumption.usage, tokens), 'estimated', meter),
      cost: consumption.cost,
    });
  }
  return source === 'upstream' ? consumption : atMost(held, consumption);
}

/** What the client does not pay for, though it was consumed. */
function isFree(
  { ending, answer }: Outcome,
  { usage }: Charge,
  { disconnect, emptyAnswerIsFree }: ChargeTerms['policy'],
): boolean {
  if (answer && !isSuccess(answer.status)) return true;
  if (ending === 'client_gone') {
    if (disconnect.beforeOutput !== 'free') return false;
    return !answer || (answer.leftBeforeOutput ?? outputTokensEstimate(answer.meter.delivered) === 0);
  }
  if (!emptyAnswerIsFree || !answer || answer.stalled || ending === 'credits_exhausted') return false;
  const { meter } = answer;
  const isEmpty = usage.completionTokens === 0 && !meter.gaveReason;
  const isBroken = ending !== 'finished' && !meter.finished;
  return meter.failed || isEmpty || isBroken;
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** What an answer says of its price. */
type ReportedPrice = Pick<UsageMeter, 'serviceTier' | 'reportedCost'>;

/**
 * By the tier that served, or what the provider reports: of an estimate that would be for another usage.
 *
 * @param searched - as the provider told: it counts searches, whatever is charged for tokens
 */
function pricing(
  target: Target,
  { features = [] }: Quote,
  held: NanoDollars,
  searched: Usage | undefined,
): (counted: Usage, source: Charge['source'], told?: ReportedPrice) => Charge {
  const { priceVariant: asked, provider, serverTools, usesByok } = target;
  const fees = usesByok ? 0n : feesOf(features, serverTools, searched, target.price);
  const toolCosts = usesByok || !target.cost ? 0n : costsOf(features, serverTools, searched, target.cost);
  return (counted, source, told) => {
    const usage = asked?.hourWrites ? writtenForAnHour(counted) : counted;
    const reported = source === 'upstream' ? told?.reportedCost : undefined;
    const served = (each: Price): Price | undefined =>
      priceOfServed(each, asked?.serviceTier, told?.serviceTier, plainNamesOf(provider));
    const found = served(target.price);
    const covered = dearestHeld(target.price, asked?.serviceTier, usage);
    const price = found ?? covered;
    const isReported = price.reported && reported !== undefined;
    const charged = isReported ? chargeReported(reported, price) : charge(usage, price, fees);
    // A tier that wasn't asked for is charged as far as the hold goes, or what was asked for does.
    const isAsked = isReported || pricesOfTier(target.price, asked?.serviceTier).includes(price);
    return {
      usage,
      source,
      charge: isAsked ? charged : least(charged, most(held, charge(usage, covered, fees))),
      cost:
        target.reportsCost && reported !== undefined
          ? (reported + 999n) / 1000n
          : target.cost && servedCost(usage, served(target.cost), toolCosts),
      price,
      unpricedTier: found || isReported || price === FREE || usesByok ? undefined : told?.serviceTier,
    };
  };
}

/** Undefined where it has something in it of which the cost has no price. */
function servedCost(
  usage: Usage,
  cost: Price | undefined,
  toolCosts: NanoDollars | undefined,
): NanoDollars | undefined {
  const hour = usage.cacheWriteHourTokens ?? 0;
  if (!cost || (hour > 0 && cost !== FREE && cost.cacheWriteHourInput === undefined)) return undefined;
  return toolCosts === undefined ? undefined : charge(usage, cost, toolCosts);
}

/** What the request asked to be kept for an hour is, where the usage doesn't tell how much of it. */
function writtenForAnHour(usage: Usage): Usage {
  const { cacheWriteTokens, cacheWriteHourTokens = cacheWriteTokens } = usage;
  return cacheWriteHourTokens === 0 ? usage : { ...usage, cacheWriteHourTokens };
}

function atMost(held: NanoDollars, consumption: Charge): Charge {
  return consumption.charge <= held ? consumption : { ...consumption, charge: held };
}

function least(a: NanoDollars, b: NanoDollars): NanoDollars {
  return a < b ? a : b;
}

function most(a: NanoDollars, b: NanoDollars): NanoDollars {
  return a > b ? a : b;
}

function shortened(usage: Usage, completionTokens: number): Usage {
  return usageAtMost(usage, { ...usage, completionTokens });
}
