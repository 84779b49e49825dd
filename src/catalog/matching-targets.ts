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
  /** The parameters of the request that targets must take; undefined if they need not. */
  readonly parameters: ReadonlySet<string> | undefined;
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

/** The targets of a model that have all these labels. */
export function targetsWithLabels(model: Model, require: readonly RequiredLabel[]): readonly Target[] {
  return model.targets.filter(({ labels }) => require.every((label) => hasLabel(labels, label)));
}

const MAX_NAMED = 10;

function withMatching(model: Model, demands: readonly Demand[]): readonly Model[] {
  const targets = model.targets.filter((target) => !demands.some(({ excludes }) => excludes(target)));
  const [first, ...rest] = targets;
  if (!first) return [];
  if (targets.length === model.targets.length) return [model];
  return [{ ...model, targets: [first, ...rest], prices: [...new Set(targets.map(({ price }) => price))] }];
}

function demandsOf({ require, maxPrice, parameters, request }: TargetDemands): readonly Demand[] {
  const ofLabels = require.map((label) => ({
    text: `${requiredText(label)} of the ${label.by}`,
    excludes: ({ labels }: Target) => !hasLabel(labels, label),
  }));
  const all = [...ofLabels, ...[...(parameters ?? [])].map(parameterDemand)];
  if (!maxPrice) return all;
  const promptTokens = promptTokensEstimate(request.size, DEFAULT_TOKEN_BUDGETS);
  const excludes = (target: Target): boolean =>
    pricesFor(target, request).some((price) => isAbove(price, maxPrice, promptTokens));
  return [...all, { text: 'max_price of the request', excludes }];
}

function parameterDemand(name: string): Demand {
  return {
    text: `the parameter ${JSON.stringify(name)}, by require_parameters of the request,`,
    excludes: (target) => !takes(target, name),
  };
}

/** Whether a target is known to take a parameter, and its rules leave that to the client. */
function takes({ parameters, body }: Target, name: string): boolean {
  if (!parameters) return false;
  const rule = body?.rules.find((each) => each.name === name);
  if (rule?.action === 'drop' || rule?.action === 'set') return false;
  const names = [name, ...(rule?.action === 'rename' ? [rule.to] : []), ...(OTHER_NAMES.get(name) ?? [])];
  return names.some((each) => parameters.has(each));
}

/** Names of parameters by which OpenRouter lists support for others. */
const OTHER_NAMES: ReadonlyMap<string, readonly string[]> = new Map([['reasoning_effort', ['reasoning']]]);

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
