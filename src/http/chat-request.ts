import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ClientRoutingFields } from '../options/resolve-options.ts';
import type { PromptSize } from '../metering/estimate.ts';
import { type JsonListener, JsonScanner, MAX_DEPTH } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, MAX_TEXT_LENGTH, tokenText } from '../json/token.ts';
import { KeyMatcher } from '../json/key-matcher.ts';
import type { AskedFeature } from '../metering/server-tool-fees.ts';
import { AskedFeatures, type ToolPosition } from './asked-features.ts';
import { BILLED_FIELDS } from './billed-fields.ts';
import { inTurns } from './body-chunks.ts';
import { type PromptPosition, PromptReader } from './prompt-reader.ts';
import { REJECTED_FIELDS, rejectionReason, SETTINGS_FIELDS } from './rejected-fields.ts';
import type { RoutingField } from './client-routing.ts';
import type { EditPoints, MemberSpan, Span, Splice } from './splice-request.ts';

export { spliceRequest } from './splice-request.ts';

/** What the router has to know of a chat completion request. */
export interface ChatRequest {
  readonly model: string;
  readonly stream: boolean;
  /** The client's own `stream_options.include_usage`; undefined where it is not there, or null. */
  readonly includeUsage: boolean | undefined;
  /** How many answers are asked for, 1 to 128. */
  readonly n: number;
  /** The client's own `max_tokens`; undefined for null, too. */
  readonly maxTokens: number | undefined;
  /** The client's own `max_completion_tokens`; undefined for null, too. */
  readonly maxCompletionTokens: number | undefined;
  /** The client's own `service_tier`; undefined for null, too. */
  readonly serviceTier: string | undefined;
  /** It asks for what is written to a cache to be kept for an hour. */
  readonly hourWrites: boolean;
  readonly size: PromptSize;
  /** Bytes of text that the client says the answer will have: providers bill what it hasn't as if it had. */
  readonly predictedBytes: number;
  /** What its provider may bill beside tokens. */
  readonly features: readonly AskedFeature[];
  /** In the order of the body; they never go upstream. */
  readonly routingFields: readonly RoutingField[];
  readonly edits: EditPoints;
}

/**
 * One pass over the bytes of a request body, fed chunk by chunk as they arrive.
 *
 * The body is checked as JSON to its last byte, but not parsed, and nothing of
 * it is kept but the few values of a ChatRequest. Not to be used again once it threw.
 */
export class ChatRequestScanner {
  readonly #reader: RequestReader;
  readonly #json: JsonScanner<MemberPosition>;

  /** @param routing - fields by which this client may choose among models and providers */
  constructor(routing: ClientRoutingFields = NO_ROUTING) {
    this.#reader = new RequestReader(routing);
    this.#json = new JsonScanner<MemberPosition>('body', this.#reader);
  }

