import type { OutgoingHttpHeaders } from 'node:http';

import { chunk, DONE, FAKE_MODEL, commonFields } from './chunk.ts';
import { type DialectName, dialectOf, type TokenCounts, type UsageFormat } from './dialects.ts';
import { error } from './refusals.ts';
import { end, head, type Part, pause, respond, type Script, sequence } from './script.ts';

/** A tool call of the model. */
export interface FakeToolCall {
  readonly name: string;
  /** An object is sent as JSON; a string unchanged, even if it is not valid JSON. */
  readonly arguments: object | string;
  /** @default `call_0`, `call_1`, … */
  readonly id?: string;
}

export interface CompletionFields {
  /** The text, or the chunks to stream; a string is streamed word by word. @default 'Hello there.' */
  readonly content?: string | readonly string[];
  /** Structured output: the text is the JSON of this. */
  readonly json?: unknown;
  /** Replaces the default text. */
  readonly toolCalls?: readonly FakeToolCall[];
  /** @default 'stop', or 'tool_calls' */
  readonly finishReason?: string;
  /** @default the requested model */
  readonly model?: string;
  /** The reported token counts. @default { prompt: 9, completion: 12 } */
  readonly tokens?: TokenCounts;
  /** The provider whose usage format is imitated. @default 'openai' */
  readonly dialect?: DialectName;
  /** The `usage` member itself, valid or not, in place of `tokens`; null for none. */
  readonly usage?: object | null;
  /** Pause before each chunk of a stream, in ms. @default 0 */
  readonly chunkMs?: number;
  readonly headers?: OutgoingHttpHeaders;
}

/**
 * A completion, as JSON or as a stream, whichever the request asks for.
 *
 * ```ts
 * provider.answer(completion('Hello.'));
 * provider.answer(completion({ toolCalls: [{ name: 'get_weather', arguments: { city: 'Paris' } }] }));
 * provider.answer(completion({ json: { city: 'Paris' }, tokens: { prompt: 100, completion: 20, cached: 80 } }));
 * ```
 */
export function completion(answer: string | CompletionFields = {}): Script {
  const fields = typeof answer === 'string' ? { content: answer } : answer;
  const { headers } = fields;
  return (response, request) => {
    let body;
    try {
      body = request.json;
    } catch {
      return error(400, { message: 'The body is not valid JSON.' })(response, request);
    }
    const { model = body.model ?? FAKE_MODEL } = fields;
    if (body.stream !== true) return respond(200, wholeCompletion(fields, model), headers)(response, request);
    const parts = streamParts(fields, model, body.stream_options?.include_usage === true);
    const begin = head(200, { 'content-type': 'text/event-stream', ...headers });
    return sequence(begin, ...parts, end)(response, request);
  };
}

function wholeCompletion(fields: CompletionFields, model: string): object {
  const calls = toolCalls(fields);
  const content = textChunks(fields).join('');
  const message = {
    role: 'assistant',
    content: calls.length > 0 && content === '' ? null : content,
    refusal: null,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const usage = usageOf(fields);
  return {
    ...commonFields('chat.completion', model),
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason(fields) }],
    ...(usage && { usage }),
  };
}

function streamParts(fields: CompletionFields, model: string, includesUsage: boolean): readonly Part[] {
  const { dialect: name = 'openai', chunkMs = 0 } = fields;
  const dialect: UsageFormat = dialectOf(name);
  const deltas = [
    { role: 'assistant', content: '' },
    ...textChunks(fields).map((content) => ({ content })),
    ...toolCalls(fields).flatMap(callDeltas),
  ];
  const nulls = includesUsage ? { usage: null } : {};
  const events = deltas.map((delta, index) =>
    chunk({
      model,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
      ...(dialect.on === 'every' ? usageMember(usageOf(fields, (index + 1) / (deltas.length + 1))) : nulls),
    }),
  );
  events.push(finishChunk(fields, model, dialect, nulls));
  const usage = usageOf(fields);
  const hasUsageChunk =
    dialect.on === 'always' || (includesUsage && (dialect.on === 'requested' || dialect.on === 'choice'));
  if (usage && hasUsageChunk) events.push(chunk({ model, choices: [], usage }));
  if (!dialect.noDone) events.push(DONE);
  if (dialect.comment !== undefined) events.unshift(`${dialect.comment}\n\n`);
  const written = events.map((event) => event.replaceAll('\n', dialect.lineEnd ?? '\n'));
  return chunkMs > 0 ? written.flatMap((event) => [pause(chunkMs), event]) : written;
}

function finishChunk(fields: CompletionFields, model: string, dialect: UsageFormat, nulls: object): string {
  const usage = usageOf(fields);
  const choice = { index: 0, delta: {}, logprobs: null, finish_reason: finishReason(fields) };
  return chunk({
    model,
    choices: [{ ...choice, ...(dialect.on === 'choice' && usageMember(usage)) }],
    ...(dialect.on === 'finish' || dialect.on === 'every' ? usageMember(usage) : nulls),
    ...(dialect.alsoIn !== undefined && usage && { [dialect.alsoIn]: { usage } }),
  });
}

/** @param share - part of the output that is streamed so far, from 0 to 1 */
function usageOf({ usage, tokens, dialect = 'openai' }: CompletionFields, share = 1): object | null {
  if (usage !== undefined) return usage;
  const { prompt, completion, cached = 0, reasoning = 0 } = tokens ?? { prompt: 9, completion: 12 };
  return dialectOf(dialect).usage({
    prompt,
    completion: Math.round(completion * share),
    cached,
    reasoning: Math.round(reasoning * share),
  });
}

function usageMember(usage: object | null): object {
  return usage ? { usage } : {};
}

function textChunks({ content, json, toolCalls: calls }: CompletionFields): readonly string[] {
  const text = content ?? (json === undefined ? undefined : JSON.stringify(json));
  if (text === undefined) return calls ? [] : splitWords('Hello there.');
  return typeof text === 'string' ? splitWords(text) : text;
}

/** Each word with the blanks before it. */
function splitWords(text: string): readonly string[] {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

interface WireToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

function toolCalls({ toolCalls: calls = [] }: CompletionFields): readonly WireToolCall[] {
  return calls.map(({ name, arguments: args, id }, index) => ({
    id: id ?? `call_${index}`,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  }));
}

/** The call's name, then its arguments in chunks of eight characters. */
function callDeltas(call: WireToolCall, index: number): readonly object[] {
  const { name, arguments: args } = call.function;
  return [
    { tool_calls: [{ ...call, index, function: { name, arguments: '' } }] },
    ...(args.match(/.{1,8}/gs) ?? []).map((part) => ({
      tool_calls: [{ index, function: { arguments: part } }],
    })),
  ];
}

function finishReason({ finishReason: reason, toolCalls: calls }: CompletionFields): string {
  return reason ?? (calls?.length ? 'tool_calls' : 'stop');
}
