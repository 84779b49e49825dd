/** The AI SDK of one major version with a provider: `node ai-sdk.mjs ai-5 openai-compatible-1`. */
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

const [, , sdk, provider] = process.argv;
const { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } = await import(sdk);
const { createOpenAICompatible, createOpenRouter } = await import(provider);

function modelWith(apiKey, id = MODEL) {
  if (createOpenRouter) {
    return createOpenRouter({ baseURL: BASE_URL, apiKey, compatibility: 'strict' }).chat(id);
  }
  const options = { includeUsage: true, supportsStructuredOutputs: true };
  return createOpenAICompatible({ name: 'router', baseURL: BASE_URL, apiKey, ...options })(id);
}

const model = modelWith(API_KEY);
const weather = {
  description: 'The weather of a city',
  inputSchema: jsonSchema(WEATHER_PARAMETERS),
};
const counts = ({ inputTokens, outputTokens }) => [inputTokens, outputTokens];

await check('completion', async () => {
  const { text, usage } = await generateText({ model, prompt: 'Say hello.' });
  assert.equal(text, HELLO);
  return counts(usage);
});

await check('stream', async () => {
  const result = streamText({ model, prompt: 'scenario:gate' });
  await readThroughGate(result.textStream);
  return counts(await result.usage);
});

await check('stream_usage', async () => {
  const result = streamText({ model, prompt: 'Say hello.' });
  assert.equal(await result.text, HELLO);
  return counts(await result.usage);
});

await check('tool', async () => {
  const { text, steps } = await generateText({
    model,
    prompt: 'What is the weather in Oslo?',
    tools: { weather: tool({ ...weather, execute: ({ city }) => `sunny in ${city}` }) },
    stopWhen: stepCountIs(3),
  });
  assert.equal(steps.length, 2);
  assert.deepEqual(steps[0].toolCalls[0].input, { city: 'Oslo' });
  assert.equal(text, SUNNY);
  return counts(steps[1].usage);
});

await check('tool_streamed', async () => {
  const result = streamText({ model, prompt: 'The weather?', tools: { weather: tool(weather) } });
  const [call] = await result.toolCalls;
  assert.equal(call.toolName, 'weather');
  assert.deepEqual(call.input, { city: 'Oslo' });
  return counts(await result.usage);
});

await check('structured', async () => {
  const { object, usage } = await generateObject({
    model,
    prompt: 'Describe a city.',
    schema: jsonSchema(CITY_SCHEMA),
  });
  assert.deepEqual(object, CITY);
  return counts(usage);
});

const refusals = [
  ['401', () => modelWith(UNKNOWN_KEY), 'is unknown'],
  ['402', () => modelWith(EMPTY_KEY), 'credits'],
  ['404', () => modelWith(API_KEY, UNKNOWN_MODEL), 'does not exist'],
];
for (const [status, refused, message] of refusals) {
  await check(status, async () => {
    const error = await refusalOf(() => generateText({ model: refused(), prompt: 'Hi' }), Number(status));
    assert.ok(error.message.includes(message), error.message);
  });
}

await check('abort', async () => {
  const leaving = new AbortController();
  const { textStream } = streamText({ model, prompt: 'scenario:endless', abortSignal: leaving.signal });
  let words = 0;
  try {
    for await (const _ of textStream) {
      if (++words === 3) leaving.abort();
    }
  } catch (error) {
    assert.equal(error.name, 'AbortError');
  }
  assert.ok(words >= 3);
});
