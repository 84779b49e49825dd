import OpenAI from 'openai';
import type { ChatCompletionFunctionTool } from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { instanceOf } from '../../../src/cli/demo/parrot/json-schema.ts';
import { startParrot, type Parrot } from '../../../src/cli/demo/parrot/server.ts';
import { speak } from '../../../src/cli/demo/parrot/speech.ts';
import { countTokens, tokenize } from '../../../src/cli/demo/parrot/tokens.ts';
import { Words } from '../../../src/cli/demo/parrot/words.ts';

const WEATHER: ChatCompletionFunctionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
        days: { type: 'integer', minimum: 1, maximum: 7 },
      },
      required: ['city', 'unit'],
    },
  },
};
const CLOCK: ChatCompletionFunctionTool = {
  type: 'function',
  function: { name: 'clock', parameters: { type: 'object', properties: { zone: { type: 'string' } } } },
};

let parrot: Parrot;
let openai: OpenAI;

beforeAll(async () => {
  parrot = await startParrot({ chunkMs: 1 });
  openai = new OpenAI({ baseURL: parrot.baseURL, apiKey: 'any', maxRetries: 0 });
});
afterAll(() => parrot.close());

type Request = Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>;

function ask(content: string, more: Request = {}): Promise<OpenAI.ChatCompletion> {
  return openai.chat.completions.create({
    model: 'parrot-1',
    messages: [{ role: 'user', content }],
    ...more,
  });
}

async function stream(content: string, more: Request = {}): Promise<OpenAI.ChatCompletionChunk[]> {
  const chunks = await openai.chat.completions.create({
    model: 'parrot-1',
    messages: [{ role: 'user', content }],
    ...more,
    stream: true,
  });
  return collect(chunks);
}

describe('the parrot', () => {
  it('lists its one model', async () => {
    const models = await collect(openai.models.list());
    expect(models.map(({ id }) => id)).toEqual(['parrot-1']);
    expect(await openai.models.retrieve('parrot-1')).toEqual(models[0]);
  });

  it('repeats what it hears, in the same words each time', async () => {
    const [once, again] = await Promise.all([ask('Good morning, Polly'), ask('Good morning, Polly')]);
    expect(once.choices[0]!.message.content).toContain('“Good morning, Polly”');
    expect(once.choices[0]!.message.content).toBe(again.choices[0]!.message.content);
  });

  it('says in a stream what it says without', async () => {
    const whole = await ask('Good morning');
    const chunks = await stream('Good morning');
    expect(chunks[0]!.choices[0]!.delta.role).toBe('assistant');
    expect(textOf(chunks)).toBe(whole.choices[0]!.message.content);
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe('stop');
  });

  it('takes its time between the chunks of a stream', async () => {
    const slow = await startParrot({ chunkMs: 40 });
    const client = new OpenAI({ baseURL: slow.baseURL, apiKey: 'any' });
    const begun = performance.now();
    const answer = await client.chat.completions.create({
      model: 'parrot-1',
      messages: [{ role: 'user', content: 'hi' }],
      max_tokens: 10,
      stream: true,
    });
    await collect(answer);
    expect(performance.now() - begun).toBeGreaterThan(10 * 38);
    await slow.close();
  });

  it('stops speaking when the client leaves', async () => {
    const slow = await startParrot({ chunkMs: 10 });
    const client = new OpenAI({ baseURL: slow.baseURL, apiKey: 'any' });
    const answer = await client.chat.completions.create({
      model: 'parrot-1',
      messages: [{ role: 'user', content: '3000 words, please' }],
      stream: true,
    });
    expect(slow.speaking).toBe(1);
    answer.controller.abort();
    await expect.poll(() => slow.speaking).toBe(0);
    await slow.close();
  });

  it('goes on for as many words as it is asked for', async () => {
    const { choices } = await ask('Tell me a story of 300 words');
    expect(choices[0]!.message.content!.split(' ').length).toBeGreaterThanOrEqual(300);
  });

  it('is asked for no more words than it may say', () => {
    const spoken = speak([{ role: 'user', content: `Say 999999 words of ${'x'.repeat(50_000)}` }], 0);
    expect(spoken.split(' ').length).toBeGreaterThanOrEqual(4096);
    expect(spoken.length).toBeLessThan(300_000);
  });

  it('gives n answers, each its own, interleaved in a stream', async () => {
    const { choices } = await ask('hello there', { n: 3 });
    expect(new Set(choices.map(({ message }) => message.content)).size).toBe(3);

    const chunks = await stream('hello there', { n: 3 });
    expect(chunks.slice(0, 6).map(({ choices: [choice] }) => choice!.index)).toEqual([0, 1, 2, 0, 1, 2]);
    for (const { index, message } of choices) {
      expect(textOf(chunks, index)).toBe(message.content);
    }
    expect(chunks.filter(({ choices: [choice] }) => choice!.finish_reason === 'stop')).toHaveLength(3);
  });

  it.each([['word'], [['nowhere', 'word', 'words']]])('ends before the stop sequence %j', async (stop) => {
    const whole = (await ask('one two')).choices[0]!.message.content!;
    const { choices } = await ask('one two', { stop });
    expect(choices[0]!.message.content).toBe(whole.slice(0, whole.indexOf('word')));
    expect(choices[0]!.finish_reason).toBe('stop');
    expect(textOf(await stream('one two', { stop }))).toBe(choices[0]!.message.content);
  });

  it.each(['max_tokens', 'max_completion_tokens'])('ends at %s with finish reason length', async (limit) => {
    const { choices, usage } = await ask('hello', { [limit]: 7 });
    expect(choices[0]!.finish_reason).toBe('length');
    expect(tokenize(choices[0]!.message.content!)).toHaveLength(7);
    expect(usage!.completion_tokens).toBe(7);
  });

  it('says how many images and recordings it got', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } } as const;
    const sound = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } } as const;
    const content = [{ type: 'text', text: 'Look' } as const, image, image, sound];
    const { choices } = await ask('', { messages: [{ role: 'user', content }] });
    expect(choices[0]!.message.content).toContain('2 images and I listened to one recording');
  });
});

