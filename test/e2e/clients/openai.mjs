/** The official client of one major version: `node openai.mjs openai-4`. */
import assert from 'node:assert/strict';

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

const { OpenAI } = await import(process.argv[2]);

const clientWith = (apiKey) => new OpenAI({ baseURL: BASE_URL, apiKey });
const openai = clientWith(API_KEY);
const { completions } = openai.chat;
// Version 4 has its helpers apart.
const helpers = completions.stream ? completions : openai.beta.chat.completions;

const ask = (content = 'Say hello.') => ({ model: MODEL, messages: [{ role: 'user', content }] });
const tools = [
  { type: 'function', function: { name: 'weather', strict: true, parameters: WEATHER_PARAMETERS } },
];
const counts = ({ prompt_tokens, completion_tokens }) => [prompt_tokens, completion_tokens];

async function* textsOf(stream) {
  for await (const { choices } of stream) yield choices[0]?.delta.content ?? '';
}

await check('models', async () => {
  const ids = [];
  for await (const { id } of openai.models.list()) ids.push(id);
  assert.deepEqual(ids, [MODEL]);
});

await check('model', async () => {
  assert.equal((await openai.models.retrieve(MODEL)).id, MODEL);
});

await check('completion', async () => {
  const { choices, usage } = await completions.create(ask());
  assert.equal(choices[0].message.content, HELLO);
  return counts(usage);
});

await check('stream', async () => {
  await readThroughGate(textsOf(await completions.create({ ...ask('scenario:gate'), stream: true })));
});

await check('stream_usage', async () => {
  let told;
  const stream_options = { include_usage: true };
  for await (const { usage } of await completions.create({ ...ask(), stream: true, stream_options })) {
    told = usage ?? told;
  }
  return counts(told);
});

await check('tool', async () => {
  const { messages } = ask('What is the weather in Oslo?');
  const first = await completions.create({ model: MODEL, messages, tools });
  const [{ message }] = first.choices;
  const [call] = message.tool_calls;
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
  const result = { role: 'tool', tool_call_id: call.id, content: 'sunny' };
  const second = await completions.create({ model: MODEL, messages: [...messages, message, result], tools });
  assert.equal(second.choices[0].message.content, SUNNY);
  return counts(second.usage);
});

await check('tool_streamed', async () => {
  const { choices } = await helpers.stream({ ...ask('The weather?'), tools }).finalChatCompletion();
  const [call] = choices[0].message.tool_calls;
  assert.equal(call.function.name, 'weather');
  assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
});

await check('structured', async () => {
  const json_schema = { name: 'city', strict: true, schema: CITY_SCHEMA };
  const response_format = { type: 'json_schema', json_schema };
  const { choices, usage } = await completions.create({ ...ask('Describe a city.'), response_format });
  assert.deepEqual(JSON.parse(choices[0].message.content), CITY);
  return counts(usage);
});

const refusals = [
  ['401', OpenAI.AuthenticationError, 'invalid_api_key', () => clientWith(UNKNOWN_KEY), MODEL],
  ['402', OpenAI.APIError, 'insufficient_credits', () => clientWith(EMPTY_KEY), MODEL],
  ['404', OpenAI.NotFoundError, 'model_not_found', () => openai, UNKNOWN_MODEL],
];
for (const [status, kind, code, client, model] of refusals) {
  await check(status, async () => {
    const error = await refusalOf(
      () => client().chat.completions.create({ ...ask(), model }),
      Number(status),
    );
    assert.ok(error instanceof kind);
    assert.equal(error.code, code);
  });
}

await check('abort', async () => {
  let events = 0;
  for await (const _ of await completions.create({ ...ask('scenario:endless'), stream: true })) {
    if (++events === 3) break;
  }
  assert.equal(events, 3);
});
