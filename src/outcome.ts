import type { Ending } from './ledger/ledger.ts';
import type { NanoDollars } from './ledger/money.ts';
import { isPlausible, outputTokensEstimate, type Quote } from './metering/estimate.ts';
import { charge } from './metering/price.ts';
import type { Usage } from './metering/usage-dialects.ts';
import type { UsageMeter } from './metering/usage-meter.ts';
import type { Target } from './models/catalog.ts';

/** What became of a request. */
export interface Outcome {
  readonly ending: Ending;
  readonly target: Target;
  /** It went out to a provider. */
  readonly dispatched: boolean;
  /** The answer that was relayed, whole or in part. */
  readonly answer?: { readonly status: number; readonly meter: UsageMeter };
}

/** What is charged for it. */
export interface Consumption {
  readonly usage: Usage;
  readonly source: 'upstream' | 'estimated';
  readonly charge: NanoDollars;
  /** What the provider bills, where its price is known. */
  readonly cost: NanoDollars | undefined;
}

/**
 * Who pays what when: what an ended request consumed, or undefined where nothing is charged.
 *
 * | it ended | charged |
 * |---|---|
 * | before it went out; refused or failed by the provider; broken without a word of output | nothing |
 * | with usage from the provider | that usage, zero included |
 * | with an error in place of an answer, without usage | nothing |
 * | with an error after some output, without usage | the estimate of the prompt and of what was delivered |
 * | without usage | the estimate of the prompt and of what was delivered |
 * | client gone, before output | the estimate of the prompt |
 * | client gone, in mid-answer | the estimate of the prompt and of what was delivered |
 *
 * An estimate without any usage never charges more than was held.
 */
export function consumptionOf(
  { ending, target, dispatched, answer }: Outcome,
  { quote, amount }: { readonly quote: Quote; readonly amount: NanoDollars },
): Consumption | undefined {
  const left = ending === 'client_gone' && dispatched;
  if (!answer) return left ? estimated(quote.promptTokens, 0, target, amount) : undefined;
  if (answer.status < 200 || answer.status >= 300) return undefined;

  const { meter } = answer;
  const { usage, delivered } = meter;
  const seen = outputTokensEstimate(delivered);
  if (usage && isPlausible(usage, quote)) {
    // Counts from the middle of an answer may lag behind what was delivered since.
    const lags = ending !== 'finished' && !meter.finished && seen > usage.completionTokens;
    return exact(
      lags ? { ...usage, completionTokens: seen } : usage,
      target,
      lags ? 'estimated' : 'upstream',
    );
  }
  if (meter.failed && seen === 0) return undefined;
  if (seen > 0 || left || (ending === 'finished' && meter.finished)) {
    return estimated(quote.promptTokens, seen, target, amount);
  }
  return undefined;
}

function exact(usage: Usage, target: Target, source: Consumption['source']): Consumption {
  return {
    usage,
    source,
    charge: charge(usage, target.price),
    cost: target.cost && charge(usage, target.cost),
  };
}

function estimated(
  promptTokens: number,
  completionTokens: number,
  target: Target,
  atMost: NanoDollars,
): Consumption {
  const usage: Usage = {
    promptTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    completionTokens,
    reasoningTokens: 0,
    audioPromptTokens: 0,
    audioCompletionTokens: 0,
  };
  const consumption = exact(usage, target, 'estimated');
  return consumption.charge <= atMost ? consumption : { ...consumption, charge: atMost };
}
