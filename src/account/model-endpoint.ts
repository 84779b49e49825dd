import * as v from 'valibot';

import type { ModelRecord } from '../catalog/model-record.ts';
import { component, described, whole } from '../json-api/schema.ts';
import { type Endpoint, endpoint, list, nothing } from './endpoint.ts';

const tier = v.object({ cost: v.string(), min: whole, max: v.optional(whole) });

const ownModels = component(
  'OwnModels',
  'The models that the account may use, at its prices. GET /v1/models says more of each.',
  v.object({
    object: v.literal('list'),
    data: v.array(
      v.object({
        id: v.string(),
        name: v.string(),
        description: v.string(),
        owned_by: v.string(),
        context_length: v.nullable(whole),
        pricing: described(
          'USD per token or call, as decimal strings',
          v.record(v.string(), v.union([v.string(), v.array(tier)])),
        ),
      }),
    ),
  }),
);

export const modelEndpoint: Endpoint = endpoint({
  operation: 'listModels',
  method: 'GET',
  path: '/models',
  summary: 'List the models that the account may use, at its prices',
  params: nothing,
  query: nothing,
  body: nothing,
  answer: ownModels,
  async run({ caller: { account, key } }, { router, newKeys }) {
    const { models, markup } = key === undefined ? newKeys : ((await router.keys.get(account, key)) ?? {});
    const records = await router.models({ account, ...(models && { models }), ...(markup && { markup }) });
    return { answer: list(records.map(modelAnswer)) };
  },
});

function modelAnswer({ id, name, description, owned_by, context_length, pricing }: ModelRecord) {
  const prices = Object.entries(pricing).map(([part, price]) => [
    part,
    typeof price === 'string' ? price : [...price],
  ]);
  return { id, name, description, owned_by, context_length, pricing: Object.fromEntries(prices) };
}
