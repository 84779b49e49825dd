import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { OpenTelemetryOptions } from '../../../src/opentelemetry.ts';
import { openTelemetryHooks } from '../../../src/opentelemetry.ts';
import { end, error as refuse, hang, stream } from '../../../src/testing.ts';
import { startTwoTargets } from '../faults/two-targets.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, DONE, event, type Script, text } from '../../helpers/provider.ts';

const exporter = new InMemorySpanExporter();
const tracer = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }).getTracer(
  'test',
);
let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
  exporter.reset();
});

/** What the request's span has of content, once it has ended. */
async function recorded(): Promise<{ input: unknown; output: unknown; truncated: unknown }> {
  await expect.poll(() => exporter.getFinishedSpans().at(-1)?.name).toBe('POST /chat/completions');
  const { attributes } = exporter.getFinishedSpans().at(-1)!;
  const read = (name: string): unknown => {
    const value = attributes[name];
    return typeof value === 'string' ? JSON.parse(value) : value;
  };
  return {
    input: read('gen_ai.input.messages'),
    output: read('gen_ai.output.messages'),
    truncated: attributes['ccr.content.truncated'],
  };
}

async function ask(
  script: Script,
  fields: object = {},
  options: OpenTelemetryOptions = {},
): Promise<Awaited<ReturnType<typeof recorded>>> {
  gateway = await startGateway({
    hooks: [openTelemetryHooks({ tracer, recordContent: true, ...options })],
    retries: false,
    models: { 'acme/fast': { targets: ['loopback/upstream-model'], pricing: 'free', accountFiles: true } },
  });
  gateway.provider.script = script;
  await (await gateway.post({ ...QUESTION, ...fields })).text();
  return recorded();
}

const SAY_HELLO = [{ role: 'user', parts: [{ type: 'text', content: 'Say hello.' }] }];

function delta(fields: object, finishReason: string | null = null, index = 0): string {
  return event({ choices: [{ index, delta: fields, finish_reason: finishReason }] });
}

