import { NoMatchingTargetError } from '../errors/model-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import type { MaxPrice } from '../http/client-routing.ts';
import { DEFAULT_TOKEN_BUDGETS, promptTokensEstimate } from '../metering/estimate.ts';
import type { Price } from '../metering/price.ts';
import { hasLabel, type RequiredLabel, requiredText } from '../options/labels.ts';
import type { Model, SelectedModels, Target } from './model.ts';
import { pricesFor } from './request-prices.ts';

/** What targets must have to be asked at all. */
export interface TargetDemands {
  /** By the key, its account and the request. */
  readonly require: readonly RequiredLabel[];
  readonly maxPrice: MaxPrice | undefined;
  readonly request: ChatRequest;
  /** The client may know the names of providers. */
  readonly namesProviders: boolean;
}

/** A demand, and which targets it excludes. */
interface Demand {
  readonly text: string;
  readonly excludes: (target: Target) => boolean;
}

/**
 * The models with the targets that match, and without those that have none.
 *
 * @throws {NoMatchingTargetError} if no target is left, naming what excluded how many
 */
export function keepMatching(models: SelectedModels, demands: TargetDemands): SelectedModels {
  const all = demandsOf(demands);
  if (all.length === 0) return models;
  const [first, ...rest] = models.flatMap((model) => withMatching(model, all));
  if (first) return [first, ...rest];
  const targets = models.flatMap((model) => model.targets);
  const excluded = all.flatMap(({ text, excludes }) => {
    const those = targets.filter(excludes);
    if (those.length === 0) return [];
    const names = [...new Set(those.map(({ provider }) => provider.name))].slice(0, MAX_NAMED);
    const named = demands.namesProviders ? ` (${names.join(', ')})` : '';
    return `${text} excludes ${those.length} of ${targets.length}${named}`;
  });
  throw new NoMatchingTargetError(
    models.map(({ id }) => id),
    excluded,
  );
}

const MAX_NAMED = 10;

function withMatching(model: Model, demands: readonly Demand[]): readonly Model[] {
  const targets = model.targets.filter((target) => !demands.some(({ excludes }) => excludes(target)));
  const [first, ...rest] = targets;
  if (!first) return [];
  if (targets.length === model.targets.length) return [model];
  return [{ ...model, targets: [first, ...rest], prices: [...new Set(targets.map(({ price }) => price))] }];
}

function demandsOf({ require, maxPrice, request }: TargetDemands): readonly Demand[] {
  const ofLabels = require.map((label) => ({
    text: `${requiredText(label)} of the ${label.by}`,
    excludes: ({ labels }: Target) => !hasLabel(labels, label),
  }));
  if (!maxPrice) return ofLabels;
  const promptTokens = promptTokensEstimate(request.size, DEFAULT_TOKEN_BUDGETS);
  const excludes = (target: Target): boolean =>
    pricesFor(target, request).some((price) => isAbove(price, maxPrice, promptTokens));
  return [...ofLabels, { text: 'max_price of the request', excludes }];
}

/** Judges the rates of a prompt of this size, with the markup. */
function isAbove(price: Price, { prompt, completion, request }: MaxPrice, promptTokens: number): boolean {
  const { input, output } = price.tiers.findLast(({ above }) => promptTokens > above) ?? price;
  const { numerator, denominator, fee } = price.markup;
  const isOver = (rate: bigint, max: bigint | undefined): boolean =>
    max !== undefined && rate * numerator > max * denominator;
  return (
    isOver(input, prompt) ||
    isOver(output, completion) ||
    (request !== undefined && isOver(price.request, request - fee))
  );
}