describe('the usage of the parrot', () => {
  it('counts the tokens of the text it sent', async () => {
    const { choices, usage } = await ask('How true are your numbers?', { n: 2 });
    const sent = choices.map(({ message }) => countTokens(message.content!));
    expect(usage).toMatchObject({
      prompt_tokens: 3 + 3 + countTokens('How true are your numbers?'),
      completion_tokens: sent[0]! + sent[1]!,
      prompt_tokens_details: { cached_tokens: 0 },
    });
    expect(usage!.total_tokens).toBe(usage!.prompt_tokens + usage!.completion_tokens);
  });

  it.each([
    ['text', {}],
    ['two answers', { n: 2 }],
    ['tool calls', { tools: [WEATHER, CLOCK], tool_choice: 'required' as const }],
    ['JSON', { response_format: { type: 'json_object' as const } }],
    ['a cut answer', { max_tokens: 5 }],
  ])('is the number of chunks with %s in them, streamed or not', async (_, more: Request) => {
    const chunks = await stream('What time is it?', { ...more, stream_options: { include_usage: true } });
    const last = chunks.pop()!;
    const said = chunks.filter(({ choices: [choice] }) => choice!.delta.content || choice!.delta.tool_calls);
    expect(last.choices).toEqual([]);
    expect(last.usage!.completion_tokens).toBe(said.length);
    expect(last.usage).toEqual((await ask('What time is it?', more)).usage);
    expect(chunks.every(({ usage }) => usage === null)).toBe(true);
  });

  it('stays out of a stream that does not ask for it', async () => {
    const chunks = await stream('hello');
    expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false);
  });
});

