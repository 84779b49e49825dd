import { numberEnd } from '../json/scanner.ts';
import { JsonStringScanner } from '../json/string-scanner.ts';
import { passAscii } from '../json/word-text.ts';
import { EventLesson, type HoleKind, MAX_EVENT_BYTES } from './event-lesson.ts';

/** Most templates of a target: an answer's role, reasoning, text and tool calls differ in their members. */
const MAX_TEMPLATES = 6;
/** Most lessons that a target has left. */
const MAX_LESSONS = 16;
/** Events without a template after which it gets another lesson. */
const MISSES_PER_LESSON = 256;
/**
 * Most comparisons of a stream that may fail more than succeed. One that fails costs less than half of what one saves that
 * succeeds, so no stream takes longer than without templates, but for these.
 */
const MAX_CREDIT = 16;
/** Events that are read after that before templates are tried again. */
const SKIPPED_WITHOUT_CREDIT = 256;

const QUOTE = 0x22;

/** Used synchronously by one template at a time. */
const string = new JsonStringScanner();

/** The range of `"usage": null` in a chunk, key and value. */
export interface NullUsage {
  readonly from: number;
  readonly to: number;
}

/**
 * An event of a stream as literal bytes with holes, in which another text or number changes nothing but how many
 * characters are delivered.
 *
 * It is made of the bytes of one event alone, and what it matches is read as the reader would read it: its literals are
 * compared byte for byte, its holes scanned as the JSON scanner scans them.
 */
export class EventTemplate {
  /** Characters that the event matched last has delivered. */
  ascii = 0;
  nonAscii = 0;
  /** Service tiers that each of these events names; undefined if none. */
  readonly tier: string | undefined;
  readonly tierUsed: string | undefined;

  /** What stands before, between and after the holes: one more than there are holes. */
  readonly #literals: readonly Literal[];
  readonly #kinds: readonly HoleKind[];
  /** Bytes of all literals: no event is shorter. */
  readonly #length: number;
  /** `"usage": null`: the number of holes before it, and its range in the literal after them. */
  readonly #nullUsage: (NullUsage & { readonly holes: number }) | undefined;
  #nullUsageFrom = 0;

  constructor(event: Uint8Array, lesson: EventLesson) {
    const { holes, nullUsage } = lesson;
    this.tier = lesson.tier;
    this.tierUsed = lesson.tierUsed;
    this.#kinds = holes.map(({ kind }) => kind);
    const starts = [0, ...holes.map(({ to }) => to)];
    this.#literals = starts.map((start, n) => new Literal(event.subarray(start, holes[n]?.from)));
    this.#length = this.#literals.reduce((sum, { length }) => sum + length, 0);
    if (nullUsage) {
      const before = starts.findLastIndex((start) => start <= nullUsage.from);
      const start = starts[before] ?? 0;
      this.#nullUsage = { holes: before, from: nullUsage.from - start, to: nullUsage.to - start };
    }
  }

