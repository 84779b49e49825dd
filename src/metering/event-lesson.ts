import { JsonScanner, type JsonListener } from '../json/scanner.ts';
import { type JsonKind, type JsonToken, tokenText } from '../json/token.ts';
import { type AnswerMember, type AnswerPosition, KEYS } from './answer-keys.ts';
import { tierIn } from './usage-reader.ts';

/** A number, text that is delivered, or other text. */
export type HoleKind = 'number' | 'delivered' | 'text';

/** A range of an event in which another value of the same kind changes nothing but how much text is delivered. */
export interface Hole {
  readonly from: number;
  readonly to: number;
  readonly kind: HoleKind;
}

/** Longer events are read, and not compared with templates. */
export const MAX_EVENT_BYTES = 2048;
const MAX_HOLES = 48;

const LF = 0x0a;
const CR = 0x0d;
const BLANK = 0x20;
const BRACE = 0x7b;
const FIELD = Uint8Array.from('data:', (char) => char.charCodeAt(0));

/**
 * What a template needs to know about an event: where its holes are, and whether it delivers text and says nothing else.
 *
 * It follows `UsageReader` through the same positions, and refuses each value there that would change more than the number
 * of delivered characters and the service tier: a template stands for the reader only where this class knows that it may.
 */
export class EventLesson implements JsonListener<AnswerPosition> {
  readonly holes: Hole[] = [];
  tier: string | undefined;
  tierUsed: string | undefined;
  /** The range of `"usage": null` in the event, key and value. */
  nullUsage: { readonly from: number; readonly to: number } | undefined;
  #isRefused = false;
  #isClosed = false;
  #key: AnswerMember | undefined;
  #keyFrom = 0;
  /** Index of the event, and of its JSON, in the bytes. */
  #from = 0;
  #jsonFrom = 0;

  /** Whether the event can be a template. */
  get isUseful(): boolean {
    return this.#isClosed && !this.#isRefused && this.holes.length <= MAX_HOLES;
  }

  /**
   * Reads the event that begins at `from`.
   *
   * @returns its end; undefined unless it is a single line of data with an object, and ends in these bytes by LF LF or CR LF CR LF
   */
  read(bytes: Uint8Array, from: number): number | undefined {
    if (!FIELD.every((byte, at) => bytes[from + at] === byte)) return undefined;
    let at = from + FIELD.length;
    while (bytes[at] === BLANK) at += 1;
    const lf = bytes.indexOf(LF, at);
    const isCrLf = bytes[lf - 1] === CR;
    const to = isCrLf ? lf - 1 : lf;
    const end = isCrLf ? lf + 3 : lf + 2;
    if (lf === -1 || end - from > MAX_EVENT_BYTES || bytes[end - 1] !== LF) return undefined;
    if (bytes[at] !== BRACE || (isCrLf && bytes[end - 2] !== CR)) return undefined;
    if (bytes.subarray(at, to).includes(CR)) return undefined;
    this.#from = from;
    this.#jsonFrom = at;
    const json = new JsonScanner<AnswerPosition>('document', this);
    this.#isClosed = json.write(bytes, at, to) && json.isClosed;
    return end;
  }

  key(within: AnswerPosition, token: JsonToken): void {
    const match = KEYS[within].find(token);
    this.#key = match?.exact ? match.role : undefined;
    this.#keyFrom = token.start;
  }

  value(within: AnswerPosition, kind: JsonKind, token: JsonToken): AnswerPosition {
    switch (within) {
      case 'document':
        return kind === 'object' ? 'answer' : this.#refuse();
      case 'answer':
        return this.#inAnswer(kind, token);
      case 'choices':
        return kind === 'object' ? 'choice' : this.#refuse();
      case 'choice':
        return this.#inChoice(kind, token);
      case 'delta':
        if (this.#key === 'notDelivered') return this.#unread(kind, token);
        if (this.#key !== undefined) return this.#refuse();
        this.#addHole(kind, token, 'delivered');
        return 'delta';
      case 'elsewhere':
        return this.#unread(kind, token);
      default:
        return this.#refuse();
    }
  }

  close(): void {
    // Only values matter.
  }

  #inAnswer(kind: JsonKind, token: JsonToken): AnswerPosition {
    if (this.#key === undefined) return this.#unread(kind, token);
    if (this.#key === 'usage' && kind === 'null') {
      const shift = this.#jsonFrom - this.#from;
      this.nullUsage = { from: this.#keyFrom + shift, to: token.end + shift };
    }
    if (kind === 'null') return 'elsewhere';
    if (this.#key === 'choices' && kind === 'array') return 'choices';
    if (kind !== 'string') return this.#refuse();
    switch (this.#key) {
      case 'service_tier':
        this.tier = tierIn(kind, token) ?? this.tier;
        return 'elsewhere';
      case 'service_tier_used':
        this.tierUsed = tierIn(kind, token) ?? this.tierUsed;
        return 'elsewhere';
      case 'error':
        return token.to > token.from ? this.#refuse() : 'elsewhere';
      case 'object':
        return tokenText(token) === 'error' ? this.#refuse() : 'elsewhere';
      default:
        return this.#refuse();
    }
  }

  #inChoice(kind: JsonKind, token: JsonToken): AnswerPosition {
    switch (this.#key) {
      case undefined:
      case 'index': // It matters for usage only, which no template has.
        return this.#unread(kind, token);
      case 'delta':
        return kind === 'object' ? 'delta' : this.#refuse();
      case 'finish_reason':
        if (kind !== 'null' && (kind !== 'string' || token.to > token.from)) this.#refuse();
        return 'elsewhere';
      default:
        return kind === 'null' ? 'elsewhere' : this.#refuse();
    }
  }

  #unread(kind: JsonKind, token: JsonToken): AnswerPosition {
    this.#addHole(kind, token, 'text');
    return 'elsewhere';
  }

  #addHole(kind: JsonKind, { from, to }: JsonToken, text: HoleKind): void {
    if (kind !== 'string' && kind !== 'number') return;
    this.holes.push({ from: from - this.#from, to: to - this.#from, kind: kind === 'number' ? kind : text });
  }

  #refuse(): AnswerPosition {
    this.#isRefused = true;
    return 'elsewhere';
  }
}