describe('tools', () => {
  it('are called when the message mentions them, with arguments out of the message', async () => {
    const { choices } = await ask('What will the weather be in New York, in fahrenheit, for 3 days?', {
      tools: [WEATHER, CLOCK],
    });
    const [call, ...others] = choices[0]!.message.tool_calls!;
    expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } });
    expect(argumentsOf(call)).toEqual({ city: 'New York', unit: 'fahrenheit', days: 3 });
    expect(others).toEqual([]);
    expect(choices[0]!.message.content).toBeNull();
    expect(choices[0]!.finish_reason).toBe('tool_calls');
  });

  it('are left alone when nothing mentions them, or with tool_choice none', async () => {
    const calm = await ask('Good morning', { tools: [WEATHER] });
    const none = await ask('The weather, please', { tools: [WEATHER], tool_choice: 'none' });
    expect(calm.choices[0]!.message.tool_calls).toBeUndefined();
    expect(none.choices[0]!.message.tool_calls).toBeUndefined();
  });

  it('are called when they must be', async () => {
    const required = await ask('Good morning', { tools: [WEATHER, CLOCK], tool_choice: 'required' });
    const tool_choice = { type: 'function', function: { name: 'clock' } } as const;
    const named = await ask('Good morning', { tools: [WEATHER, CLOCK], tool_choice });
    expect(required.choices[0]!.message.tool_calls).toMatchObject([{ function: { name: 'get_weather' } }]);
    expect(named.choices[0]!.message.tool_calls).toMatchObject([{ function: { name: 'clock' } }]);
  });

  it('are called side by side unless parallel_tool_calls is false', async () => {
    const question = 'Weather and clock for Lima?';
    const both = await ask(question, { tools: [WEATHER, CLOCK] });
    const one = await ask(question, { tools: [WEATHER, CLOCK], parallel_tool_calls: false });
    expect(both.choices[0]!.message.tool_calls).toHaveLength(2);
    expect(one.choices[0]!.message.tool_calls).toHaveLength(1);
  });

  it('come in pieces in a stream, which the client puts together', async () => {
    const run = openai.chat.completions.stream({
      model: 'parrot-1',
      messages: [{ role: 'user', content: 'Weather and clock for Lima?' }],
      tools: [WEATHER, CLOCK],
    });
    let pieces = 0;
    run.on('chunk', ({ choices: [choice] }) => {
      if (choice?.delta.tool_calls?.[0]?.function?.arguments) pieces++;
    });
    const { message, finish_reason } = (await run.finalChatCompletion()).choices[0]!;
    expect(finish_reason).toBe('tool_calls');
    expect(message.tool_calls!.map(argumentsOf)).toEqual([
      { city: 'Lima', unit: 'celsius', days: 1 },
      { zone: 'Lima' },
    ]);
    expect(pieces).toBeGreaterThan(5);
  });

  it('are quoted once they have answered', async () => {
    const question = { role: 'user', content: 'The weather in Lima?' } as const;
    const { choices } = await ask('', { messages: [question], tools: [WEATHER] });
    const message = choices[0]!.message;
    const result = { role: 'tool', tool_call_id: message.tool_calls![0]!.id, content: '18 degrees' } as const;
    const final = await ask('', { messages: [question, message, result], tools: [WEATHER] });
    expect(final.choices[0]!.message.content).toContain('get_weather tells me: 18 degrees');
    expect(final.choices[0]!.finish_reason).toBe('stop');
  });
});

