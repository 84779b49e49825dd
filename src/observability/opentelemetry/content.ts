import type { RecordedContent } from '../hooks.ts';
import { inputMessages, outputMessages } from './messages.ts';

/** What was asked and answered, as JSON by the schemas of the GenAI conventions: what was kept whole, and could be read. */
export function contentAttributes(content: RecordedContent): Record<string, string | boolean> {
  const { requestTruncated, responseTruncated } = content;
  const input = requestTruncated ? undefined : serialized(() => inputMessages(content.request.toString()));
  const output = responseTruncated
    ? undefined
    : serialized(() => outputMessages(content.response.toString()));
  return {
    ...(input !== undefined && { 'gen_ai.input.messages': input }),
    ...(output !== undefined && { 'gen_ai.output.messages': output }),
    ...((requestTruncated || responseTruncated) && { 'ccr.content.truncated': true }),
  };
}

/** Why a body can't be read is not told: `JSON.parse` quotes it. */
function serialized(messages: () => readonly unknown[]): string | undefined {
  try {
    const found = messages();
    return found.length > 0 ? JSON.stringify(found) : undefined;
  } catch {
    return undefined;
  }
}
