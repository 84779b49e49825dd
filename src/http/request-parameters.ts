import { type JsonListener, JsonScanner } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, tokenText } from '../json/token.ts';
import { type BodyChunks, inTurns } from './body-chunks.ts';

/**
 * Fields that each target takes: what every server reads, what the router acts by, and what only names the request. An output
 * limit is sent in the field that the target obeys.
 */
const TAKEN: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'service_tier',
  'models',
  'provider',
  'providerOptions',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'metadata',
  'usage',
]);

/** More names, and longer ones, are all this one: no target takes it. */
const UNREADABLE = '…';
const MAX_NAMES = 256;
const MAX_NAME_LENGTH = 64;

/**
 * The parameters of a request that not each target takes, in one pass over the bytes of a body that is known to be valid. A
 * parameter that is null is none; a `response_format` with a schema is `structured_outputs`, in OpenRouter's words.
 */
export async function parametersOf(body: BodyChunks): Promise<ReadonlySet<string>> {
  const reader = new ParameterReader();
  const json = new JsonScanner<Position>('body', reader);
  await inTurns(body, (part) => {
    json.write(part);
  });
  json.end();
  return reader.found;
}

/** The part of the body that directly contains a value. */
type Position = 'body' | 'request' | 'response_format' | 'elsewhere';

class ParameterReader implements JsonListener<Position> {
  readonly found = new Set<string>();
  #name = '';
  #isFormatType = false;

  key(within: Position, token: JsonToken): void {
    if (within === 'request') this.#name = nameOf(token);
    else if (within === 'response_format') this.#isFormatType = nameOf(token) === 'type';
  }

  value(within: Position, kind: JsonKind, token: JsonToken): Position {
    if (within === 'body') return 'request';
    if (within === 'response_format' && this.#isFormatType && kind === 'string') {
      if (tokenText(token) !== 'json_schema') return 'elsewhere';
      this.found.delete('response_format');
      this.found.add('structured_outputs');
    }
    if (within !== 'request') return 'elsewhere';
    if (kind !== 'null' && !TAKEN.has(this.#name)) {
      this.found.add(this.found.size < MAX_NAMES ? this.#name : UNREADABLE);
    }
    return this.#name === 'response_format' && kind === 'object' ? 'response_format' : 'elsewhere';
  }

  close(): void {
    // Only names are read.
  }
}

function nameOf(token: JsonToken): string {
  const name = tokenText(token);
  return name === undefined || name.length > MAX_NAME_LENGTH ? UNREADABLE : name;
}