describe('openTelemetryHooks({ recordContent: true })', () => {
  it('puts what was asked and answered on the span of the request, and on no other', async () => {
    const { input, output, truncated } = await ask(answerJson(completionBody()));
    expect(input).toEqual(SAY_HELLO);
    expect(output).toEqual([
      { role: 'assistant', parts: [{ type: 'text', content: 'Hello there.' }], finish_reason: 'stop' },
    ]);
    expect(truncated).toBeUndefined();
    const [attempt] = exporter.getFinishedSpans();
    expect(JSON.stringify(attempt?.attributes)).not.toMatch(/hello/i);
  });

  it('writes a conversation by the schema of the conventions, with tools, images, sound and files', async () => {
    const call = {
      id: 'call_1',
      type: 'function',
      function: { name: 'weather', arguments: '{"city":"Paris"}' },
    };
    const { input } = await ask(answerJson(completionBody()), {
      messages: [
        { role: 'system', content: 'Be short.' },
        {
          role: 'user',
          name: 'ada',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0=' } },
            { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
            { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
            { type: 'file', file: { file_id: 'file-1' } },
            { type: 'of_tomorrow', content: 7 },
          ],
        },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'rainy, 14°C' },
        { role: 'assistant', content: '', refusal: 'No.' },
      ],
    });
    expect(input).toEqual([
      { role: 'system', parts: [{ type: 'text', content: 'Be short.' }] },
      {
        role: 'user',
        name: 'ada',
        parts: [
          { type: 'text', content: 'What is this?' },
          { type: 'blob', modality: 'image', mime_type: 'image/png', content: 'iVBORw0=' },
          { type: 'uri', modality: 'image', uri: 'https://example.com/a.png' },
          { type: 'blob', modality: 'audio', mime_type: 'audio/wav', content: 'UklGRg==' },
          { type: 'file', modality: 'document', file_id: 'file-1' },
          { type: 'of_tomorrow', content: 7 },
        ],
      },
      {
        role: 'assistant',
        parts: [{ type: 'tool_call', id: 'call_1', name: 'weather', arguments: { city: 'Paris' } }],
      },
      {
        role: 'tool',
        parts: [{ type: 'tool_call_response', id: 'call_1', response: 'rainy, 14°C' }],
      },
      { role: 'assistant', parts: [{ type: 'refusal', content: 'No.' }] },
    ]);
  });

  it('has tool calls of an answer, with their arguments as an object, or as they came where they are no JSON', async () => {
    const calls = [
      { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } },
      { id: 'call_2', type: 'function', function: { name: 'time', arguments: '{"city":' } },
    ];
    const message = { role: 'assistant', content: null, tool_calls: calls };
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
    const { output } = await ask(answerJson(completionBody({ choices })));
    expect(output).toEqual([
      {
        role: 'assistant',
        parts: [
          { type: 'tool_call', id: 'call_1', name: 'weather', arguments: { city: 'Paris' } },
          { type: 'tool_call', id: 'call_2', name: 'time', arguments: '{"city":' },
        ],
        finish_reason: 'tool_call',
      },
    ]);
  });

  it('puts the pieces of a stream together: reasoning, text, tool calls, each choice for itself', async () => {
    const { output } = await ask(
      stream(
        delta({ role: 'assistant', content: '' }),
        delta({ reasoning_content: 'Let me ' }),
        delta({ reasoning_content: 'see.' }),
        delta({ content: 'Hel' }),
        delta({ content: 'Other.' }, 'length', 1),
        ': a comment\n\n',
        delta({ content: 'lo.' }).replaceAll('\n', '\r\n'),
        delta({ tool_calls: [{ index: 0, id: 'call_1', function: { name: 'weather', arguments: '' } }] }),
        delta({ tool_calls: [{ index: 0, function: { arguments: '{"city"' } }] }),
        delta({ tool_calls: [{ index: 1, id: 'call_2', function: { name: 'time', arguments: '{}' } }] }),
        delta({ tool_calls: [{ index: 0, function: { arguments: ':"Paris"}' } }] }),
        delta({}, 'tool_calls'),
        DONE,
        end,
      ),
      { stream: true, n: 2 },
    );
    expect(output).toEqual([
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', content: 'Let me see.' },
          { type: 'text', content: 'Hello.' },
          { type: 'tool_call', id: 'call_1', name: 'weather', arguments: { city: 'Paris' } },
          { type: 'tool_call', id: 'call_2', name: 'time', arguments: {} },
        ],
        finish_reason: 'tool_call',
      },
      { role: 'assistant', parts: [{ type: 'text', content: 'Other.' }], finish_reason: 'length' },
    ]);
  });

  it('has what had come of a stream that its client left, without the event that was cut', async () => {
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer, recordContent: true })] });
    gateway.provider.script = stream(text('Hello'), text(' you').slice(0, -20), hang);
    const controller = new AbortController();
    // Who asks for usage gets bytes as they come; else whole events are let go.
    const question = { ...QUESTION, stream: true, stream_options: { include_usage: true } };
    const response = await gateway.post(question, { signal: controller.signal });
    const reader = response.body!.getReader();
    let got = '';
    while (!got.includes(' you')) got += Buffer.from((await reader.read()).value ?? []).toString();
    controller.abort();
    expect((await recorded()).output).toEqual([
      { role: 'assistant', parts: [{ type: 'text', content: 'Hello' }], finish_reason: 'error' },
    ]);
  });

  it('has the answer that the client got of a failover', async () => {
    const two = await startTwoTargets({ hooks: [openTelemetryHooks({ tracer, recordContent: true })] });
    ({ gateway } = two);
    two.primary.answer(refuse(503));
    const heard = await two.hear();
    expect((await recorded()).output).toEqual([
      { role: 'assistant', parts: [{ type: 'text', content: heard.text }], finish_reason: 'stop' },
    ]);
    expect(heard.text).toContain(' w59');
    await Promise.all([two.primary.close(), two.fallback.close()]);
  });

  it('has no output of an error', async () => {
    const { input, output, truncated } = await ask(refuse(400, { message: 'Not so.' }));
    expect(input).toEqual(SAY_HELLO);
    expect([output, truncated]).toEqual([undefined, undefined]);
  });

  it('leaves out what is longer than maxContentBytes, and says so', async () => {
    const { input, output, truncated } = await ask(
      answerJson(completionBody()),
      {},
      { maxContentBytes: 100 },
    );
    expect(input).toEqual(SAY_HELLO);
    expect(output).toBeUndefined();
    expect(truncated).toBe(true);
  });

  it('leaves out a stream that is longer, whatever of it could be read', async () => {
    const script = stream(text('Hello'), text('x'.repeat(100), 'stop'), DONE, end);
    const maxContentBytes = text('Hello').length + 1;
    const { output, truncated } = await ask(script, { stream: true }, { maxContentBytes });
    expect(output).toBeUndefined();
    expect(truncated).toBe(true);
  });

  it('records up to 64 KiB of each unless configured otherwise', async () => {
    const messages = [{ role: 'user', content: 'x'.repeat(65_536) }];
    const { input, output, truncated } = await ask(answerJson(completionBody()), { messages });
    expect(input).toBeUndefined();
    expect(output).toHaveLength(1);
    expect(truncated).toBe(true);
  });

  it('says nothing on stderr of what it could not read', async () => {
    const logged = vi.spyOn(console, 'error').mockImplementation(() => {});
    const { input, output } = await ask(stream(text('Hello'), 'data: {"marker": nothing}\n\n', DONE, end), {
      stream: true,
    });
    expect(output).toBeUndefined();
    expect(input).toEqual(SAY_HELLO);
    expect(logged.mock.calls.flat().map(String)).toEqual([]);
    vi.restoreAllMocks();
  });
});

describe('openTelemetryHooks without recordContent', () => {
  it('puts nothing of a prompt or an answer on any span, nor has a hook that is given it', async () => {
    expect(openTelemetryHooks({ tracer })).not.toHaveProperty('onContent');
    gateway = await startGateway({ hooks: [openTelemetryHooks({ tracer })], retries: false });
    const calls = [{ index: 0, id: 'c', function: { name: 'f', arguments: '{"x":"marker-args"}' } }];
    const scripts = [
      answerJson(completionBody({ choices: [{ index: 0, message: { content: 'marker-answer' } }] })),
      stream(text('marker-answer'), delta({ tool_calls: calls }, 'tool_calls'), DONE, end),
      stream(text('marker-answer'), (response) => response.destroy()),
      refuse(503, { message: 'marker-refusal' }),
    ];
    const messages = [{ role: 'user', content: 'marker-prompt' }];
    for (const script of scripts) {
      gateway.provider.script = script;
      await (await gateway.post({ ...QUESTION, messages, stream: true })).text().catch(() => '');
    }
    await expect.poll(() => exporter.getFinishedSpans()).toHaveLength(8);
    const all = exporter
      .getFinishedSpans()
      .map(({ name, attributes, events, status }) => [name, attributes, events, status]);
    expect(JSON.stringify(all)).not.toMatch(/marker-|messages/);
  });

  it('refuses a recordContent that is no boolean', async () => {
    gateway = await startGateway();
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what JavaScript may give
    const given = { recordContent: 'yes' } as unknown as OpenTelemetryOptions;
    expect(() => openTelemetryHooks(given)).toThrow(
      new TypeError('recordContent must be a boolean, got yes'),
    );
  });
});
