import * as v from 'valibot';

import type { ModelPrices, TargetPrices } from '../router/model-prices.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import { at, component, described } from '../json-api/schema.ts';

const pricing = component(
  'Pricing',
  'USD per token or call, in decimal strings, as in the router’s own GET /models.',
  v.record(
    v.string(),
    v.union([
      v.string(),
      v.array(v.object({ cost: v.string(), min: v.number(), max: v.optional(v.number()) })),
    ]),
  ),
);

const target = component(
  'ModelTarget',
  'Where requests of a model go, what they are sold for, and what they cost.',
  v.object({
    provider: v.string(),
    model: described("the provider's name for the model", v.string()),
    weight: v.number(),
    pricing: described('with the markup', pricing),
    cost: v.optional(described('what the provider bills; missing if it is unknown', pricing)),
    reports_cost: described('the provider reports the cost of each request', v.boolean()),
    unpriced: described(
      'what the provider bills separately, and this has no price for: such requests are rejected',
      v.array(v.string()),
    ),
  }),
);

const model = component(
  'ModelPrices',
  'A model; of a wildcard, its pattern.',
  v.object({
    id: v.string(),
    aliases: v.array(v.string()),
    strategy: v.string(),
    shutdown_at: v.optional(described('from then on its requests are rejected', at)),
    targets: v.array(target),
  }),
);

export const modelEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'listModels',
    method: 'GET',
    path: '/models',
    summary: 'List all models with their targets, prices and costs',
    params: nothing,
    query: nothing,
    body: nothing,
    answer: component(
      'ModelList',
      'All models, in the order of the options.',
      v.object({ object: v.literal('list'), data: v.array(model) }),
    ),
    run: async (_input, router) => ({ answer: list(router.modelPrices().map(modelAnswer)) }),
  }),
];

function modelAnswer({
  id,
  aliases,
  strategy,
  shutdownAt,
  targets,
}: ModelPrices): v.InferOutput<typeof model> {
  return {
    id,
    aliases: [...aliases],
    strategy,
    ...(shutdownAt && { shutdown_at: shutdownAt.toISOString() }),
    targets: targets.map(targetAnswer),
  };
}

function targetAnswer(given: TargetPrices): v.InferOutput<typeof target> {
  const { provider, model: upstream, weight, cost, reportsCost, unpriced } = given;
  return {
    provider,
    model: upstream,
    weight,
    pricing: pricingAnswer(given.pricing),
    ...(cost && { cost: pricingAnswer(cost) }),
    reports_cost: reportsCost,
    unpriced: [...unpriced],
  };
}

function pricingAnswer(prices: TargetPrices['pricing']): v.InferOutput<typeof pricing> {
  return Object.fromEntries(
    Object.entries(prices).map(([name, price]) => [name, typeof price === 'string' ? price : [...price]]),
  );
}
