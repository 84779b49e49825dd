import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import type { Gateway } from '../../helpers/gateway.ts';
import { costOf, PARROT, startParrotGateway } from '../../helpers/parrot-gateway.ts';

describe('the openai package, through the router', () => {
  let gateway: Gateway;
  let openai: OpenAI;

  beforeAll(async () => {
    gateway = await startParrotGateway();
    openai = gateway.client;
  });

  afterAll(() => gateway.close());

  const ask = (content: string) => ({ model: PARROT, messages: [{ role: 'user' as const, content }] });

  it('gets an answer, and is charged the usage that it gets', async () => {
    const settled = gateway.nextSettled();
    const { choices, usage } = await openai.chat.completions.create(ask('Say: ahoy'));
    expect(choices[0]?.message.content).toContain('ahoy');
    const { prompt_tokens = 0, completion_tokens = 0 } = usage ?? {};
    expect(completion_tokens).toBeGreaterThan(0);
    expect(Number((await settled).charged)).toBeCloseTo(costOf(prompt_tokens, completion_tokens), 12);
  });

  it('streams with its helper, piece by piece, with the usage that it asked for', async () => {
    const stream = openai.chat.completions.stream({
      ...ask('Tell me of the sea'),
      stream_options: { include_usage: true },
    });
    const pieces: string[] = [];
    stream.on('content', (piece) => pieces.push(piece));
    expect(await stream.finalContent()).toBe(pieces.join(''));
    expect(pieces.join('')).toContain('sea');
    expect(pieces.length).toBeGreaterThan(5);
    expect((await stream.totalUsage()).completion_tokens).toBeGreaterThan(5);
  });

  it('runs a tool and goes on with its result, streamed', async () => {
    const cities: string[] = [];
    const runner = openai.chat.completions.runTools({
      ...ask('What is the weather in Oslo?'),
      stream: true,
      tools: [
        zodFunction({
          name: 'weather',
          parameters: z.object({ city: z.string() }),
          function: ({ city }) => {
            cities.push(city);
            return `sunny in ${city}`;
          },
        }),
      ],
    });
    expect(await runner.finalContent()).toContain('sunny in');
    expect(cities).toEqual(['Oslo']);
  });

  it('parses structured output', async () => {
    const { choices } = await openai.chat.completions.parse({
      ...ask('Describe a ship with 3 masts'),
      response_format: zodResponseFormat(z.object({ name: z.string(), masts: z.number() }), 'ship'),
    });
    expect(choices[0]?.message.parsed).toEqual({ name: expect.any(String), masts: 3 });
  });

  it('lists the models, and finds one whose ID has a slash', async () => {
    const ids: string[] = [];
    for await (const { id } of openai.models.list()) ids.push(id);
    expect(ids).toEqual([PARROT]);
    expect(await openai.models.retrieve(PARROT)).toMatchObject({ id: PARROT, object: 'model' });
  });

  it('throws the class of error that each refusal belongs to', async () => {
    const stranger = new OpenAI({ baseURL: gateway.baseURL, apiKey: 'sk-ccr-nobody', maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    const asked = openai.chat.completions.create({ ...ask('Hi'), model: 'nobody' });
    await expect(asked).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(asked).rejects.toMatchObject({ code: 'model_not_found', param: 'model' });
  });
});
