import { createOpenAICompatible, type OpenAICompatibleProvider } from '@ai-sdk/openai-compatible';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import type { Gateway } from '../../helpers/gateway.ts';
import { costOf, PARROT, startParrotGateway } from '../../helpers/parrot-gateway.ts';

describe('the AI SDK, through the router', () => {
  let gateway: Gateway;
  let provider: OpenAICompatibleProvider;

  beforeAll(async () => {
    gateway = await startParrotGateway();
    provider = createOpenAICompatible({
      name: 'gateway',
      baseURL: gateway.baseURL,
      apiKey: gateway.key,
      includeUsage: true,
      supportsStructuredOutputs: true,
    });
  });

  afterAll(() => gateway.close());

  it('generates text, and is charged the usage that it gets', async () => {
    const settled = gateway.nextSettled();
    const { text, usage } = await generateText({ model: provider(PARROT), prompt: 'Say: ahoy' });
    expect(text).toContain('ahoy');
    const { inputTokens = 0, outputTokens = 0 } = usage;
    expect(outputTokens).toBeGreaterThan(0);
    expect(Number((await settled).charged)).toBeCloseTo(costOf(inputTokens, outputTokens), 12);
  });

  it('streams text, piece by piece', async () => {
    const { textStream } = streamText({ model: provider(PARROT), prompt: 'Tell me of the sea' });
    const pieces: string[] = [];
    for await (const piece of textStream) pieces.push(piece);
    expect(pieces.length).toBeGreaterThan(5);
    expect(pieces.join('')).toContain('sea');
  });

  it('calls a tool and goes on with its result', async () => {
    const { text, steps } = await generateText({
      model: provider(PARROT),
      prompt: 'What is the weather in Oslo?',
      tools: {
        weather: tool({
          description: 'The weather of a city',
          inputSchema: z.object({ city: z.string() }),
          execute: ({ city }) => `sunny in ${city}`,
        }),
      },
      stopWhen: stepCountIs(3),
    });
    expect(steps[0]?.toolCalls).toMatchObject([{ toolName: 'weather', input: { city: expect.any(String) } }]);
    expect(text).toContain('sunny');
  });

  it('streams a tool call', async () => {
    const result = streamText({
      model: provider(PARROT),
      prompt: 'What is the weather in Oslo?',
      tools: { weather: tool({ inputSchema: z.object({ city: z.string() }) }) },
    });
    expect(await result.toolCalls).toMatchObject([
      { toolName: 'weather', input: { city: expect.any(String) } },
    ]);
  });

  it('gets structured output that fits its schema', async () => {
    const { output } = await generateText({
      model: provider(PARROT),
      prompt: 'Describe a ship',
      output: Output.object({ schema: z.object({ name: z.string(), masts: z.number() }) }),
    });
    expect(output).toEqual({ name: expect.any(String), masts: expect.any(Number) });
  });

  it('throws what the router refuses, with its message', async () => {
    const asked = generateText({ model: provider('nobody'), prompt: 'Hi', maxRetries: 0 });
    await expect(asked).rejects.toThrow('The model "nobody" does not exist');
  });
});
