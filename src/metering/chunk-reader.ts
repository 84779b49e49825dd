import { KeyTable } from '../json/key-table.ts';
import type { JsonListener } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, textOf } from '../json/token.ts';
import {
  COMPLETION_COUNTS,
  type Count,
  type Counts,
  PROMPT_COUNTS,
  type Usage,
  USAGE_COUNTS,
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
  | 'x_groq'
  | 'elsewhere';

type AnswerKey = 'choices' | 'usage' | 'error' | 'moderation' | 'x_groq';
type ChoiceKey = 'index' | 'delta' | 'finish_reason' | 'usage';
type UsageKey = Count | 'prompt details' | 'completion details';
type Key = AnswerKey | ChoiceKey | UsageKey | 'silent';

const NO_KEYS = new KeyTable<Key>({});
const KEYS: Readonly<Record<Place, KeyTable<Key>>> = {
  document: NO_KEYS,
  answer: new KeyTable<Key>({
    choices: 'choices',
    usage: 'usage',
    error: 'error',
    moderation: 'moderation',
    x_groq: 'x_groq',
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
  }),
  'prompt details': new KeyTable<Key>({ ...PROMPT_COUNTS }),
  'completion details': new KeyTable<Key>({ ...COMPLETION_COUNTS }),
  x_groq: new KeyTable<Key>({ usage: 'usage' }),
  elsewhere: NO_KEYS,
};

/**
 * Takes out of an answer, or out of one chunk of a streamed answer after another, what metering
 * needs. It is told of every value as a scanner passes it, and keeps numbers only.
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
  readonly #tally = new UsageTally();

  #key: Key | undefined;
  /** Of the current chunk: */
  #hasUsage = false;
  #saysMore = false;
  #hasChoices = false;
  #choices = 0;
  #choice = 0;
  /** Counts of the chunk, and of the usage object that is being read; `wrong` once one of them can't be. */
  #chunkCounts: Counts | undefined;
  #counts: { [name in Key]?: number } = {};
  #wrong = false;
  #choiceCounts: { choice: number; readonly ordinal: number; readonly counts: Counts }[] | undefined;
  #usageIn: 'answer' | 'choice' = 'answer';

  /** Whether the chunk that was just read has usage and nothing else to say. */
  get isUsageOnly(): boolean {
    return this.#hasUsage && this.#hasChoices && this.#choices === 0 && !this.#saysMore;
  }

  usage(): Usage | undefined {
    return this.#tally.read();
  }

  /** Another chunk begins. */
  begin(): void {
    this.#key = undefined;
    this.#hasUsage = false;
    this.#saysMore = false;
    this.#hasChoices = false;
    this.#choices = 0;
    this.#choice = 0;
    this.#chunkCounts = undefined;
    this.#choiceCounts = undefined;
  }

  /** The chunk is over, complete or not: what was told of usage counts. */
  end(): void {
    const counts = this.#chunkCounts;
    const ofChoices = this.#choiceCounts;
    if (!counts && !ofChoices) return;
    if (counts) this.#tally.add(counts, this.#choices === 1 ? this.#choice : undefined);
    for (const own of ofChoices ?? []) this.#tally.addOfChoice(own.counts, own.choice);
    this.#chunkCounts = undefined;
    this.#choiceCounts = undefined;
    this.completionTold = this.#tally.read()?.completionTokens ?? 0;
  }

  key(within: Place, token: JsonToken): void {
    const match = KEYS[within].find(token);
    this.#key = match?.exact ? match.role : undefined;
  }

  value(within: Place, kind: JsonKind, token: JsonToken): Place {
    switch (within) {
      case 'document':
        return kind === 'object' ? 'answer' : 'elsewhere';
      case 'answer':
        return this.#inAnswer(kind, token);
      case 'choices':
        this.#choice = this.#choices;
        this.#choices += 1;
        return kind === 'object' ? 'choice' : 'elsewhere';
      case 'choice':
        return this.#inChoice(kind, token);
      case 'delta':
        if (this.#key === 'silent') return 'elsewhere';
        if (kind === 'string') {
          this.ascii += token.asciiChars;
          this.nonAscii += token.nonAsciiChars;
        }
        return 'delta';
      case 'x_groq':
        return this.#key === 'usage' && kind === 'object' ? this.#beginUsage('answer') : 'elsewhere';
      case 'usage':
        if (this.#key === 'prompt details' || this.#key === 'completion details') {
          return kind === 'object' ? this.#key : 'elsewhere';
        }
        return this.#count(kind, token, true);
      case 'prompt details':
      case 'completion details':
        return this.#count(kind, token, false);
      default:
        return 'elsewhere';
    }
  }

  close(place: Place): void {
    if (place === 'usage' && !this.#wrong) this.#keepCounts();
    if (place !== 'choice') return;
    // Its index may come after its usage.
    const own = this.#choiceCounts?.at(-1);
    if (own?.ordinal === this.#choices) own.choice = this.#choice;
  }

  #inAnswer(kind: JsonKind, token: JsonToken): Place {
    switch (this.#key) {
      case 'choices':
        this.#hasChoices = kind === 'array';
        return kind === 'array' ? 'choices' : 'elsewhere';
      case 'usage':
        if (kind !== 'object') return 'elsewhere';
        this.#hasUsage = true;
        return this.#beginUsage('answer');
      case 'error':
        if (isTruthy(kind, token)) {
          this.failed = true;
          this.#saysMore = true;
        }
        return 'elsewhere';
      case 'moderation':
        if (kind !== 'null') this.#saysMore = true;
        return 'elsewhere';
      case 'x_groq':
        return kind === 'object' ? 'x_groq' : 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  #inChoice(kind: JsonKind, token: JsonToken): Place {
    switch (this.#key) {
      case 'index':
        if (kind === 'number') this.#choice = numberOf(token);
        return 'elsewhere';
      case 'delta':
        return kind === 'object' ? 'delta' : 'elsewhere';
      case 'finish_reason':
        if (kind === 'string' && token.to > token.from) {
          this.finished = true;
          if (textOf(token) === 'error') this.failed = true;
        }
        return 'elsewhere';
      case 'usage':
        return kind === 'object' ? this.#beginUsage('choice') : 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  #beginUsage(place: 'answer' | 'choice'): Place {
    this.#usageIn = place;
    this.#counts = {};
    this.#wrong = false;
    return 'usage';
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
    else {
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