  /** @throws {InvalidRequestError} as soon as it is certain that the body can't be used */
  write(chunk: Uint8Array): void {
    if (!this.#json.write(chunk)) throw invalidJson(this.#json);
  }

  /**
   * Scans much at once, a little in each turn of the event loop.
   *
   * @throws {InvalidRequestError} as `write` does
   */
  writeInTurns(bytes: Buffer): Promise<void> {
    return inTurns([bytes], (part) => {
      this.write(part);
    });
  }

  /** @throws {InvalidRequestError} if the body is not a complete chat completion request */
  end(): ChatRequest {
    if (!this.#json.end()) throw invalidJson(this.#json);
    return this.#reader.request();
  }
}

/**
 * Scans a body that is already whole, a little in each turn of the event loop.
 *
 * @throws {InvalidRequestError} if it is not a chat completion request
 */
export async function scanWhole(body: Buffer, routing?: ClientRoutingFields): Promise<ChatRequest> {
  const scanner = new ChatRequestScanner(routing);
  await scanner.writeInTurns(body);
  return scanner.end();
}

/** What a value is directly in. */
type MemberPosition =
  | PromptPosition
  | ToolPosition
  | 'body'
  | 'request'
  | 'prediction'
  | 'stream_options'
  | 'extra_body'
  | 'routing'
  | 'in routing';

/** A value that the request is judged by; of an object or array only the beginning is known. */
interface FieldValue extends Span {
  readonly kind: JsonKind;
  /** What a string or number says; undefined where it is too long to be of use. */
  readonly text: string | undefined;
  readonly key: Span;
}

type FieldRole =
  | 'interpreted'
  | 'rejected'
  | 'billed'
  | 'routing'
  | 'tools'
  | 'tool_choice'
  | 'schema'
  | 'google'
  | 'prediction'
  | 'extra_body';

const NO_ROUTING: ClientRoutingFields = new Set();

const FIELDS = new KeyMatcher<FieldRole>({
  // No other parser may read another value of these than we do.
  model: 'interpreted',
  messages: 'interpreted',
  stream: 'interpreted',
  stream_options: 'interpreted',
  n: 'interpreted',
  max_tokens: 'interpreted',
  max_completion_tokens: 'interpreted',
  service_tier: 'interpreted',
  tools: 'tools',
  functions: 'tools',
  tool_choice: 'tool_choice',
  response_format: 'schema',
  google: 'google',
  prediction: 'prediction',
  extra_body: 'extra_body',
  ...Object.fromEntries(SETTINGS_FIELDS.map((name) => [name, 'extra_body' as const])),
  ...Object.fromEntries(Object.keys(BILLED_FIELDS).map((name) => [name, 'billed' as const])),
  ...Object.fromEntries(Object.keys(REJECTED_FIELDS).map((name) => [name, 'rejected' as const])),
});
const OPTIONS = new KeyMatcher<FieldRole>({ include_usage: 'interpreted' });

/** Makes a ChatRequest of what a JsonScanner finds. */
class RequestReader implements JsonListener<MemberPosition> {
  readonly #asked = new AskedFeatures();
  readonly #prompt = new PromptReader(this.#asked);
  #bodyKind: JsonKind = 'null';
  readonly #values = new Map<string, FieldValue>();
  /** The last key at the top level, in `stream_options` or in `extra_body`, if it means something there. */
  #name: string | undefined;
  #role: FieldRole | undefined;
  /** The last of `extra_body` and the like. */
  #settingsField = 'extra_body';
  #hasNoOptions = true;
  #predictedBytes = 0;
  readonly #routing: ClientRoutingFields;
  #key: Span = { start: 0, end: 0 };
  readonly #routingFields: RoutingField[] = [];

  constructor(routing: ClientRoutingFields) {
    this.#routing = routing;
  }

  key(within: MemberPosition, token: JsonToken): void {
    switch (within) {
      case 'request':
        this.#topLevelKey(token);
        break;
      case 'stream_options':
        this.#hasNoOptions = false;
        this.#noteField(OPTIONS, token, 'stream_options.');
        break;
      case 'extra_body':
        this.#extraKey(token);
        break;
      case 'body':
      case 'routing':
      case 'in routing':
        break;
      case 'tools':
      case 'tool list':
      case 'tool':
      case 'tool function':
      case 'tool choice':
      case 'google':
        if (within === 'google') this.#assertNotSuspicious(within, token);
        this.#asked.key(within, token);
        this.#prompt.countText(token);
        this.#prompt.cacheKey(token);
        break;
      case 'prediction':
        this.#prompt.key('elsewhere', token);
        break;
      default:
        this.#prompt.key(within, token);
    }
  }

  value(within: MemberPosition, kind: JsonKind, token: JsonToken): MemberPosition {
    switch (within) {
      case 'body':
        this.#bodyKind = kind;
        return kind === 'object' ? 'request' : 'elsewhere';
      case 'request':
      case 'stream_options':
      case 'extra_body':
        if (this.#role === 'interpreted' || this.#role === 'routing') this.#keepValue(kind, token);
        if (this.#role === 'billed' && this.#name !== undefined) {
          this.#asked.field(this.#name, kind, token, this.#pathIn(within, this.#name));
        }
        if (this.#role === 'prediction' && kind === 'string') {
          this.#predictedBytes += token.end - token.start - 2;
        }
        return this.#positionOf(within, kind, token) ?? this.#prompt.value('elsewhere', kind, token);
      case 'routing':
      case 'in routing':
        return 'in routing';
      case 'prediction':
        return this.#prompt.value('elsewhere', kind, token);
      case 'tools':
      case 'tool list':
      case 'tool':
      case 'tool function':
      case 'tool choice':
      case 'google': {
        const place = this.#prompt.value('elsewhere', kind, token);
        return place === 'cache control' ? place : (this.#asked.value(within, kind, token) ?? 'elsewhere');
      }
      default:
        return this.#prompt.value(within, kind, token);
    }
  }

  close(place: MemberPosition, token: JsonToken): void {
    if (place === 'schema' || place === 'tools') this.#prompt.endSchema(token);
    if (place === 'tool') this.#asked.endTool();
    if (place === 'routing') this.#endRoutingField(token.end);
    if (place === 'prediction') this.#predictedBytes += this.#prompt.size.stringBytes;
  }

  /** @throws {InvalidRequestError} for the first fault in this order: not an object, `model`, `messages`, the others */
  request(): ChatRequest {
    if (this.#bodyKind !== 'object') {
      throw new InvalidRequestError('invalid_type', 'The request body must be a JSON object.');
    }
    const model = this.#required('model', 'string', 'a string');
    if (model.text === undefined) throw typeError('model', `a string of at most ${MAX_TEXT_LENGTH} bytes`);
    this.#required('messages', 'array', 'an array');

    const stream = this.#optional('stream', ['true', 'false'], 'a boolean')?.kind === 'true';
    this.#optional('stream_options', ['object'], 'an object');
    const includeUsage = this.#optional(
      'include_usage',
      ['true', 'false'],
      'a boolean',
      'stream_options.include_usage',
    );
    return {
      model: model.text,
      stream,
      includeUsage: includeUsage && includeUsage.kind === 'true',
      n: this.#integer('n', 128, 'an integer from 1 to 128') ?? 1,
      maxTokens: this.#integer('max_tokens', Number.MAX_SAFE_INTEGER, 'a positive integer'),
      maxCompletionTokens: this.#integer(
        'max_completion_tokens',
        Number.MAX_SAFE_INTEGER,
        'a positive integer',
      ),
      serviceTier: this.#serviceTier(),
      hourWrites: this.#prompt.hourWrites,
      size: this.#prompt.size,
      predictedBytes: this.#predictedBytes,
      features: this.#asked.all,
      routingFields: this.#routingFields,
      edits: {
        model: spanOf(model),
        includeUsage: stream ? this.#usageSplice(model.end) : undefined,
        max_tokens: this.#member('max_tokens'),
        max_completion_tokens: this.#member('max_completion_tokens'),
      },
    };
  }

  #topLevelKey(token: JsonToken): void {
    this.#prompt.cacheKey(token);
    this.#key = { start: token.start, end: token.end };
    this.#noteField(FIELDS, token);
    if (this.#role === 'rejected' && this.#name !== undefined) throw rejectedByName(this.#name, this.#name);
    if (this.#role === undefined) this.#assertNotSuspicious('request', token);
  }

  /** Gateways such as LiteLLM lay the members of `extra_body` over the request's own. */
  #extraKey(token: JsonToken): void {
    this.#prompt.cacheKey(token);
    const match = FIELDS.find(token);
    this.#name = match?.name;
    this.#role = match?.role;
    if (match?.role === 'rejected' || match?.role === 'interpreted') {
      throw rejectedByName(match.name, this.#pathIn('extra_body', match.name));
    }
    if (!match) this.#assertNotSuspicious('extra_body', token);
  }

  /** Notes a key, if it is one that we know, and that no other parser can see another value of it. */
  #noteField(table: KeyMatcher<FieldRole>, token: JsonToken, path = ''): void {
    const match = table.find(token);
    this.#name = match?.name;
    this.#role = match?.role;
    if (match?.role === 'rejected' && this.#routing.has(match.name)) this.#role = 'routing';
    if (match === undefined || (this.#role !== 'interpreted' && this.#role !== 'routing')) return;
    const { name } = match;
    if (match.exact && !this.#values.has(name)) return;
    throw new InvalidRequestError(
      'ambiguous_parameter',
      match.exact
        ? `The field "${path}${name}" is there more than once.`
        : `A field differs from "${path}${name}" only in case; some providers take it for that.`,
      `${path}${name}`,
    );
  }

  /** A field that we don't know may look like one that must not pass. */
  #assertNotSuspicious(within: MemberPosition, token: JsonToken): void {
    const nameOf = (): string | undefined => tokenText(token);
    const reason = rejectionReason(token.asciiChars + token.nonAsciiChars, nameOf);
    if (reason !== undefined) throw unsupportedField(reason, this.#pathIn(within, nameOf() ?? ''));
  }

  #pathIn(within: MemberPosition, name: string): string {
    if (within === 'google') return `google.${name}`;
    return within === 'extra_body' ? `${this.#settingsField}.${name}` : name;
  }

  #keepValue(kind: JsonKind, token: JsonToken): void {
    const text = kind === 'string' || kind === 'number' ? tokenText(token) : undefined;
    if (this.#name !== undefined) {
      this.#values.set(this.#name, { kind, text, ...spanOf(token), key: this.#key });
      if (this.#role !== 'routing') return;
      this.#routingFields.push({
        name: this.#name,
        start: this.#key.start,
        end: token.end,
        value: spanOf(token),
      });
    }
  }

  /** Of an object or array only the beginning was known. */
  #endRoutingField(end: number): void {
    const field = this.#routingFields.pop();
    if (field) this.#routingFields.push({ ...field, end, value: { start: field.value.start, end } });
  }

  #positionOf(within: MemberPosition, kind: JsonKind, token: JsonToken): MemberPosition | undefined {
    if (within === 'stream_options' || (kind !== 'object' && kind !== 'array')) return undefined;
    if (this.#role === 'routing') return 'routing';
    if (this.#role === 'schema') return this.#prompt.beginSchema(token);
    if (this.#role === 'prediction') {
      this.#predictedBytes -= this.#prompt.size.stringBytes;
      return 'prediction';
    }
    if (this.#role === 'google') return kind === 'object' ? 'google' : undefined;
    if (this.#role === 'tool_choice' || this.#role === 'tools') {
      const name = this.#name ?? '';
      if (this.#role === 'tools') {
        this.#prompt.size.toolLists++;
        this.#prompt.beginSchema(token);
      }
      return this.#asked.begin(name, kind, this.#pathIn(within, name));
    }
    if (this.#name === 'messages' && kind === 'array') return 'messages';
    if (this.#name === 'stream_options' && kind === 'object') return 'stream_options';
    if (this.#role !== 'extra_body' || kind !== 'object') return undefined;
    this.#settingsField = this.#name ?? 'extra_body';
    return 'extra_body';
  }

  #required(name: string, kind: JsonKind, wanted: string): FieldValue {
    const value = this.#values.get(name);
    if (!value) {
      throw new InvalidRequestError('missing_required_parameter', `The field "${name}" is missing.`, name);
    }
    if (value.kind !== kind) throw typeError(name, wanted);
    return value;
  }

  /** Undefined for null, too. */
  #optional(name: string, kinds: readonly JsonKind[], wanted: string, path = name): FieldValue | undefined {
    const value = this.#values.get(name);
    if (!value || value.kind === 'null') return undefined;
    if (!kinds.includes(value.kind)) throw typeError(path, `${wanted} or null`);
    return value;
  }

  #integer(name: string, highest: number, wanted: string): number | undefined {
    const value = this.#optional(name, ['number'], wanted);
    if (!value) return undefined;
    const number = Number(value.text);
    if (!Number.isInteger(number) || number < 1 || number > highest) {
      throw typeError(name, `${wanted} or null`);
    }
    return number;
  }

  #serviceTier(): string | undefined {
    const value = this.#optional('service_tier', ['string'], 'a string');
    if (value && value.text === undefined) throw typeError('service_tier', 'the name of a service tier');
    return value?.text;
  }

  #member(name: string): MemberSpan | undefined {
    const value = this.#values.get(name);
    return value && { ...spanOf(value), key: value.key };
  }

  #usageSplice(afterModel: number): Splice | undefined {
    const options = this.#values.get('stream_options');
    if (!options) {
      return { start: afterModel, end: afterModel, text: ',"stream_options":{"include_usage":true}' };
    }
    if (options.kind === 'null') return { ...spanOf(options), text: '{"include_usage":true}' };

    const own = this.#values.get('include_usage');
    if (own) return own.kind === 'true' ? undefined : { ...spanOf(own), text: 'true' };
    const inside = options.start + 1;
    return { start: inside, end: inside, text: `"include_usage":true${this.#hasNoOptions ? '' : ','}` };
  }
}

/** From this length on a body that ends early may well have met a host's limit; no limit is lower. */
const CUT_BYTES = 100_000;
const CUT_BY_HOST = ' Something before the router may have cut it (in Next.js, proxyClientMaxBodySize).';

/** What is not JSON, as the client is told it. */
function invalidJson({ fault, faultAt: offset }: JsonScanner<MemberPosition>): InvalidRequestError {
  const why = {
    cut:
      offset === 0
        ? 'is empty; send a JSON object.'
        : `is not complete JSON: it ends after ${offset} bytes, in the middle.${offset < CUT_BYTES ? '' : CUT_BY_HOST}`,
    depth: `is nested deeper than ${MAX_DEPTH} levels.`,
    byte:
      offset === 0
        ? 'does not begin as JSON does; send UTF-8 without a byte order mark (BOM).'
        : `is not valid JSON in UTF-8: the byte at offset ${offset} is wrong.`,
  }[fault];
  return new InvalidRequestError('invalid_json', `The request body ${why}`);
}

function spanOf({ start, end }: Span): Span {
  return { start, end };
}

function typeError(name: string, wanted: string): InvalidRequestError {
  return new InvalidRequestError('invalid_type', `The field "${name}" must be ${wanted}.`, name);
}

function rejectedByName(name: string, path: string): InvalidRequestError {
  return unsupportedField(REJECTED_FIELDS[name] ?? 'it belongs at the top level', path);
}

function unsupportedField(reason: string, path: string): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_parameter',
    `The field "${path}" is not accepted here: ${reason}.`,
    path,
  );
}
