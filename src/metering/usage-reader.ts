import { KeyMatcher } from '../json/key-matcher.ts';
import { type AnswerMember, KEYS, type AnswerPosition } from './answer-keys.ts';
import { ReportedCost, type ReportedCostField } from './reported-cost.ts';
import type { JsonListener } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, tokenText } from '../json/token.ts';
import { type Counts, type Usage, type UsageDialect, UsageAccumulator } from './usage-dialects.ts';

/** Longer finish reasons are cut. */
const MAX_REASON_LENGTH = 64;
/** Finish reasons that mean a failure of the provider: OpenRouter, Zhipu, DeepSeek. */
const FAILURES: ReadonlySet<string> = new Set(['error', 'network_error', 'insufficient_system_resource']);

const NO_COUNTS: Counts = {};

/** A chunk that delivers text and says nothing else, but for service tiers. */
export interface KnownChunk {
  readonly ascii: number;
  readonly nonAscii: number;
  readonly tier: string | undefined;
  readonly tierUsed: string | undefined;
}

/**
 * Extracts what metering needs from an answer, or from one chunk of a streamed answer after another. It receives every
 * value from a scanner, and keeps only numbers and the finish reason.
 */
export class UsageReader implements JsonListener<AnswerPosition> {
  /** Delivered text, in characters: content, reasoning, refusals, tool calls. */
  ascii = 0;
  nonAscii = 0;
  /** Some chunk reported an error. */
  failed = false;
  /** Some choice has a finish reason. */
  finished = false;
  /** The first finish reason. */
  finishReason: string | undefined;
  #tier: string | undefined;
  #tierUsed: string | undefined;
  #tierInUsage: string | undefined;
  readonly #cost: ReportedCost | undefined;
  readonly #accumulator: UsageAccumulator;

  #key: AnswerMember | undefined;
  // The current chunk:
  #isAnswer = false;
  #hasUsage = false;
  #saysMore = false;
  #choicesSay = false;
  #usageKeyFrom = 0;
  #nullUsage: { readonly from: number; readonly to: number } | undefined;
  #hasChoices = false;
  #choices = 0;
  #choice = 0;
  /** Counts of the chunk, and of the current usage object, which is invalid if one of its counts is. */
  #chunkCounts: Counts | undefined;
  #counts: { [name in AnswerMember]?: number } | undefined;
  #isInvalid = false;
  /** Counts of the current choice. */
  #choiceCounts: Counts | undefined;
  #usageIn: 'answer' | 'choice' | 'timings' = 'answer';
  #timings: Counts | undefined;
  /** Characters delivered before this chunk. */
  #charsBefore = 0;
  /** Searches that no usage reports: calls of Moonshot's built-in function, and of Vercel's gateway tools as last reported. */
  #ownSearches = 0;
  #gatewayCalls = 0;

  constructor(dialect: UsageDialect | undefined, choices: number, costField: ReportedCostField | undefined) {
    this.#accumulator = new UsageAccumulator(choices, dialect);
    this.#cost = costField === undefined ? undefined : new ReportedCost(costField);
  }

  /** The provider's name for the service tier that served; undefined if not reported. */
  get serviceTier(): string | undefined {
    return this.#tierUsed ?? this.#tier ?? this.#tierInUsage;
  }

  /** Whether an error was reported, or its value has begun: a text counts as an error only at its end. */
  get mayBeError(): boolean {
    return this.failed || this.#key === 'error';
  }

  /** The cost that the provider reported, in pico-dollars. */
  get reportedCost(): bigint | undefined {
    return this.#cost?.read();
  }

  /** The last completion count that the provider reported; 0 if none. */
  get reportedCompletionTokens(): number {
    return this.#accumulator.read()?.completionTokens ?? 0;
  }

  /** Whether the chunk is an object, as answers are. */
  get isAnswer(): boolean {
    return this.#isAnswer;
  }

