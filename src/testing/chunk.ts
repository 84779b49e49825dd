/** Model of an answer whose request names none. */
export const FAKE_MODEL = 'fake-model';

/** Common members of chunks and completions. */
export function commonFields(object: string, model: string = FAKE_MODEL): object {
  return { id: 'chatcmpl-fake', object, created: 1_700_000_000, model, system_fingerprint: 'fp_fake' };
}

/** The event that ends a stream. */
export const DONE = 'data: [DONE]\n\n';

/**
 * One event of a streamed completion: text, or any members of a chunk.
 *
 * ```ts
 * stream(chunk('Hel'), pause(50), chunk('lo', 'stop'), chunk({ choices: [], usage: … }), DONE)
 * ```
 */
export function chunk(content: string | object, finishReason: string | null = null): string {
  const fields =
    typeof content === 'string'
      ? { choices: [{ index: 0, delta: { content }, finish_reason: finishReason }] }
      : content;
  return `data: ${JSON.stringify({ ...commonFields('chat.completion.chunk'), ...fields })}\n\n`;
}
