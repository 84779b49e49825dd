import { InvalidRequestError } from '../errors/request-errors.ts';
import type { DimensionSettings, TagSettings } from '../options/resolve-dimensions.ts';
import type { ClientRoutingFields } from '../options/resolve-options.ts';
import type { StickySettings } from '../options/resolve-sticky.ts';
import type { PromptSize } from '../metering/estimate.ts';
import type { JsonListener } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, MAX_TEXT_LENGTH, tokenText } from '../json/token.ts';
import { KeyMatcher } from '../json/key-matcher.ts';
import type { AskedFeature } from '../metering/server-tool-fees.ts';
import { AskedFeatures, type ToolPosition } from './asked-features.ts';
import { BILLED_FIELDS } from './billed-fields.ts';
import { type ConversationFields, ConversationReader } from './conversation-reader.ts';
import { type DimensionFields, endUserIn, tagsIn } from './dimension-fields.ts';
import { duplicateField, invalidType, unsupportedField } from './field-errors.ts';
import { type PromptPosition, PromptReader } from './prompt-reader.ts';
import { PLAIN_FIELDS, REJECTED_FIELDS, rejectionReason, SETTINGS_FIELDS } from './rejected-fields.ts';
import type { RoutingField } from './client-routing.ts';
import type { EditPoints, MemberSpan, Span, Splice } from './splice-request.ts';

export { spliceRequest } from './splice-request.ts';

/** The fields of a chat completion request that the router uses. */
export interface ChatRequest extends DimensionFields {
  readonly model: string;
  readonly stream: boolean;
  /** The client's `stream_options.include_usage`; undefined if missing or null. */
  readonly includeUsage: boolean | undefined;
  /** Number of choices requested, 1 to 128. */
  readonly n: number;
  /** The client's `max_tokens`; undefined if missing or null. */
  readonly maxTokens: number | undefined;
  /** The client's `max_completion_tokens`; undefined if missing or null. */
  readonly maxCompletionTokens: number | undefined;
  /** The client's `service_tier`; undefined if missing or null. */
  readonly serviceTier: string | undefined;
  /** The field that wants cache writes kept for an hour, such as `cache_control`; undefined if none does. */
  readonly hourWrites: string | undefined;
  readonly size: PromptSize;
  /** Bytes of predicted output (`prediction`): providers bill the predicted tokens that the answer doesn't contain, too. */
  readonly predictedBytes: number;
  /** Features that the provider may bill beside tokens. */
  readonly features: readonly AskedFeature[];
  /** Fields that choose among models and providers, in the order of the body; they never go upstream. */
  readonly routingFields: readonly RoutingField[];
  /** Undefined if it isn't read. */
  readonly conversation: ConversationFields | undefined;
  /** The value of `messages`. */
  readonly messages: Span;
  readonly edits: EditPoints;
}

/** Fields that are read if the options of the router say so. */
export interface OptionalFields {
  /** By which this client may choose among models and providers. */
  readonly clientRouting?: ClientRoutingFields;
  /** Read whom the request is for, and its tags. */
  readonly dimensions?: DimensionSettings | undefined;
  /** Read which conversation the request belongs to. */
  readonly sticky?: StickySettings | undefined;
}

/** The part of the request that directly contains a value. */
export type MemberPosition =
  | PromptPosition
  | ToolPosition
  | 'body'
  | 'request'
  | 'prediction'
  | 'stream_options'
  | 'extra_body'
  | 'metadata'
  | 'routing'
  | 'in routing';

/** The value of a field that the router interprets; of an object or array only the beginning is known. */
interface FieldValue extends Span {
  readonly name: string;
  readonly kind: JsonKind;
  /** Text of a string or number; undefined if it is too long to be valid. */
  readonly text: string | undefined;
  readonly keyStart: number;
  readonly keyEnd: number;
  /** The one that was read before. */
  readonly before: FieldValue | undefined;
}

