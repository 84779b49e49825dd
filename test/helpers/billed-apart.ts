import { expect } from 'vitest';

import type { ModelOptions } from '../../src/index.ts';
import type { Settled } from '../../src/observability/hooks.ts';
import { type Gateway, QUESTION, startGateway } from './gateway.ts';
import { answerJson, completionBody, type Script } from './provider.ts';

/** USD 1 and 2 per million: 100 and 50 tokens are 0.0002. */
export const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: { input: '1', output: '2' },
  contextWindow: 8192,
  maxOutputTokens: 1000,
};
export const COUNTS = { prompt_tokens: 100, completion_tokens: 50 };
export const SEARCH = { type: 'openrouter:web_search' };
export const ADVISOR = { type: 'openrouter:advisor' };

/** The one that was started last; each test file closes it after a test. */
export let gateway: Gateway;

export async function start(
  model: Partial<ModelOptions> = {},
  preset = 'openrouter',
  credits = '5.00',
): Promise<void> {
  const provider = preset === '' ? {} : { preset };
  await startWith({ models: { 'acme/fast': { ...MODEL, ...model } }, provider }, undefined, credits);
}

export async function startWith(...given: Parameters<typeof startGateway>): Promise<void> {
  gateway = await startGateway(...given);
}

/** What a request is charged, and what the journal has as searches. */
export async function charged(
  fields: object,
  script?: Script,
): Promise<{ charged: string; searches: number | undefined }> {
  const { charged: charge, usage } = await settled(fields, script);
  return { charged: charge, searches: usage?.webSearches };
}

export async function settled(fields: object, script: Script = answering({})): Promise<Settled> {
  gateway.provider.script = script;
  const next = gateway.nextSettled();
  const response = await gateway.post({ ...QUESTION, ...fields });
  expect(response.status).toBe(200);
  await response.text();
  return next;
}

export function answering(usage: object): Script {
  return answerJson(completionBody({ usage: { ...COUNTS, ...usage } }));
}

/** The error of a request of which nothing went upstream, and for which nothing was held. */
export async function refusal(
  body: string | object,
): Promise<{ code: string; param: string | null; message: string }> {
  const response = await gateway.post(typeof body === 'string' ? body : { ...QUESTION, ...body });
  const { error } = (await response.json()) as { error: { code: string; param: string; message: string } };
  expect(response.status).toBe(error.code === 'insufficient_credits' ? 402 : 400);
  expect(gateway.provider.received).toEqual([]);
  const { balance, held } = await gateway.router.credits.balance('acct');
  expect({ balance, held }).toEqual({ balance: '5.00', held: '0.00' });
  return error;
}