  /**
   * Whether the last chunk has usage and no other content. LiteLLM's usage chunk has a choice with an empty delta, after the
   * chunk with the finish reason.
   */
  get isUsageOnly(): boolean {
    if (!this.#hasUsage || !this.#hasChoices || this.#saysMore) return false;
    return this.#choices === 0 || (this.finished && !this.#choicesSay);
  }

  /** The range of the chunk's `"usage": null`, key and value, if it has one. */
  get nullUsage(): { readonly from: number; readonly to: number } | undefined {
    return this.#nullUsage;
  }

  usage(): Usage | undefined {
    const usage = this.#accumulator.read();
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

  /** The chunk has ended, complete or not: its usage counts. */
  end(): void {
    const counts = this.#chunkCounts;
    const timings = this.#timings;
    this.#endChoice();
    if (!counts && !timings) return;
    const only = this.#choices === 1 ? this.#choice : undefined;
    if (counts) this.#accumulator.add(counts, only, this.ascii + this.nonAscii > this.#charsBefore);
    if (timings) this.#accumulator.addOfChoice(timings, only ?? 0);
    this.#chunkCounts = undefined;
    this.#timings = undefined;
  }

  /** A chunk was not read, because it is known to say this and nothing else. */
  skip({ ascii, nonAscii, tier, tierUsed }: KnownChunk): void {
    this.ascii += ascii;
    this.nonAscii += nonAscii;
    this.#tier = tier ?? this.#tier;
    this.#tierUsed = tierUsed ?? this.#tierUsed;
    this.#charsBefore = this.ascii + this.nonAscii;
  }

  key(within: AnswerPosition, token: JsonToken): void {
    const match = KEYS[within].find(token);
    this.#key = match?.exact ? match.role : undefined;
    if (this.#key === 'usage') this.#usageKeyFrom = token.start;
  }

  value(within: AnswerPosition, kind: JsonKind, token: JsonToken): AnswerPosition {
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
        if (this.#key === 'notDelivered') return 'elsewhere';
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
        // For each tool a number, or a list of its calls.
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
        if (this.#key === 'cache writes') return kind === 'object' ? 'cache writes' : 'elsewhere';
        if (this.#key === 'service_tier') {
          this.#tierInUsage = tierIn(kind, token) ?? this.#tierInUsage;
          return 'elsewhere';
        }
        return this.#costIn(kind, token) ?? this.#count(kind, token, true);
      case 'prompt details':
        if (this.#key === 'cache writes') return kind === 'object' ? 'cache writes' : 'elsewhere';
        return this.#count(kind, token, false);
      case 'cost':
        return this.#costIn(kind, token) ?? 'elsewhere';
      case 'completion details':
      case 'server tools':
      case 'cache writes':
      case 'plugin':
        return this.#count(kind, token, false);
      case 'plugins':
        return this.#key === 'plugin' && kind === 'object' ? 'plugin' : 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  /** Whether the current string value in this position is delivered text. */
  isText(within: AnswerPosition): boolean {
    return within === 'delta' && this.#key !== 'notDelivered';
  }

  close(position: AnswerPosition): void {
    if ((position === 'usage' || position === 'timings') && !this.#isInvalid) this.#keepCounts();
    if (position === 'choice') this.#endChoice();
  }

  /** Called at the end of a choice, because its index may come after its usage. */
  #endChoice(): void {
    if (this.#choiceCounts) this.#accumulator.addOfChoice(this.#choiceCounts, this.#choice);
    this.#choiceCounts = undefined;
  }

  #inAnswer(kind: JsonKind, token: JsonToken): AnswerPosition {
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
      case 'service_tier':
        this.#tier = tierIn(kind, token) ?? this.#tier;
        return 'elsewhere';
      case 'service_tier_used':
        this.#tierUsed = tierIn(kind, token) ?? this.#tierUsed;
        return 'elsewhere';
      case 'object':
        if (kind === 'string' && token.asciiChars === 5 && tokenText(token) === 'error') this.#fail();
        return 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  #inChoice(kind: JsonKind, token: JsonToken): AnswerPosition {
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
          const reason = tokenText(token) ?? '';
          this.finished = true;
          this.finishReason ??= reason.slice(0, MAX_REASON_LENGTH);
          if (FAILURES.has(reason)) this.failed = true;
        }
        return 'elsewhere';
      case 'usage':
        return kind === 'object' ? this.#beginUsage('choice') : 'elsewhere';
      default:
        return 'elsewhere';
    }
  }

  /** Handles members that are part of a cost; returns undefined for all others. */
  #costIn(kind: JsonKind, token: JsonToken): AnswerPosition | undefined {
    switch (this.#key) {
      case 'own key':
        if (this.#cost) this.#cost.byok = kind === 'true';
        return 'elsewhere';
      case 'cost':
        if (kind === 'object') return this.#cost ? 'cost' : 'elsewhere';
        break;
      case 'total_cost':
      case 'ticks':
      case 'market_cost':
      case 'upstream_cost':
        break;
      default:
        return undefined;
    }
    if (this.#cost && (kind === 'number' || kind === 'string'))
      this.#cost.add(this.#key, tokenText(token) ?? '');
    return 'elsewhere';
  }

  /** The chunk reports an error, so it doesn't count as usage only. */
  #fail(): void {
    this.failed = true;
    this.#saysMore = true;
  }

  #beginUsage(position: 'answer' | 'choice' | 'timings'): AnswerPosition {
    this.#usageIn = position;
    this.#counts = undefined;
    this.#isInvalid = false;
    return position === 'timings' ? position : 'usage';
  }

  /** An invalid prompt or completion count invalidates the usage object that contains it. */
  #count(kind: JsonKind, token: JsonToken, spoils: boolean): AnswerPosition {
    const name = this.#key;
    if (name === undefined || kind === 'null') return 'elsewhere';
    const count = kind === 'number' ? numberOf(token) : Number.NaN;
    if (Number.isSafeInteger(count) && count >= 0) (this.#counts ??= {})[name] = count;
    else if (spoils && (name === 'prompt' || name === 'completion')) this.#isInvalid = true;
    return 'elsewhere';
  }

  #keepCounts(): void {
    const counts = this.#counts ?? NO_COUNTS;
    if (this.#usageIn === 'answer') this.#chunkCounts = merged(this.#chunkCounts, counts);
    else if (this.#usageIn === 'timings') {
      const { input, cacheRead, output } = counts;
      // Without `cache_n`, the length of the prompt is unknown.
      if (input !== undefined && cacheRead !== undefined && output !== undefined) this.#timings = counts;
    } else this.#choiceCounts = merged(this.#choiceCounts, counts);
  }
}

function merged(before: Counts | undefined, counts: Counts): Counts {
  return before ? { ...before, ...counts } : counts;
}

/** Known tier names, for which no string is created per chunk. */
const TIERS = new KeyMatcher<string>({
  default: 'default',
  standard: 'standard',
  on_demand: 'on_demand',
  priority: 'priority',
  flex: 'flex',
});

/** The tier that a value names; undefined if none. */
export function tierIn(kind: JsonKind, token: JsonToken): string | undefined {
  if (kind !== 'string' || token.to === token.from) return undefined;
  const known = TIERS.find(token);
  return known?.exact ? known.role : tokenText(token)?.slice(0, MAX_REASON_LENGTH);
}

/** Truthy as in JavaScript: some servers send `error: ""` with every chunk. */
function isTruthy(kind: JsonKind, token: JsonToken): boolean {
  if (kind === 'string') return token.to > token.from;
  if (kind === 'number') return numberOf(token) !== 0;
  return kind !== 'null' && kind !== 'false';
}

/** A function that the provider runs: Moonshot's names begin with a dollar sign, which a client's function names can't contain. */
function isOwnFunction({ bytes, from }: JsonToken): boolean {
  return bytes[from] === 0x24;
}

/** The number of calls; 0 if it isn't a valid count. */
function callsOf(token: JsonToken): number {
  const calls = numberOf(token);
  return Number.isSafeInteger(calls) && calls > 0 ? calls : 0;
}

/** The value of a number. Numbers of digits only, as most counts are, are parsed without creating a string. */
function numberOf(token: JsonToken): number {
  const { bytes, from, to } = token;
  if (to - from > 15) return Number(tokenText(token));
  let number = 0;
  for (let i = from; i < to; i++) {
    const digit = (bytes[i] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return Number(tokenText(token));
    number = number * 10 + digit;
  }
  return number;
}
