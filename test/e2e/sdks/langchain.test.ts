import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import type { Gateway } from '../../helpers/gateway.ts';
import { costOf, PARROT, startParrotGateway } from '../../helpers/parrot-gateway.ts';

const weather = tool(({ city }) => `sunny in ${city}`, {
  name: 'weather',
  description: 'The weather of a city',
  schema: z.object({ city: z.string() }),
});

describe('LangChain, through the router', () => {
  let gateway: Gateway;
  let model: ChatOpenAI;

  beforeAll(async () => {
    gateway = await startParrotGateway();
    model = new ChatOpenAI({
      model: PARROT,
      apiKey: gateway.key,
      configuration: { baseURL: gateway.baseURL },
      maxRetries: 0,
    });
  });

  afterAll(() => gateway.close());

  it('gets an answer, and is charged the usage that it gets', async () => {
    const settled = gateway.nextSettled();
    const answer = await model.invoke('Say: ahoy');
    expect(answer.text).toContain('ahoy');
    const { input_tokens = 0, output_tokens = 0 } = answer.usage_metadata ?? {};
    expect(output_tokens).toBeGreaterThan(0);
    expect(Number((await settled).charged)).toBeCloseTo(costOf(input_tokens, output_tokens), 12);
  });

  it('streams text, piece by piece, and adds up the usage', async () => {
    const pieces: string[] = [];
    let usage = 0;
    for await (const chunk of await model.stream('Tell me of the sea')) {
      if (chunk.text) pieces.push(chunk.text);
      // Their types say never: the usage comes on a chunk of its own, without a message.
      const told = chunk.usage_metadata as { output_tokens: number } | undefined;
      usage += told?.output_tokens ?? 0;
    }
    expect(pieces.length).toBeGreaterThan(5);
    expect(pieces.join('')).toContain('sea');
    expect(usage).toBeGreaterThan(5);
  });

  it('calls a tool and goes on with its result', async () => {
    const withTools = model.bindTools([weather]);
    const question = new HumanMessage('What is the weather in Oslo?');
    const call = await withTools.invoke([question]);
    expect(call.tool_calls).toMatchObject([{ name: 'weather', args: { city: 'Oslo' } }]);
    const results = await Promise.all((call.tool_calls ?? []).map((asked) => weather.invoke(asked)));
    expect(results[0]).toBeInstanceOf(ToolMessage);
    expect((await withTools.invoke([question, call, ...results])).text).toContain('sunny in Oslo');
  });

  it('streams a tool call', async () => {
    let written = '';
    for await (const { tool_call_chunks } of await model
      .bindTools([weather])
      .stream('What is the weather in Oslo?')) {
      for (const { args } of tool_call_chunks ?? []) written += args ?? '';
    }
    expect(JSON.parse(written)).toEqual({ city: 'Oslo' });
  });

  it.each(['jsonSchema', 'functionCalling'] as const)('gets structured output by %s', async (method) => {
    const structured = model.withStructuredOutput(z.object({ name: z.string(), masts: z.number() }), {
      method,
    });
    expect(await structured.invoke('Describe a ship with 3 masts')).toEqual({
      name: expect.any(String),
      masts: 3,
    });
  });

  it('throws what the router refuses, with its message', async () => {
    const other = new ChatOpenAI({
      model: 'nobody',
      apiKey: gateway.key,
      configuration: { baseURL: gateway.baseURL },
      maxRetries: 0,
    });
    await expect(other.invoke('Hi')).rejects.toThrow('The model "nobody" does not exist');
  });
});