type FieldRole =
  | 'interpreted'
  | 'rejected'
  | 'billed'
  | 'end_user'
  | 'metadata'
  | 'routing'
  | 'tools'
  | 'tool_choice'
  | 'conversation'
  | 'schema'
  | 'google'
  | 'prediction'
  | 'extra_body'
  | 'plain';

const NO_ROUTING: ClientRoutingFields = new Set();
const NO_FIELDS: readonly RoutingField[] = [];
const NO_TAGS: readonly TagSettings[] = [];

const FIELDS = new KeyMatcher<FieldRole>({
  // Fields for which the router and every other parser must read the same value.
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
  user: 'end_user',
  safety_identifier: 'end_user',
  prompt_cache_key: 'conversation',
  metadata: 'metadata',
  extra_body: 'extra_body',
  ...Object.fromEntries(PLAIN_FIELDS.map((name) => [name, 'plain' as const])),
  ...Object.fromEntries(SETTINGS_FIELDS.map((name) => [name, 'extra_body' as const])),
  ...Object.fromEntries(Object.keys(BILLED_FIELDS).map((name) => [name, 'billed' as const])),
  ...Object.fromEntries(Object.keys(REJECTED_FIELDS).map((name) => [name, 'rejected' as const])),
});
/** Kinds of values that a member may have. */
const BOOLEANS: readonly JsonKind[] = ['true', 'false'];
const STRINGS: readonly JsonKind[] = ['string'];
const NUMBERS: readonly JsonKind[] = ['number'];
const OBJECTS: readonly JsonKind[] = ['object'];

const OPTIONS = new KeyMatcher<FieldRole>({ include_usage: 'interpreted' });

/** Builds a ChatRequest from the tokens of a JsonScanner. */
export class RequestReader implements JsonListener<MemberPosition> {
  readonly #asked = new AskedFeatures();
  readonly #prompt = new PromptReader(this.#asked);
  #bodyKind: JsonKind = 'null';
  /** The value that was read last. A request has few: a map of them would take more memory and time. */
  #last: FieldValue | undefined;
  /** The last known key at the top level, in `stream_options` or in `extra_body`. */
  #name: string | undefined;
  #role: FieldRole | undefined;
  /** The last key of `extra_body` or another settings object. */
  #settingsField = 'extra_body';
  #hasNoOptions = true;
  #predictedBytes = 0;
  readonly #routing: ClientRoutingFields;
  readonly #readsEndUser: boolean;
  readonly #tags: readonly TagSettings[];
  readonly #conversation: ConversationReader | undefined;
  /** The last key at the top level. */
  #keyStart = 0;
  #keyEnd = 0;
  #messagesEnd = 0;
  #routingFields: readonly RoutingField[] = NO_FIELDS;

