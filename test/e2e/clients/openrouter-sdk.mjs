/** OpenRouter's own client. */
import assert from 'node:assert/strict';

import { HTTPClient, OpenRouter } from '@openrouter/sdk';
import { OpenRouterError, ResponseValidationError } from '@openrouter/sdk/models/errors';

import {
  API_KEY,
  BASE_URL,
  check,
  CITY,
  CITY_SCHEMA,
  EMPTY_KEY,
  HELLO,
  MODEL,
  readThroughGate,
  refusalOf,
  SUNNY,
  UNKNOWN_KEY,
  UNKNOWN_MODEL,
  WEATHER_PARAMETERS,
} from './checks.mjs';

const clientWith = (apiKey) => new OpenRouter({ serverURL: BASE_URL, apiKey });
const router = clientWith(API_KEY);
const [author, slug] = MODEL.split('/');

const ask = (content = 'Say hello.') => ({ model: MODEL, messages: [{ role: 'user', content }] });
const send = (chatRequest, client = router) => client.chat.send({ chatRequest });
const tools = [{ type: 'function', function: { name: 'weather', parameters: WEATHER_PARAMETERS } }];
const counts = ({ promptTokens, completionTokens }) => [promptTokens, completionTokens];

async function* textsOf(stream) {
  for await (const { choices } of stream) yield choices[0]?.delta.content ?? '';
}

await check('models', async () => {
  const pages = [];
  for await (const { result } of await router.models.list({ limit: 1 })) pages.push(result.data);
  assert.deepEqual(
    pages.map((models) => models.map(({ id }) => id)),
    [[MODEL], []],
  );
  const [{ contextLength, pricing, topProvider, architecture, supportedParameters }] = pages[0];
  assert.equal(contextLength, 8192);
  assert.deepEqual([pricing.prompt, pricing.completion], ['0.000001', '0.000003']);
  assert.equal(topProvider.maxCompletionTokens, 1000);
  assert.deepEqual(architecture.outputModalities, ['text']);
  assert.deepEqual(supportedParameters, []);
});

await check('model', async () => {
  const { data } = await router.models.get({ author, slug });
  assert.equal(data.id, MODEL);
});

await check('credits', async () => {
  const { data } = await router.credits.getCredits();
  assert.equal(data.totalCredits, 5);
  assert.equal(typeof data.totalUsage, 'number');
});

await check('completion', async () => {
  const { choices, usage } = await send(ask());
  assert.equal(choices[0].message.content, HELLO);
  return counts(usage);
});

await check('stream', async () => {
  await readThroughGate(textsOf(await send({ ...ask('scenario:gate'), stream: true })));
});

await check('stream_usage', async () => {
  let told;
  const streamOptions = { includeUsage: true };
  // Of a provider that writes no `usage: null` into the other chunks: asked by the client itself, they stay.
  const stream = await send({ ...ask('scenario:gate'), stream: true, streamOptions });
  const withUsage = async function* () {
    for await (const { choices, usage } of stream) {
      told = usage ?? told;
      yield choices[0]?.delta.content ?? '';
    }
  };
  await readThroughGate(withUsage());
  return counts(told);
});

await check('tool', async () => {
  const { messages } = ask('What is the weather in Oslo?');
  const first = await send({ model: MODEL, messages, tools });
  const [{ message }] = first.choices;
  const [call] = message.toolCalls;
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
  const result = { role: 'tool', toolCallId: call.id, content: 'sunny' };
  const second = await send({ model: MODEL, messages: [...messages, message, result], tools });
  assert.equal(second.choices[0].message.content, SUNNY);
  return counts(second.usage);
});

await check('tool_streamed', async () => {
  let name = '';
  let json = '';
  for await (const { choices } of await send({ ...ask('The weather?'), stream: true, tools })) {
    for (const call of choices[0]?.delta.toolCalls ?? []) {
      name += call.function?.name ?? '';
      json += call.function?.arguments ?? '';
    }
  }
  assert.equal(name, 'weather');
  assert.deepEqual(JSON.parse(json), { city: 'Oslo' });
});

await check('structured', async () => {
  const jsonSchema = { name: 'city', strict: true, schema: CITY_SCHEMA };
  const responseFormat = { type: 'json_schema', jsonSchema };
  const { choices, usage } = await send({ ...ask('Describe a city.'), responseFormat });
  assert.deepEqual(JSON.parse(choices[0].message.content), CITY);
  return counts(usage);
});

// What it asks for is the id of the answer's head, not of its body.
await check('generation', async () => {
  let id;
  const httpClient = new HTTPClient();
  httpClient.addHook('response', ({ headers }) => {
    id = headers.get('x-request-id');
  });
  const { usage } = await send(ask(), new OpenRouter({ serverURL: BASE_URL, apiKey: API_KEY, httpClient }));
  const { data } = await router.generations.getGeneration({ id });
  assert.equal(data.model, MODEL);
  assert.equal(data.finishReason, 'stop');
  assert.deepEqual([data.streamed, data.cancelled, data.isByok], [false, false, false]);
  const { tokensPrompt, tokensCompletion } = data;
  assert.deepEqual([tokensPrompt, tokensCompletion], counts(usage));
  // 10 of the tokens of the prompt were cached: 0.1 in place of 1 USD per million.
  assert.equal(data.totalCost, Number(((tokensPrompt - 9) * 1e-6 + tokensCompletion * 3e-6).toFixed(9)));
});

const refusals = [
  ['401', 'invalid_api_key', () => send(ask(), clientWith(UNKNOWN_KEY))],
  ['402', 'insufficient_credits', () => send(ask(), clientWith(EMPTY_KEY))],
  ['404', 'model_not_found', () => send({ ...ask(), model: UNKNOWN_MODEL })],
  ['404_generation', 'generation_not_found', () => router.generations.getGeneration({ id: 'none' })],
];
for (const [name, code, run] of refusals) {
  await check(name, async () => {
    const error = await refusalOf(run, Number(name.slice(0, 3)));
    assert.ok(error instanceof OpenRouterError);
    // Its own classes want a number where clients of OpenAI want ours.
    assert.ok(error instanceof ResponseValidationError);
    assert.equal(JSON.parse(error.body).error.code, code);
  });
}

await check('abort', async () => {
  let events = 0;
  for await (const _ of await send({ ...ask('scenario:endless'), stream: true })) {
    if (++events === 3) break;
  }
  assert.equal(events, 3);
});
