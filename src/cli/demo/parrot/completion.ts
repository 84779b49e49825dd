import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Choice } from './answer.ts';
import { countPromptTokens, MODEL } from './request.ts';
import type { ChatRequest, Delta, FinishReason, ToolCall, Usage } from './wire.ts';

/** The whole answer at once, as a client gets it that doesn't stream. */
export function completion(params: ChatRequest, choices: readonly Choice[]): object {
  return {
    ...head('chat.completion'),
    choices: choices.map(({ deltas, finishReason }, index) => ({
      index,
      message: { role: 'assistant', refusal: null, ...joined(deltas) },
      logprobs: null,
      finish_reason: finishReason,
    })),
    usage: usageOf(params, choices),
  };
}

/**
 * The answer as server-sent events, one token of every choice per `chunkMs`.
 *
 * Usage comes last, and only if `stream_options.include_usage` asks for it; then
 * the other chunks say `usage: null`, as OpenAI's do.
 */
export async function* eventStream(
  params: ChatRequest,
  choices: readonly Choice[],
  chunkMs: number,
): AsyncGenerator<string> {
  const withUsage = params.stream_options?.include_usage === true;
  const chunkHead = head('chat.completion.chunk');
  const noUsage = withUsage ? { usage: null } : {};

  for (const index of choices.keys()) {
    yield chunk(index, { role: 'assistant', content: '', refusal: null }, null);
  }
  const rounds = Math.max(...choices.map(({ deltas }) => deltas.length));
  for (let round = 0; round <= rounds; round++) {
    await sleep(chunkMs);
    for (const [index, { deltas, finishReason }] of choices.entries()) {
      const delta = deltas[round];
      if (delta) yield chunk(index, delta, null);
      else if (round === deltas.length) yield chunk(index, {}, finishReason);
    }
  }
  if (withUsage) yield event({ ...chunkHead, choices: [], usage: usageOf(params, choices) });
  yield 'data: [DONE]\n\n';

  function chunk(index: number, delta: Delta, finishReason: FinishReason | null): string {
    return event({
      ...chunkHead,
      choices: [{ index, delta, logprobs: null, finish_reason: finishReason }],
      ...noUsage,
    });
  }
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

function head(object: string): object {
  return {
    id: `chatcmpl-${randomUUID()}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model: MODEL,
  };
}

function usageOf(params: ChatRequest, choices: readonly Choice[]): Usage {
  const promptTokens = countPromptTokens(params);
  const completionTokens = choices.reduce((sum, { deltas }) => sum + deltas.length, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

/** A message's content and tool calls, put together from its deltas. */
function joined(deltas: readonly Delta[]): object {
  const calls: ToolCall[] = [];
  for (const { index, id = '', function: part } of deltas.flatMap((delta) => delta.tool_calls ?? [])) {
    calls[index] ??= { id, type: 'function', function: { name: part?.name ?? '', arguments: '' } };
    calls[index].function.arguments += part?.arguments ?? '';
  }
  if (calls.length > 0) return { content: null, tool_calls: calls };
  return { content: deltas.map((delta) => delta.content ?? '').join('') };
}