  constructor({ clientRouting = NO_ROUTING, dimensions, sticky }: OptionalFields) {
    this.#routing = clientRouting;
    this.#readsEndUser = dimensions?.user !== undefined;
    this.#tags = dimensions?.tags ?? NO_TAGS;
    if (sticky?.readsBody) this.#conversation = new ConversationReader(sticky.readsMessages);
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
      case 'metadata':
        this.#metadataKey(token);
        this.#prompt.key('elsewhere', token);
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
    this.#conversation?.value(within, kind, token, this.#name, this.#prompt.member);
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
        if (within === 'request' && this.#role === 'metadata' && kind === 'object') return 'metadata';
        return this.#positionOf(within, kind, token) ?? this.#prompt.value('elsewhere', kind, token);
      case 'routing':
      case 'in routing':
        return 'in routing';
      case 'metadata':
        if (this.#role === 'interpreted') this.#keepValue(kind, token);
        return this.#prompt.value('elsewhere', kind, token);
      case 'prediction':
        return this.#prompt.value('elsewhere', kind, token);
      case 'tools':
      case 'tool list':
      case 'tool':
      case 'tool function':
      case 'tool choice':
      case 'google': {
        const position = this.#prompt.value('elsewhere', kind, token);
        return position === 'cache control'
          ? position
          : (this.#asked.value(within, kind, token) ?? 'elsewhere');
      }
      default:
        return this.#prompt.value(within, kind, token);
    }
  }

  close(position: MemberPosition, token: JsonToken): void {
    if (position === 'schema' || position === 'tools') this.#prompt.endSchema(token);
    if (position === 'tool') this.#asked.endTool();
    if (position === 'routing') this.#endRoutingField(token.end);
    if (position === 'prediction') this.#predictedBytes += this.#prompt.size.stringBytes;
    if (position === 'messages') this.#messagesEnd = token.end;
  }

  /** @throws {InvalidRequestError} for the first problem in this order: not an object, `model`, `messages`, the others */
  request(): ChatRequest {
    if (this.#bodyKind !== 'object') {
      throw new InvalidRequestError('invalid_type', 'The request body must be a JSON object.');
    }
    const model = this.#required('model', 'string', 'a string');
    if (model.text === undefined) throw invalidType('model', `a string of at most ${MAX_TEXT_LENGTH} bytes`);
    const messages = this.#required('messages', 'array', 'an array');

    const stream = this.#optional('stream', BOOLEANS, 'a boolean')?.kind === 'true';
    this.#optional('stream_options', OBJECTS, 'an object');
    const includeUsage = this.#optional(
      'include_usage',
      BOOLEANS,
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
      endUser: endUserIn(this),
      tags: tagsIn(this.#tags, this),
      hourWrites: this.#prompt.hourWrites,
      size: this.#prompt.size,
      predictedBytes: this.#predictedBytes,
      features: this.#asked.all,
      routingFields: this.#routingFields,
      conversation: this.#conversation?.fields(),
      messages: { start: messages.start, end: this.#messagesEnd },
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
    this.#keyStart = token.start;
    this.#keyEnd = token.end;
    this.#noteField(FIELDS, token);
    if (this.#role === 'rejected' && this.#name !== undefined) throw rejectedByName(this.#name, this.#name);
    if (this.#role === undefined) this.#assertNotSuspicious('request', token);
  }

  /** Gateways such as LiteLLM merge the members of `extra_body` over the request's own. */
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

  /** Other parsers tell the names in `metadata` apart by case too. */
  #metadataKey(token: JsonToken): void {
    const key = tokenText(token);
    this.#name = this.#tags.find(({ name }) => name === key)?.dimension;
    this.#role = this.#name === undefined ? undefined : 'interpreted';
    if (this.#name !== undefined && this.#valueOf(this.#name)) throw duplicateField(`metadata.${key}`, true);
  }

  /** Notes a known key. Rejects it if another parser could read a different value for it. */
  #noteField(table: KeyMatcher<FieldRole>, token: JsonToken, path = ''): void {
    const match = table.find(token);
    this.#name = match?.name;
    this.#role = match?.role;
    if (match?.role === 'metadata' && this.#tags.length === 0) this.#role = undefined;
    if (match?.role === 'end_user') this.#role = this.#readsEndUser ? 'interpreted' : undefined;
    if (match?.role === 'rejected' && this.#routing.has(match.name)) this.#role = 'routing';
    if (match === undefined || (this.#role !== 'interpreted' && this.#role !== 'routing')) return;
    const { name } = match;
    if (match.exact && !this.#valueOf(name)) return;
    throw duplicateField(`${path}${name}`, match.exact);
  }

  /** Rejects an unknown field whose name looks like that of a rejected one. */
  #assertNotSuspicious(within: MemberPosition, token: JsonToken): void {
    const nameOf = (): string | undefined => tokenText(token);
    const reason = rejectionReason(token.asciiChars + token.nonAsciiChars, nameOf);
    if (reason !== undefined) throw unsupportedField(this.#pathIn(within, nameOf() ?? ''), reason);
  }

  #pathIn(within: MemberPosition, name: string): string {
    if (within === 'google') return `google.${name}`;
    return within === 'extra_body' ? `${this.#settingsField}.${name}` : name;
  }

  #keepValue(kind: JsonKind, token: JsonToken): void {
    const text = kind === 'string' || kind === 'number' ? tokenText(token) : undefined;
    if (this.#name !== undefined) {
      this.#last = {
        name: this.#name,
        kind,
        text,
        start: token.start,
        end: token.end,
        keyStart: this.#keyStart,
        keyEnd: this.#keyEnd,
        before: this.#last,
      };
      if (this.#role !== 'routing') return;
      const field = { name: this.#name, start: this.#keyStart, end: token.end, value: spanOf(token) };
      this.#routingFields = [...this.#routingFields, field];
    }
  }

  /** Sets the end of an object or array, of which only the beginning was known. */
  #endRoutingField(end: number): void {
    const field = this.#routingFields.at(-1);
    if (!field) return;
    const ended = { ...field, end, value: { start: field.value.start, end } };
    this.#routingFields = [...this.#routingFields.slice(0, -1), ended];
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

  #valueOf(name: string): FieldValue | undefined {
    let value = this.#last;
    while (value && value.name !== name) value = value.before;
    return value;
  }

  #required(name: string, kind: JsonKind, wanted: string): FieldValue {
    const value = this.#valueOf(name);
    if (!value) {
      throw new InvalidRequestError('missing_required_parameter', `The field "${name}" is missing.`, name);
    }
    if (value.kind !== kind) throw invalidType(name, wanted);
    return value;
  }

  /** Undefined if missing or null. */
  #optional(name: string, kinds: readonly JsonKind[], wanted: string, path = name): FieldValue | undefined {
    const value = this.#valueOf(name);
    if (!value || value.kind === 'null') return undefined;
    if (!kinds.includes(value.kind)) throw invalidType(path, `${wanted} or null`);
    return value;
  }

  /** Undefined if missing or null; its text is undefined if it is too long. */
  stringMember(name: string, wanted: string, path?: string): FieldValue | undefined {
    return this.#optional(name, STRINGS, wanted, path);
  }

  #integer(name: string, highest: number, wanted: string): number | undefined {
    const value = this.#optional(name, NUMBERS, wanted);
    if (!value) return undefined;
    const number = Number(value.text);
    if (!Number.isInteger(number) || number < 1 || number > highest) {
      throw invalidType(name, `${wanted} or null`);
    }
    return number;
  }

  #serviceTier(): string | undefined {
    const value = this.stringMember('service_tier', 'a string');
    if (value && value.text === undefined) throw invalidType('service_tier', 'the name of a service tier');
    return value?.text;
  }

  #member(name: string): MemberSpan | undefined {
    const value = this.#valueOf(name);
    if (!value) return undefined;
    const { start, end, keyStart, keyEnd } = value;
    return { start, end, key: { start: keyStart, end: keyEnd } };
  }

  #usageSplice(afterModel: number): Splice | undefined {
    const options = this.#valueOf('stream_options');
    if (!options) {
      return { start: afterModel, end: afterModel, text: ',"stream_options":{"include_usage":true}' };
    }
    if (options.kind === 'null') return { ...spanOf(options), text: '{"include_usage":true}' };

    const own = this.#valueOf('include_usage');
    if (own) return own.kind === 'true' ? undefined : { ...spanOf(own), text: 'true' };
    const inside = options.start + 1;
    return { start: inside, end: inside, text: `"include_usage":true${this.#hasNoOptions ? '' : ','}` };
  }
}

function spanOf({ start, end }: Span): Span {
  return { start, end };
}

function rejectedByName(name: string, path: string): InvalidRequestError {
  return unsupportedField(path, REJECTED_FIELDS[name] ?? 'it belongs at the top level');
}
