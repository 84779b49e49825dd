import { type JsonScanner, ScannerPool } from '../json/scanner.ts';
import type { AnswerPosition } from './answer-keys.ts';
import { UsageReader } from './usage-reader.ts';
import type { DeliveredText } from './estimate.ts';
import { type EventTemplates, TemplateMatcher } from './event-template.ts';
import { type EventStreamListener, EventStreamScanner } from './event-stream-scanner.ts';
import type { ReportedCostField } from './reported-cost.ts';
import type { Usage, UsageDialect } from './usage-dialects.ts';

/** An event of a stream that has ended; indices are those of the current chunk. */
export interface EventEnd {
  /** The index of its first byte; 0 if in an earlier chunk. */
  readonly from: number;
  /** The index after its last byte. */
  readonly end: number;
  /** It has usage and no other content. */
  readonly isUsageOnly: boolean;
  /** The range of its member `"usage": null`, if it has one; indices are negative in earlier chunks. */
  readonly nullUsage: { readonly from: number; readonly to: number } | undefined;
}

/** Learns of the events of a stream. An object, because a function for each answer would take more memory. */
export interface EventEndListener {
  /** An event has ended. */
  onEvent(event: EventEnd): void;
}

/**
 * Reads the usage of an answer as its bytes pass, and keeps none of them, but for those of an error.
 *
 * The first bytes decide whether the answer is an event stream or JSON, because content types are missing or wrong. Both
 * are scanned byte by byte, so a count may be cut anywhere and an event may have any length. Text that looks like usage,
 * in content or tool arguments, isn't at the path of usage, and is ignored.
 */
export class UsageMeter implements EventStreamListener {
  readonly #reader: UsageReader;
  /** Of the current JSON document: between two events a stream has none. */
  #scanner: JsonScanner<AnswerPosition> | undefined;
  #stream: EventStreamScanner | undefined;
  #format: 'event-stream' | 'json' | undefined;
  /** The current JSON document is invalid: the rest of it is skipped. */
  #broken = false;
  /** How much of the separator between two documents in one event was seen; -1 inside a document. */
  #glue = NO_GLUE;
  /** Number of documents in the current event before this one. */
  #glued = 0;
  #over = false;
  /** The usage of an answer that is over: it is asked for more than once. */
  #ended: Usage | undefined;
  readonly #templates: EventTemplates | undefined;
  /** Of a stream. */
  #known: TemplateMatcher | undefined;
  #bom = 0;
  #errorText = '';
  /** When the first event of a stream ended, from `performance.now()`; comments are none. */
  firstEventAt: number | undefined;
  /** Learns of the end of each event of a stream. */
  listener: EventEndListener | undefined;

  /**
   * @param dialect - how the provider counts, if its numbers alone don't show it
   * @param choices - number of choices requested: usage of others is ignored
   * @param costField - the member with the provider's cost, if it is to be read
   * @param templates - of the target's events, so that not each needs to be read
   */
  constructor(
    dialect?: UsageDialect,
    choices: number = MAX_CHOICES,
    costField?: ReportedCostField,
    templates?: EventTemplates,
  ) {
    this.#templates = templates;
    this.#reader = new UsageReader(dialect, choices, costField);
  }

