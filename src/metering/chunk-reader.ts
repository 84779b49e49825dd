import { KeyTable } from '../json/key-table.ts';
import type { JsonListener } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, textOf } from '../json/token.ts';
import {
  COMPLETION_COUNTS,
  type Count,
  type Counts,
  PLUGIN_COUNTS,
  PROMPT_COUNTS,
  SERVER_TOOL_COUNTS,
  TIMING_COUNTS,
  type Usage,
  USAGE_COUNTS,
  type UsageDialect,
  UsageTally,
} from './usage-dialects.ts';

/** What a value of an answer is directly in. */
export type Place =
  | 'document'
  | 'answer'
  | 'choices'
  | 'choice'
  | 'delta'
  | 'usage'
  | 'prompt details'
  | 'completion details'
  | 'server tools'
  | 'plugins'
  | 'plugin'
  | 'metadata'
  | 'gateway calls'
  | 'x_groq'
  | 'timings'
  | 'base_resp'
  | 'list'
  | 'listed'
  | 'elsewhere';

type AnswerKey =
  | 'choices'
  | 'usage'
  | 'error'
  | 'moderation'
  | 'object'
  | 'x_groq'
  | 'timings'
  | 'base_resp'
  | 'status_code';
type ChoiceKey = 'index' | 'delta' | 'finish_reason' | 'usage' | 'name' | 'metadata' | 'gateway calls';
type UsageKey = Count | 'prompt details' | 'completion details' | 'server tools' | 'plugins' | 'plugin';
type Key = AnswerKey | ChoiceKey | UsageKey | 'silent';

const NO_KEYS = new KeyTable<Key>({});
const KEYS: Readonly<Record<Place, KeyTable<Key>>> = {
  document: NO_KEYS,
  answer: new KeyTable<Key>({
    choices: 'choices',
    usage: 'usage',
    error: 'error',
    moderation: 'moderation',
    object: 'object',
    x_groq: 'x_groq',
    timings: 'timings',
    base_resp: 'base_resp',
  }),
  choices: NO_KEYS,
  choice: new KeyTable<Key>({
    index: 'index',
    delta: 'delta',
    message: 'delta',
    finish_reason: 'finish_reason',
    usage: 'usage',
  }),
  // All strings in a delta or message are delivered text, but for these and what is inside them:
  // labels, media, sources, and what repeats the text or signs it.
  delta: new KeyTable<Key>({
    name: 'name',
    provider_metadata: 'metadata', // Vercel
    role: 'silent',
    id: 'silent',
    type: 'silent',
    data: 'silent',
    url: 'silent',
    b64_json: 'silent',
    signature: 'silent',
    format: 'silent',
    annotations: 'silent',
    citations: 'silent',
    images: 'silent',
    reasoning_details: 'silent', // OpenRouter: `reasoning` again
    thinking_blocks: 'silent', // LiteLLM: `reasoning_content` again
    provider_specific_fields: 'silent',
    extra_content: 'silent',
  }),
  usage: new KeyTable<Key>({
    ...USAGE_COUNTS,
    prompt_tokens_details: 'prompt details',
    prompt_token_details: 'prompt details',
    completion_tokens_details: 'completion details',
    server_tool_use: 'server tools',
    server_tool_use_details: 'server tools',
    plugins: 'plugins', // Qwen
  }),
  'prompt details': new KeyTable<Key>({ ...PROMPT_COUNTS }),
  'completion details': new KeyTable<Key>({ ...COMPLETION_COUNTS }),
  'server tools': new KeyTable<Key>({ ...SERVER_TOOL_COUNTS }),
  plugins: new KeyTable<Key>({ search: 'plugin' }),
  plugin: new KeyTable<Key>({ ...PLUGIN_COUNTS }),
  metadata: new KeyTable<Key>({ gatewayToolCalls: 'gateway calls' }),
  'gateway calls': NO_KEYS,
  x_groq: new KeyTable<Key>({ usage: 'usage' }),
  timings: new KeyTable<Key>({ ...TIMING_COUNTS }),
  base_resp: new KeyTable<Key>({ status_code: 'status_code' }),
  // Gemini's errors are a list.
  list: NO_KEYS,
  listed: new KeyTable<Key>({ error: 'error' }),
  elsewhere: NO_KEYS,
};

