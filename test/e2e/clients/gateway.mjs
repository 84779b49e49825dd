/** Vercel's client of its AI Gateway: what it asks of an account. */
import assert from 'node:assert/strict';

import { createGateway } from '@ai-sdk/gateway';

import { API_KEY, BASE_URL, check, MODEL, refusalOf, UNKNOWN_KEY } from './checks.mjs';

const gateway = createGateway({ baseURL: BASE_URL, apiKey: API_KEY });

/** A completion; it has another protocol for them. */
async function ask(content, more = {}) {
  const response = await fetch(`${BASE_URL}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content }], ...more }),
  });
  return { id: response.headers.get('x-request-id'), body: response.body, text: () => response.text() };
}

await check('credits', async () => {
  const { balance, totalUsed } = await gateway.getCredits();
  assert.deepEqual([balance, totalUsed], ['5.00', '0.00']);
});

await check('generation', async () => {
  const { id, text } = await ask('Say hello.');
  const { usage } = JSON.parse(await text());
  const info = await gateway.getGenerationInfo({ id });
  const { prompt_tokens, completion_tokens } = usage;
  assert.deepEqual([info.promptTokens, info.completionTokens], [prompt_tokens, completion_tokens]);
  assert.deepEqual(
    [info.model, info.finishReason, info.streamed, info.isByok],
    [MODEL, 'stop', false, false],
  );
  assert.deepEqual([info.cachedTokens, info.cacheCreationTokens, info.billableWebSearchCalls], [10, 0, 0]);
  // 10 of the tokens of the prompt were cached: 0.1 in place of 1 USD per million.
  assert.equal(info.totalCost, Number(((prompt_tokens - 9) * 1e-6 + completion_tokens * 3e-6).toFixed(9)));
  return [prompt_tokens, completion_tokens];
});

await check('generation_streamed', async () => {
  const { id, text } = await ask('Say hello.', { stream: true });
  await text();
  const { streamed, finishReason } = await gateway.getGenerationInfo({ id });
  assert.deepEqual([streamed, finishReason], [true, 'stop']);
});

await check('generation_abandoned', async () => {
  const { id, body } = await ask('scenario:endless', { stream: true });
  const reader = body.getReader();
  await reader.read();
  await reader.cancel();
  for (;;) {
    const info = await gateway.getGenerationInfo({ id }).catch((error) => error);
    // Until the router has heard that its client left.
    if (info.statusCode === 404) continue;
    assert.equal(info.finishReason, 'cancelled', info);
    assert.ok(info.totalCost > 0);
    return;
  }
});

await check('401', async () => {
  const stranger = createGateway({ baseURL: BASE_URL, apiKey: UNKNOWN_KEY });
  await refusalOf(() => stranger.getCredits(), 401);
});

await check('404_generation', async () => {
  await refusalOf(() => gateway.getGenerationInfo({ id: 'none' }), 404);
});

// Both speak a protocol of Vercel's own, which has its version in it: the router serves neither.
await check('404_models', async () => {
  await refusalOf(() => gateway.getAvailableModels(), 404);
});

await check('404_language_model', async () => {
  const prompt = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }];
  await refusalOf(() => gateway(MODEL).doGenerate({ prompt }), 404);
});
