import { instanceOf } from './json-schema.ts';
import { MAX_OUTPUT_TOKENS, textOf } from './request.ts';
import { speak } from './speech.ts';
import { tokenize } from './tokens.ts';
import { type ChosenCall, chooseToolCalls } from './tools.ts';
import type { ChatRequest, Delta, FinishReason } from './wire.ts';
import { plain, Words } from './words.ts';

/** One of the `n` answers to a request. */
export interface Choice {
  /** Each is one token of usage, and one chunk of a stream. */
  readonly deltas: readonly Delta[];
  readonly finishReason: FinishReason;
}

/** What the parrot will say, up to its last token, before it says the first. */
export function answer(params: ChatRequest): Choice[] {
  return Array.from({ length: params.n ?? 1 }, (_, index) => choiceAt(params, index));
}

function choiceAt(params: ChatRequest, index: number): Choice {
  const user = params.messages.findLast((message) => message.role === 'user');
  const words = new Words(user ? textOf(user) : '');
  const calls = chooseToolCalls(params, words);
  const deltas =
    calls.length > 0
      ? calls.flatMap(callDeltas)
      : textDeltas(cutAtStop(params, textFor(params, words, index)));
  const limit = Math.min(MAX_OUTPUT_TOKENS, params.max_completion_tokens ?? params.max_tokens ?? Infinity);
  if (deltas.length > limit) return { deltas: deltas.slice(0, limit), finishReason: 'length' };
  return { deltas, finishReason: calls.length > 0 ? 'tool_calls' : 'stop' };
}

function textFor(params: ChatRequest, words: Words, index: number): string {
  const format = params.response_format;
  if (format?.type === 'json_schema') return JSON.stringify(instanceOf(format.json_schema.schema, words));
  if (format?.type !== 'json_object') return speak(params.messages, index);
  return JSON.stringify({
    said: speak(params.messages, index),
    words: plain(words.text).split(' ').filter(Boolean),
  });
}

function cutAtStop({ stop }: ChatRequest, text: string): string {
  const starts = [stop ?? []]
    .flat()
    .map((sequence) => (sequence === '' ? -1 : text.indexOf(sequence)))
    .filter((start) => start >= 0);
  return text.slice(0, Math.min(text.length, ...starts));
}

function textDeltas(text: string): Delta[] {
  return tokenize(text.slice(0, MAX_TEXT)).map((content) => ({ content }));
}

/** More than the longest answer: a token has at most nine UTF-16 units. */
const MAX_TEXT = 10 * MAX_OUTPUT_TOKENS;

/** The head of a call with its name, then its arguments token by token. */
function callDeltas({ id, name, ...call }: ChosenCall, index: number): Delta[] {
  return [
    { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] },
    ...tokenize(call.arguments.slice(0, MAX_TEXT)).map((piece) => ({
      tool_calls: [{ index, function: { arguments: piece } }],
    })),
  ];
}
