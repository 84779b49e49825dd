import * as v from 'valibot';

import type { ModelPrices, TargetPrices } from '../router/model-prices.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';
import type { AdministeredRouter } from './options.ts';
import { inJson } from '../json-api/in-json.ts';
import { ConflictError, modelNotFound, targetNotFound } from '../json-api/errors.ts';
import { at, component, described, object, textOf } from '../json-api/schema.ts';

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
    weight_by_hand: v.optional(
      described(
        'an operator has set the weight',
        v.object({
          at,
          by: v.optional(described('the name that authorize returned', v.string())),
          configured: described('what the options say', v.number()),
        }),
      ),
    ),
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

const WEIGHT = 'a number from 0 to 1000000000';
const weight = described(WEIGHT, v.pipe(v.number(WEIGHT), v.minValue(0, WEIGHT), v.maxValue(1e9, WEIGHT)));

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
  endpoint({
    operation: 'setWeight',
    method: 'POST',
    path: '/providers/{name}/weight',
    summary: 'Set the weight of a target of a model whose strategy is weighted',
    params: object({ name: textOf(1, 256) }),
    query: nothing,
    body: component(
      'SetWeight',
      'The weight of the targets that a model has at the provider.',
      object({
        model: described('the ID of a model, or the pattern of a wildcard', textOf(1, 256)),
        target: v.optional(
          described('if the model has several there: the provider’s name for it', textOf(1, 256)),
        ),
        weight: described(
          '0: asked only after all others have failed; that of the options takes it back',
          weight,
        ),
      }),
    ),
    answer: model,
    errorStatuses: [404, 409],
    change: { action: 'providers.weight', needs: 'providers', repeat: 'Changes nothing.' },
    async run({ params: { name }, body, caller: operator }, router) {
      const place = findPlace(router, name, body);
      const given = { by: operator.name, ...(body.target !== undefined && { target: body.target }) };
      const after = await router.providers.setWeight(body.model, name, body.weight, given);
      return {
        answer: modelAnswer(after),
        target: `${body.model} at ${name}/${place.model}`,
        before: { weight: place.weight },
        after: { weight: body.weight },
      };
    },
  }),
];

/** @throws {NotFoundError | ConflictError} unless the model has targets there that are chosen by weight */
function findPlace(
  router: AdministeredRouter,
  provider: string,
  { model: id, target }: { readonly model: string; readonly target?: string | undefined },
): TargetPrices {
  const model = router.modelPrices().find((each) => each.id === id);
  if (!model) throw modelNotFound(id);
  const found = model.targets.find(
    (each) => each.provider === provider && (target === undefined || each.model === target),
  );
  if (!found) {
    const places = model.targets.map((each) => `${each.provider}/${each.model}`);
    throw targetNotFound(id, target === undefined ? provider : `${provider}/${target}`, places);
  }
  if (model.strategy !== 'weighted') {
    const message = `Requests of ${id} are not spread by weight: its strategy is ${model.strategy}.`;
    throw new ConflictError('not_weighted', message, 'model');
  }
  return found;
}

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
  const { provider, model: upstream, weight, weightByHand, cost, reportsCost, unpriced } = given;
  return {
    provider,
    model: upstream,
    weight,
    ...(weightByHand && { weight_by_hand: inJson(weightByHand) }),
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