  /** The member `"usage": null` of the event matched last. */
  get nullUsage(): NullUsage | undefined {
    if (!this.#nullUsage) return undefined;
    const { from, to } = this.#nullUsage;
    return { from: this.#nullUsageFrom, to: this.#nullUsageFrom + to - from };
  }

  /** @returns the end of the event that begins at `from`; -1 if it is another one, or not all there */
  match(bytes: Uint8Array, from: number): number {
    const to = Math.min(bytes.length, from + MAX_EVENT_BYTES);
    if (from + this.#length > to) return -1;
    const words = wordsOf(bytes);
    this.ascii = 0;
    this.nonAscii = 0;
    let at = from;
    for (let n = 0; n < this.#literals.length; n++) {
      const literal = this.#literals[n];
      if (!literal || at + literal.length > to || !literal.isAt(words, bytes.byteOffset + at)) return -1;
      if (n === this.#nullUsage?.holes) this.#nullUsageFrom = at + this.#nullUsage.from;
      at += literal.length;
      const kind = this.#kinds[n];
      if (kind === undefined) break;
      at = kind === 'number' ? numberEnd(bytes, at, to) : this.#textEnd(bytes, at, to, kind);
      if (at === -1) return -1;
    }
    return at;
  }

  #textEnd(bytes: Uint8Array, from: number, to: number, kind: HoleKind): number {
    const offset = bytes.byteOffset;
    const plainTo = passAscii(words, offset + from, offset + to) - offset;
    string.begin();
    const end = string.scan(bytes, plainTo, to);
    if (string.unfinished || bytes[end] !== QUOTE) {
      string.reset();
      return -1;
    }
    if (kind === 'delivered') {
      this.ascii += plainTo - from + string.asciiChars;
      this.nonAscii += string.nonAsciiChars;
    }
    return end;
  }
}

/** Bytes that are compared four at a time. The last word overlaps the one before it. */
class Literal {
  readonly length: number;
  readonly #words: Int32Array;
  /** Of a literal that is shorter than a word. */
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    const { length } = bytes;
    const words = new DataView(bytes.buffer, bytes.byteOffset, length);
    const count = length < 4 ? 0 : Math.ceil(length / 4);
    this.length = length;
    this.#words = Int32Array.from({ length: count }, (_, n) =>
      words.getInt32(Math.min(4 * n, length - 4), true),
    );
    // A copy, so that no chunk of a socket is kept.
    this.#bytes = count === 0 ? Uint8Array.from(bytes) : NO_BYTES;
  }

  /** Whether it begins at this index of the words, which go on for its length at least. */
  isAt(words: DataView, index: number): boolean {
    const last = this.#words.length - 1;
    if (last === -1) return this.#bytes.every((byte, at) => words.getUint8(index + at) === byte);
    for (let n = 0; n < last; n++) if (words.getInt32(index + 4 * n, true) !== this.#words[n]) return false;
    return words.getInt32(index + this.length - 4, true) === this.#words[last];
  }
}

const NO_BYTES = new Uint8Array();

/** Of the buffer that was compared last, as the chunks of one read share theirs. */
let words: DataView = new DataView(new ArrayBuffer(0));

function wordsOf({ buffer }: Uint8Array): DataView {
  if (words.buffer !== buffer) words = new DataView(buffer);
  return words;
}

/**
 * The templates of one target's events, learned from its streams.
 *
 * A customer's streams can at most push the templates of others out: those that match least recently go first.
 */
export class EventTemplates {
  /** The most recently used first. */
  readonly #templates: EventTemplate[] = [];
  #lessons = MAX_LESSONS;
  #misses = 0;

  get all(): readonly EventTemplate[] {
    return this.#templates;
  }

  use(template: EventTemplate): void {
    const index = this.#templates.indexOf(template);
    if (index > 0) this.#templates.splice(index, 1);
    if (index !== 0) this.#templates.unshift(template);
    if (this.#templates.length > MAX_TEMPLATES) this.#templates.pop();
  }

  /** Learns from an event that no template matches; undefined if it says more than a template can. */
  learn(bytes: Uint8Array, from: number): EventTemplate | undefined {
    this.#misses += 1;
    if (this.#misses % MISSES_PER_LESSON === 0 && this.#lessons < MAX_LESSONS) this.#lessons += 1;
    if (this.#lessons === 0) return undefined;
    const lesson = new EventLesson();
    const end = lesson.read(bytes, from);
    if (end === undefined) return undefined;
    this.#lessons -= 1;
    return lesson.isUseful ? new EventTemplate(bytes.subarray(from, end), lesson) : undefined;
  }
}

/** Finds the events of one stream that a template matches. */
export class TemplateMatcher {
  readonly #templates: EventTemplates;
  /** The last that matched: events of a stream are mostly alike. */
  #last: EventTemplate | undefined;
  #credit = MAX_CREDIT;
  #skipped = 0;

  constructor(templates: EventTemplates) {
    this.#templates = templates;
  }

  /** Index after the event that `find` found. */
  end = -1;

  /** @returns the template of the event that begins at `from`, if it is there to its end */
  find(bytes: Uint8Array, from: number): EventTemplate | undefined {
    if (this.#credit <= 0 && !this.#regainCredit()) return undefined;
    if (this.#last && this.#matches(this.#last, bytes, from)) return this.#last;
    for (const template of this.#templates.all) {
      if (template !== this.#last && this.#matches(template, bytes, from)) return this.#found(template);
    }
    const learned = this.#templates.learn(bytes, from);
    return learned && this.#matches(learned, bytes, from) ? this.#found(learned) : undefined;
  }

  #matches(template: EventTemplate, bytes: Uint8Array, from: number): boolean {
    this.end = template.match(bytes, from);
    if (this.end === -1) this.#credit -= 1;
    else if (this.#credit < MAX_CREDIT) this.#credit += 1;
    return this.end !== -1;
  }

  #regainCredit(): boolean {
    this.#skipped = (this.#skipped + 1) % SKIPPED_WITHOUT_CREDIT;
    if (this.#skipped === 0) this.#credit = MAX_CREDIT;
    return this.#skipped === 0;
  }

  #found(template: EventTemplate): EventTemplate {
    this.#last = template;
    this.#templates.use(template);
    return template;
  }
}