/** Of a reason, what is kept of it. */
const LONGEST_REASON = 64;
/** What a choice says of its end when its provider failed: OpenRouter, Zhipu, DeepSeek. */
const FAILURES: ReadonlySet<string> = new Set(['error', 'network_error', 'insufficient_system_resource']);

/**
 * Takes out of an answer, or out of one chunk of a streamed answer after another, what metering
 * needs. It is told of every value as a scanner passes it, and keeps numbers only, and the reason of its end.
 */
export class ChunkReader implements JsonListener<Place> {
  /** Delivered text, in characters: content, reasoning, refusals, tool calls. */
  ascii = 0;
  nonAscii = 0;
  /** Completion tokens as the provider counted them last; 0 until it did. */
  completionTold = 0;
  /** Some chunk said that the answer is an error. */
  failed = false;
  /** Some choice gave a reason for its end. */
  finished = false;
  /** The first reason that was given. */
  finishReason: string | undefined;
  readonly #tally: UsageTally;

  #key: Key | undefined;
  /** Of the current chunk: */
  #isAnswer = false;
  #hasUsage = false;
  #saysMore = false;
  #choicesSay = false;
  #usageKeyFrom = 0;
  #nullUsage: { readonly from: number; readonly to: number } | undefined;
  #hasChoices = false;
  #choices = 0;
  #choice = 0;
  /** Counts of the chunk, and of the usage object that is being read; `wrong` once one of them can't be. */
  #chunkCounts: Counts | undefined;
  #counts: { [name in Key]?: number } = {};
  #wrong = false;
  #choiceCounts: { choice: number; readonly ordinal: number; readonly counts: Counts }[] | undefined;
  #usageIn: 'answer' | 'choice' | 'timings' = 'answer';
  #timings: Counts | undefined;
  /** Characters delivered before it. */
  #charsBefore = 0;
  /** Searches that no usage tells of: calls of Moonshot's own function, and of the gateway's tools as they were told last. */
  #ownSearches = 0;
  #gatewayCalls = 0;

  constructor(dialect?: UsageDialect) {
    this.#tally = new UsageTally(dialect);
  }

  /** Whether the chunk is an object, as answers are. */
  get isAnswer(): boolean {
    return this.#isAnswer;
  }

