import type { RecordedContent } from '../hooks.ts';
import { inputMessages, outputMessages } from './messages.ts';

/** The input and output messages, as JSON in the schemas of the GenAI conventions; omitted if truncated or unreadable. */
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

/** Drops the error of an unreadable body, because `JSON.parse` quotes the content. */
function serialized(messages: () => readonly unknown[]): string | undefined {
  try {
    const found = messages();
    return found.length > 0 ? JSON.stringify(found) : undefined;
  } catch {
    return undefined;
  }
}
