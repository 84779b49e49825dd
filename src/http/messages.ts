import { InvalidRequestError, RequestTooLargeError } from '../errors/request-errors.ts';
import { type JsonListener, JsonScanner } from '../json/scanner.ts';
import { type BodyChunks, concatChunks, sliceChunks } from './body-chunks.ts';
import { duplicateField, invalidType } from './field-errors.ts';
import type { Span } from './splice-request.ts';
import { isRecord } from '../platform/is-record.ts';

type JsonObject = Readonly<Record<string, unknown>>;

/** Most values that are parsed: more objects than any conversation has, and still few milliseconds. */
const MAX_VALUES = 100_000;

/** Members of a message or a part that carry its text: no other parser may read another value for them. */
const READ_MEMBERS: ReadonlySet<string> = new Set(['role', 'content', 'type', 'text', 'refusal']);

/** What is in the messages, as their bytes say it. */
class MemberCounts implements JsonListener<'messages'> {
  keys = 0;
  #values = 0;

  key(): void {
    this.keys++;
  }

  value(): 'messages' {
    this.#values++;
    if (this.#values <= MAX_VALUES) return 'messages';
    throw new RequestTooLargeError(
      `The messages have more than ${MAX_VALUES} values in JSON, which are all that is accepted.`,
    );
  }

  close(): void {}
}

/**
 * Parses the messages of a body that was scanned.
 *
 * @throws {RequestTooLargeError} if they have more than `maxBytes`, or more than 100,000 values
 * @throws {InvalidRequestError} if a message is no object, or some parser could read another value in one
 */
export function readMessages(body: BodyChunks, { start, end }: Span, maxBytes: number): JsonObject[] {
  const length = end - start;
  if (length > maxBytes) {
    throw new RequestTooLargeError(`The messages have ${length} bytes; at most ${maxBytes} are accepted.`);
  }
  const bytes = concatChunks(sliceChunks(body, start, end));
  const counts = new MemberCounts();
  new JsonScanner('messages', counts).write(bytes);
  const messages: JsonObject[] = JSON.parse(bytes.toString());
  for (const [index, message] of messages.entries()) {
    if (!isRecord(message)) throw invalidType(`messages[${index}]`, 'an object');
    assertOneReading(message, `messages[${index}]`);
  }
  // Of a key that stands twice, one is lost.
  if (countKeys(messages) < counts.keys) {
    throw new InvalidRequestError(
      'ambiguous_parameter',
      'A member of the messages is present more than once.',
      'messages',
    );
  }
  return messages;
}

/** Some servers read `Content` as `content`. */
function assertOneReading(message: JsonObject, path: string): void {
  assertExactNames(message, path);
  const { content } = message;
  if (!Array.isArray(content)) return;
  for (const [index, part] of content.entries()) {
    if (isRecord(part)) assertExactNames(part, `${path}.content[${index}]`);
  }
}

function assertExactNames(object: JsonObject, path: string): void {
  for (const key of Object.keys(object)) {
    // By way of upper case, as a long s and the Kelvin sign fold to ASCII letters.
    const folded = key.toUpperCase().toLowerCase();
    if (folded !== key && READ_MEMBERS.has(folded)) throw duplicateField(`${path}.${folded}`, false);
  }
}

function countKeys(messages: readonly unknown[]): number {
  let keys = 0;
  const left: unknown[] = [messages];
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    if (typeof value !== 'object' || value === null) continue;
    const members: readonly unknown[] = Object.values(value);
    if (!Array.isArray(value)) keys += members.length;
    for (const member of members) {
      if (typeof member === 'object' && member !== null) left.push(member);
    }
  }
  return keys;
}

/** The body with other messages spliced in. */
export function withMessages(body: BodyChunks, { start, end }: Span, messages: string): BodyChunks {
  return [...sliceChunks(body, 0, start), Buffer.from(messages), ...sliceChunks(body, end, Infinity)];
}