  /**
   * Whether the chunk that was just read has usage and nothing else to say. LiteLLM's has a choice with an empty delta,
   * after the one that gave the reason of the end.
   */
  get isUsageOnly(): boolean {
    if (!this.#hasUsage || !this.#hasChoices || this.#saysMore) return false;
    return this.#choices === 0 || (this.finished && !this.#choicesSay);
  }

  /** Where the chunk's own `"usage": null` stands in it, if it has one: key and value. */
  get nullUsage(): { readonly from: number; readonly to: number } | undefined {
    return this.#nullUsage;
  }

  usage(): Usage | undefined {
    const usage = this.#tally.read();
    const searches = this.#ownSearches + this.#gatewayCalls;
    return usage && searches > 0 ? { ...usage, webSearches: usage.webSearches + searches } : usage;
  }

  /** Another chunk begins. */
  begin(): void {
    this.#key = undefined;
    this.#isAnswer = false;
    this.#hasUsage = false;
    this.#saysMore = false;
    this.#choicesSay = false;
    this.#nullUsage = undefined;
    this.#hasChoices = false;
    this.#choices = 0;
    this.#choice = 0;
    this.#chunkCounts = undefined;
    this.#choiceCounts = undefined;
    this.#timings = undefined;
    this.#charsBefore = this.ascii + this.nonAscii;
  }

  /** The chunk is over, complete or not: what was told of usage counts. */
  end(): void {
    const counts = this.#chunkCounts;
    const ofChoices = this.#choiceCounts;
    const timings = this.#timings;
    if (!counts && !ofChoices && !timings) return;
    const only = this.#choices === 1 ? this.#choice : undefined;
    if (counts) this.#tally.add(counts, only, this.ascii + this.nonAscii > this.#charsBefore);
    for (const own of ofChoices ?? []) this.#tally.addOfChoice(own.counts, own.choice);
    if (timings) this.#tally.addOfChoice(timings, only ?? 0);
    this.#chunkCounts = undefined;
    this.#choiceCounts = undefined;
    this.#timings = undefined;
    this.completionTold = this.#tally.read()?.completionTokens ?? 0;
  }

  key(within: Place, token: JsonToken): void {
    const match = KEYS[within].find(token);
    this.#key = match?.exact ? match.role : undefined;
    if (this.#key === 'usage') this.#usageKeyFrom = token.start;
  }

  value(within: Place, kind: JsonKind, token: JsonToken): Place {
    if (within === 'elsewhere') return within;
    switch (within) {
      case 'document':
        this.#isAnswer = kind === 'object';
        return kind === 'object' ? 'answer' : kind === 'array' ? 'list' : 'elsewhere';
      case 'answer':
        return this.#inAnswer(kind, token);
      case 'choices':
        this.#choice = this.#choices;
        this.#choices += 1;
        if (kind === 'object') return 'choice';
        this.#choicesSay = true;
        return 'elsewhere';
      case 'choice':
        return this.#inChoice(kind, token);
      case 'delta':
        if (kind !== 'null') this.#choicesSay = true;
        if (this.#key === 'silent') return 'elsewhere';
        if (this.#key === 'metadata') return 'metadata';
        if (kind === 'string') {
          if (this.#key === 'name' && isOwnFunction(token)) this.#ownSearches += 1;
          this.ascii += token.asciiChars;
          this.nonAscii += token.nonAsciiChars;
        }
        return 'delta';
      case 'metadata':
        if (this.#key !== 'gateway calls' || (kind !== 'object' && kind !== 'array')) return 'metadata';
        this.#gatewayCalls = 0;
        return 'gateway calls';
      case 'gateway calls':
        // A number a tool, or a list of its calls.
        this.#gatewayCalls += kind === 'number' ? callsOf(token) : 1;
        return 'elsewhere';
      case 'x_groq':
        return this.#key === 'usage' && kind === 'object' ? this.#beginUsage('answer') : 'elsewhere';
      case 'timings':
        return this.#count(kind, token, true);
      case 'base_resp':
        if (this.#key === 'status_code' && kind === 'number' && numberOf(token) !== 0) this.#fail();
        return 'elsewhere';
      case 'list':
        return kind === 'object' ? 'listed' : 'elsewhere';
      case 'listed':
        if (this.#key === 'error' && isTruthy(kind, token)) this.#fail();
        return 'elsewhere';
      case 'usage':
        if (
          this.#key === 'prompt details' ||
          this.#key === 'completion details' ||
          this.#key === 'server tools' ||
          this.#key === 'plugins'
        ) {
          return kind === 'object' ? this.#key : 'elsewhere';
        }
        return this.#count(kind, token, true);
      case 'prompt details':
      case 'completion details':
      case 'server tools':
      case 'plugin':
        return this.#count(kind, token, false);
      case 'plugins':
        return this.#key === 'plugin' && kind === 'object' ? 'plugin' : 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  /** Whether the string value that is being read, directly in that, is delivered text. */
  isText(within: Place): boolean {
    return within === 'delta' && this.#key !== 'silent';
  }

  close(place: Place): void {
    if ((place === 'usage' || place === 'timings') && !this.#wrong) this.#keepCounts();
    if (place !== 'choice') return;
    // Its index may come after its usage.
    const own = this.#choiceCounts?.at(-1);
    if (own?.ordinal === this.#choices) own.choice = this.#choice;
  }

  #inAnswer(kind: JsonKind, token: JsonToken): Place {
    if (this.#key === undefined) return 'elsewhere';
    switch (this.#key) {
      case 'choices':
        this.#hasChoices = kind === 'array';
        return kind === 'array' ? 'choices' : 'elsewhere';
      case 'usage':
        if (kind === 'null') this.#nullUsage = { from: this.#usageKeyFrom, to: token.end };
        if (kind !== 'object') return 'elsewhere';
        this.#hasUsage = true;
        return this.#beginUsage('answer');
      case 'error':
        if (isTruthy(kind, token)) this.#fail();
        return 'elsewhere';
      case 'moderation':
        if (kind !== 'null') this.#saysMore = true;
        return 'elsewhere';
      case 'x_groq':
        return kind === 'object' ? 'x_groq' : 'elsewhere';
      case 'timings':
        return kind === 'object' ? this.#beginUsage('timings') : 'elsewhere';
      case 'base_resp':
        return kind === 'object' ? 'base_resp' : 'elsewhere';
      case 'object':
        if (kind === 'string' && token.asciiChars === 5 && textOf(token) === 'error') this.#fail();
        return 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  #inChoice(kind: JsonKind, token: JsonToken): Place {
    if (kind !== 'null' && this.#key !== 'index' && this.#key !== 'delta') this.#choicesSay = true;
    switch (this.#key) {
      case 'index':
        if (kind === 'number') this.#choice = numberOf(token);
        return 'elsewhere';
      case 'delta':
        if (kind === 'object') return 'delta';
        this.#choicesSay = true;
        return 'elsewhere';
      case 'finish_reason':
        if (kind === 'string' && token.to > token.from) {
          const reason = textOf(token) ?? '';
          this.finished = true;
          this.finishReason ??= reason.slice(0, LONGEST_REASON);
          if (FAILURES.has(reason)) this.failed = true;
        }
        return 'elsewhere';
      case 'usage':
        return kind === 'object' ? this.#beginUsage('choice') : 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  /** The chunk is that of an error, which nobody may take for usage alone. */
  #fail(): void {
    this.failed = true;
    this.#saysMore = true;
  }

  #beginUsage(place: 'answer' | 'choice' | 'timings'): Place {
    this.#usageIn = place;
    this.#counts = {};
    this.#wrong = false;
    return place === 'timings' ? place : 'usage';
  }

  /** A count that can't be one spoils the usage it is in, if prompt or completion hang on it. */
  #count(kind: JsonKind, token: JsonToken, spoils: boolean): Place {
    const name = this.#key;
    if (name === undefined || kind === 'null') return 'elsewhere';
    const count = kind === 'number' ? numberOf(token) : Number.NaN;
    if (Number.isSafeInteger(count) && count >= 0) this.#counts[name] = count;
    else if (spoils && (name === 'prompt' || name === 'completion')) this.#wrong = true;
    return 'elsewhere';
  }

  #keepCounts(): void {
    if (this.#usageIn === 'answer') this.#chunkCounts = { ...this.#chunkCounts, ...this.#counts };
    else if (this.#usageIn === 'timings') {
      const { input, cacheRead, output } = this.#counts;
      // Those without `cache_n` don't tell how long the prompt was.
      if (input !== undefined && cacheRead !== undefined && output !== undefined)
        this.#timings = this.#counts;
    } else {
      const own = { choice: this.#choice, ordinal: this.#choices, counts: this.#counts };
      (this.#choiceCounts ??= []).push(own);
    }
  }
}

/** As JavaScript has it: some servers send `error: ""` with every chunk. */
function isTruthy(kind: JsonKind, token: JsonToken): boolean {
  if (kind === 'string') return token.to > token.from;
  if (kind === 'number') return numberOf(token) !== 0;
  return kind !== 'null' && kind !== 'false';
}

/** A function that the provider runs: Moonshot's have a dollar sign, which names of a client's own functions can't have. */
function isOwnFunction({ bytes, from }: JsonToken): boolean {
  return bytes[from] === 0x24;
}

/** 0 for what can't be a count. */
function callsOf(token: JsonToken): number {
  const calls = numberOf(token);
  return Number.isSafeInteger(calls) && calls > 0 ? calls : 0;
}

/** What a number says; of digits alone, as most counts are, without making a string of them. */
function numberOf(token: JsonToken): number {
  const { bytes, from, to } = token;
  if (to - from > 15) return Number(textOf(token));
  let number = 0;
  for (let i = from; i < to; i++) {
    const digit = (bytes[i] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return Number(textOf(token));
    number = number * 10 + digit;
  }
  return number;
}
