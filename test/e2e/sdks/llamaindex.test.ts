import { tool } from '@llamaindex/core/tools';
import { OpenAI } from '@llamaindex/openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import type { Gateway } from '../../helpers/gateway.ts';
import { costOf, PARROT, startParrotGateway } from '../../helpers/parrot-gateway.ts';

const weather = tool({
  name: 'weather',
  description: 'The weather of a city',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `sunny in ${city}`,
});

const ask = (content: string) => ({ messages: [{ role: 'user' as const, content }] });

describe('LlamaIndex, through the router', () => {
  let gateway: Gateway;
  let llm: OpenAI;

  beforeAll(async () => {
    gateway = await startParrotGateway();
    llm = new OpenAI({ model: PARROT, apiKey: gateway.key, baseURL: gateway.baseURL, maxRetries: 0 });
  });

  afterAll(() => gateway.close());

  it('gets an answer, and is charged the usage that it gets', async () => {
    const settled = gateway.nextSettled();
    const { message, raw } = await llm.chat(ask('Say: ahoy'));
    expect(message.content).toContain('ahoy');
    const { usage } = raw as { usage: { prompt_tokens: number; completion_tokens: number } };
    const { prompt_tokens, completion_tokens } = usage;
    expect(Number((await settled).charged)).toBeCloseTo(costOf(prompt_tokens, completion_tokens), 12);
  });

  it('streams text, piece by piece', async () => {
    const pieces: string[] = [];
    for await (const { delta } of await llm.chat({ ...ask('Tell me of the sea'), stream: true })) {
      if (delta) pieces.push(delta);
    }
    expect(pieces.length).toBeGreaterThan(5);
    expect(pieces.join('')).toContain('sea');
  });

  it('calls a tool, whole or streamed, and goes on with its result', async () => {
    const { messages } = ask('What is the weather in Oslo?');
    const { newMessages, toolCalls } = await llm.exec({ messages, tools: [weather] });
    expect(toolCalls).toMatchObject([{ name: 'weather', input: { city: 'Oslo' } }]);
    const { message } = await llm.chat({ messages: [...messages, ...newMessages], tools: [weather] });
    expect(message.content).toContain('sunny in Oslo');

    const streamed = await llm.exec({ messages, tools: [weather], stream: true });
    const said = streamed
      .newMessages()
      .map(({ content }) => JSON.stringify(content))
      .join(' ');
    expect(said).toContain('sunny in Oslo');
  });

  it('gets structured output that fits its schema', async () => {
    const { object } = await llm.exec({
      ...ask('Describe a ship with 3 masts'),
      responseFormat: z.object({ name: z.string(), masts: z.number() }),
    });
    expect(object).toEqual({ name: expect.any(String), masts: 3 });
  });

  it('throws what the router refuses, with its message', async () => {
    const other = new OpenAI({
      model: 'nobody',
      apiKey: gateway.key,
      baseURL: gateway.baseURL,
      maxRetries: 0,
    });
    await expect(other.chat(ask('Hi'))).rejects.toThrow('The model "nobody" does not exist');
  });
});