  /** Looks at the next bytes of the answer. */
  write(chunk: Uint8Array): void {
    if (this.#stream) this.#stream.write(chunk);
    else if (this.#format === 'json') this.#readJson(chunk, 0, chunk.length);
    else this.#detect(chunk);
    if (this.#errorText === '' && this.failed) this.#errorText = endOf(chunk);
  }

  /** The end of the chunk in which an error was reported, for the operator; empty without one. */
  get errorText(): string {
    return this.#errorText;
  }

  /** The answer has ended, cleanly or not: an unfinished last event still counts. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#reader.end();
    // The scanner of an unfinished document stays: `unfinishedJson` and `unfinishedEvent` ask it.
    if (this.#scanner?.isClosed) this.#endDocument();
  }

  /** The usage that the provider reported; undefined if there is none, or none that is valid. */
  get usage(): Usage | undefined {
    if (!this.#over) return this.#reader.usage();
    return (this.#ended ??= this.#reader.usage());
  }

  /** The provider's name for the service tier that served; undefined if not reported. */
  get serviceTier(): string | undefined {
    return this.#reader.serviceTier;
  }

  /** The cost that the provider reported, in pico-dollars; undefined if not read or not reported. */
  get reportedCost(): bigint | undefined {
    return this.#reader.reportedCost;
  }

  /** The answer's text so far, in characters. */
  get delivered(): DeliveredText {
    const { ascii, nonAscii } = this.#reader;
    // The unfinished string of a JSON answer is delivered. That of an unfinished event isn't: clients don't read it.
    const open = this.#format === 'json' && !this.#broken ? this.#scanner?.openString : undefined;
    if (!open || !this.#reader.isText(open.within)) return { ascii, nonAscii };
    return { ascii: ascii + open.ascii, nonAscii: nonAscii + open.nonAscii };
  }

  /** The last completion count that the provider reported; 0 if none. */
  get reportedCompletionTokens(): number {
    return this.#reader.reportedCompletionTokens;
  }

  get format(): 'event-stream' | 'json' | undefined {
    return this.#format;
  }

  /** Whether a stream is between two events, so that another event may follow. */
  get betweenEvents(): boolean {
    return this.#stream?.betweenEvents ?? false;
  }

  /**
   * Index in the last chunk at which the unfinished event begins: 0 if in an earlier chunk, -1 if there is none, or no event
   * stream.
   */
  get eventFrom(): number {
    return this.#stream?.eventFrom ?? -1;
  }

  /** Whether the answer so far is an incomplete JSON document. */
  get unfinishedJson(): boolean {
    return this.#format === 'json' && !this.#broken && this.#scanner?.isClosed === false;
  }

  /** Whether a stream so far ends inside the JSON of an event. An event that lacks its blank line only is complete. */
  get unfinishedEvent(): boolean {
    return this.#format === 'event-stream' && !this.#broken && this.#scanner?.isOpen === true;
  }

  /** Whether `[DONE]` was seen. */
  get done(): boolean {
    return this.#stream?.done ?? false;
  }

  /** Whether the answer reported an error. */
  get failed(): boolean {
    return this.#reader.failed || (this.#stream?.saysError ?? false);
  }

  /** Whether the answer reported an error, or the value of its `error` has begun. */
  get mayBeError(): boolean {
    return this.failed || this.#reader.mayBeError;
  }

  /** Whether some choice has a finish reason. */
  get gaveReason(): boolean {
    return this.#reader.finished;
  }

  /** The first finish reason of a choice, as the provider wrote it; `error` if the answer reported an error. */
  get finishReason(): string | undefined {
    return this.failed ? 'error' : this.#reader.finishReason;
  }

  /** Whether some choice has a finish reason, or `[DONE]` was seen. */
  get finished(): boolean {
    return this.#reader.finished || this.done;
  }

  #detect(chunk: Uint8Array): void {
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i] ?? 0;
      if (byte === BOM[this.#bom]) this.#bom += 1;
      else if (byte === 0x7b || byte === 0x5b) {
        this.#format = 'json';
        this.#readJson(chunk, i, chunk.length);
        return;
      } else if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) {
        this.#format = 'event-stream';
        this.#stream = new EventStreamScanner(this);
        this.#known = this.#templates && new TemplateMatcher(this.#templates);
        this.#stream.write(chunk, i);
        return;
      }
    }
  }

  // The listener of a stream's scanner

  data(bytes: Uint8Array, from: number, to: number): void {
    this.#readJson(bytes, from, to);
  }

  isWhole(): boolean {
    return this.#isAnswer;
  }

  /** @returns the end of the event that begins here, if a template says what is in it; else -1 */
  known(bytes: Uint8Array, from: number): number {
    const template = this.#known?.find(bytes, from);
    if (!template || !this.#known) return -1;
    const { end } = this.#known;
    this.firstEventAt ??= performance.now();
    this.#reader.skip(template);
    this.listener?.onEvent({ from, end, isUsageOnly: false, nullUsage: template.nullUsage });
    return end;
  }

  event(from: number, end: number, hasData: boolean, sharesEnd: boolean): void {
    const isOne = hasData && this.#glued === 0 && this.#glue === NO_GLUE && this.#isAnswer;
    const saysDone = this.#stream?.saysDone === true;
    const isUsageOnly = isOne && !sharesEnd && !saysDone && this.#reader.isUsageOnly;
    const nullUsage = isOne ? this.#nullUsage(from) : undefined;
    if (hasData) {
      this.firstEventAt ??= performance.now();
      this.#nextDocument();
      this.#broken = false;
      this.#glue = NO_GLUE;
      this.#glued = 0;
    }
    this.listener?.onEvent({ from, end, isUsageOnly, nullUsage });
  }

  /** Taken for bytes that no template matches. */
  get #json(): JsonScanner<AnswerPosition> {
    return (this.#scanner ??= scanners.take(this.#reader));
  }

  #endDocument(): void {
    if (this.#scanner) scanners.giveBack(this.#scanner);
    this.#scanner = undefined;
  }

  #readJson(bytes: Uint8Array, from: number, to: number): void {
    if (this.#broken) return;
    let at = this.#glue === NO_GLUE ? from : this.#skipGlue(bytes, from, to);
    while (at < to) {
      const before = this.#json.length;
      if (this.#json.write(bytes, at, to)) return;
      const { faultAt } = this.#json;
      at = this.#afterFault(bytes, at + faultAt - before, to, faultAt);
    }
  }

  /** A whole document may be followed by another without a line break; anything else is invalid. */
  #afterFault(bytes: Uint8Array, at: number, to: number, length: number): number {
    if (this.#isAnswer && length >= MIN_GLUED && this.#glued < MAX_GLUED) {
      this.#glue = 0;
      return this.#skipGlue(bytes, at, to);
    }
    this.#broken = true;
    return to;
  }

  /** Skips `data:` and blanks after a document; another document must follow, or the rest is invalid. */
  #skipGlue(bytes: Uint8Array, from: number, to: number): number {
    for (let i = from; i < to; i++) {
      const byte = bytes[i] ?? 0;
      if (byte === GLUE[this.#glue]) this.#glue += 1;
      else if (byte === 0x7b && (this.#glue === 0 || this.#glue === GLUE.length)) {
        this.#glue = NO_GLUE;
        this.#glued += 1;
        this.#nextDocument();
        return i;
      } else if (byte !== 0x20 || this.#glue !== GLUE.length) {
        this.#broken = true;
        return to;
      }
    }
    return to;
  }

  #nextDocument(): void {
    this.#reader.end();
    this.#reader.begin();
    this.#endDocument();
  }

  /** The range of the member `"usage": null` in an event that begins at this index. */
  #nullUsage(eventFrom: number): EventEnd['nullUsage'] {
    const { nullUsage } = this.#reader;
    const dataFrom = this.#stream?.dataFrom(eventFrom);
    if (!nullUsage || dataFrom === undefined) return undefined;
    return { from: dataFrom + nullUsage.from, to: dataFrom + nullUsage.to };
  }

  /** Whether the current document is a complete object. */
  get #isAnswer(): boolean {
    return !this.#broken && this.#reader.isAnswer && this.#scanner?.isClosed === true;
  }
}

const scanners = new ScannerPool<AnswerPosition>('document');

/** Bytes of an error that are kept. */
const MAX_ERROR_BYTES = 4096;

function endOf(chunk: Uint8Array): string {
  return Buffer.from(chunk.slice(-MAX_ERROR_BYTES)).toString();
}

const BOM = [0xef, 0xbb, 0xbf];
const NO_GLUE = -1;
/** The highest number of choices that a request can have. */
const MAX_CHOICES = 128;
const GLUE = Uint8Array.from('data:', (char) => char.charCodeAt(0));
/** In bytes: a shorter document isn't part of an answer. */
const MIN_GLUED = 32;
/** Most documents in one event; with more it counts as invalid. */
const MAX_GLUED = 100;