describe('response_format', () => {
  it('json_object is answered with an object', async () => {
    const { choices } = await ask('Say it in JSON', { response_format: { type: 'json_object' } });
    expect(JSON.parse(choices[0]!.message.content!)).toMatchObject({ words: ['say', 'it', 'in', 'json'] });
  });

  it('json_schema is answered with what the schema accepts, streamed or not', async () => {
    const Bird = z.object({
      name: z.string().min(3),
      age: z.int().min(1).max(80),
      weight: z.number().positive().multipleOf(0.05),
      colour: z.enum(['green', 'scarlet', 'blue']),
      tame: z.boolean(),
      email: z.email().nullable(),
      songs: z
        .array(z.object({ title: z.string().max(12), verses: z.array(z.string()).min(3) }))
        .min(1)
        .max(4),
      kin: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('egg'), laidOn: z.iso.date() }),
        z.object({ kind: z.literal('chick'), days: z.int().min(2) }),
      ]),
    });
    const response_format = {
      type: 'json_schema',
      json_schema: { name: 'bird', strict: true, schema: z.toJSONSchema(Bird) },
    } as const;
    const whole = await ask('Describe Coco, a scarlet parrot of 21 years', { response_format });
    const bird = Bird.parse(JSON.parse(whole.choices[0]!.message.content!));
    expect(bird).toMatchObject({ name: 'Coco', colour: 'scarlet', age: 21 });

    const chunks = await stream('Describe Coco, a scarlet parrot of 21 years', { response_format });
    expect(chunks.length).toBeGreaterThan(20);
    expect(textOf(chunks)).toBe(whole.choices[0]!.message.content);
  });

  it.each([
    [{ type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, minItems: 3 }, ['a', 'b', 'c']],
    [{ type: 'integer', exclusiveMinimum: 4, maximum: 9, multipleOf: 3 }, 6],
    [{ type: ['null', 'string'], maxLength: 3 }, 'par'],
    [{ allOf: [{ required: ['a'] }, { properties: { a: { const: 1 } } }] }, { a: 1 }],
    [{ type: 'string', pattern: '^(a+)+$b' }, 'parrot'],
    [{ $ref: '#' }, 'parrot'],
  ])('fills in %j', (schema, instance) => {
    expect(instanceOf(schema, new Words('parrot'))).toEqual(instance);
  });

  it.each([
    ['a hundred thousand items', { type: 'array', minItems: 100_000, uniqueItems: true }, 20_000],
    [
      'lists of lists of items',
      { type: 'array', minItems: 1000, items: { type: 'array', minItems: 1000, items: { const: 1 } } },
      5000,
    ],
    ['a long string', { type: 'string', minLength: 100_000_000 }, 1002],
  ])('makes no more than some values of a schema that wants %s', (_what, schema, mostLength) => {
    const words = new Words('I am a'.repeat(100));
    expect(JSON.stringify(instanceOf(schema, words)).length).toBeLessThanOrEqual(mostLength);
  });

  it('looks for the options of an enum in the message once', () => {
    const words = new Words('b');
    const mentions = vi.spyOn(words, 'mentions');
    const schema = { type: 'array', minItems: 6, items: { enum: ['a', 'b', 'c'] } };
    expect(instanceOf(schema, words)).toEqual(['b', 'a', 'c', 'b', 'a', 'c']);
    expect(mentions).toHaveBeenCalledTimes(3);
  });

  it('does not follow each of the branches that double at each step', () => {
    let followed = 0;
    const branchesTo = (n: number): object => ({
      get anyOf() {
        followed += 1;
        return [{ $ref: `#/$defs/${n}` }, { $ref: `#/$defs/${n}` }];
      },
    });
    const $defs = Array.from({ length: 12 }, (_, n) => branchesTo(n + 1));
    expect(instanceOf({ ...branchesTo(0), $defs }, new Words('parrot'))).toBe('parrot');
    expect(followed).toBeLessThan(100);
  });

  it('comes to an end with a schema that contains itself', () => {
    const Tree = z.object({
      leaf: z.string(),
      get branches() {
        return z.array(Tree);
      },
      get next() {
        return Tree.nullable();
      },
    });
    const Sum = z.object({
      get left() {
        return z.union([Sum, z.number()]);
      },
    });
    for (const schema of [Tree, Sum]) {
      const instance = instanceOf(z.toJSONSchema(schema), new Words('oak and elm'));
      expect(schema.safeParse(instance).error).toBeUndefined();
    }
  });
});

describe('a bad request', () => {
  it.each([
    ['{', 400, 'invalid_json', null],
    ['[]', 400, null, null],
    ['{"messages":[]}', 400, 'missing_required_parameter', 'model'],
    ['{"model":"parrot-1"}', 400, 'missing_required_parameter', 'messages'],
    ['{"model":"parrot-1","messages":[]}', 400, 'invalid_value', 'messages'],
    ['{"model":"parrot-1","messages":[{"role":"user"}],"n":0}', 400, 'invalid_value', 'n'],
    ['{"model":"parrot-1","messages":[{"role":"user"}],"stop":[1]}', 400, 'invalid_value', 'stop'],
    ['{"model":"eagle-9","messages":[{"role":"user"}]}', 404, 'model_not_found', 'model'],
  ])('%s is answered as OpenAI does', async (body, status, code, param) => {
    const response = await post(body);
    expect(response.status).toBe(status);
    expect(await response.json()).toEqual({
      error: { message: expect.any(String), type: 'invalid_request_error', param, code },
    });
  });

  it('beyond the context window is refused', async () => {
    await expect(ask('word '.repeat(33_000))).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
    });
  });

  it('to another path is 404', async () => {
    const response = await fetch(`${parrot.baseURL}/embeddings`, { method: 'POST' });
    expect(response.status).toBe(404);
  });
});

it('leaves no character out when it cuts a text into tokens', () => {
  const text = '  Grüß Gott,\n\n\t\t日本語の鳥 says "hello_world" 3.14 times — 👩‍🚀!!!!!!\u{d83d} ';
  expect(tokenize(text).join('')).toBe(text);
});

function textOf(chunks: readonly OpenAI.ChatCompletionChunk[], index = 0): string {
  const choices = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
  return choices.map(({ delta }) => delta.content ?? '').join('');
}

function argumentsOf(call: OpenAI.ChatCompletionMessageToolCall | undefined): unknown {
  return call?.type === 'function' ? JSON.parse(call.function.arguments) : undefined;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

function post(body: string): Promise<Response> {
  return fetch(`${parrot.baseURL}/chat/completions`, { method: 'POST', body });
}
