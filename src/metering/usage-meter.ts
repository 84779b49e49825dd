import { JsonScanner } from '../json/scanner.ts';
import type { AnswerPosition } from './answer-keys.ts';
import { UsageReader } from './usage-reader.ts';
import type { DeliveredText } from './estimate.ts';
import { EventStreamScanner } from './event-stream-scanner.ts';
import type { ReportedCostField } from './reported-cost.ts';
import type { Usage, UsageDialect } from './usage-dialects.ts';

/** An event of a stream that is over, by indices of the chunk that is being written. */
export interface EventEnd {
  /** Where it begins; 0 if in an earlier chunk. */
  readonly from: number;
  /** The index after its last byte. */
  readonly end: number;
  /** It has usage and nothing else to say. */
  readonly isUsageOnly: boolean;
  /** Where its member `"usage": null` stands, if it has one; what stands in earlier chunks is before index 0. */
  readonly nullUsage: { readonly from: number; readonly to: number } | undefined;
}

/**
 * Reads usage out of an answer as its bytes pass, and keeps none of them.
 *
 * Whether the answer is an event stream or JSON is decided by its first bytes:
 * content types are missing, odd or wrong. Both are followed byte by byte, so a
 * count may be cut anywhere and an event may be of any length; text that looks
 * like usage, in content or tool arguments, is not where usage is.
 */
export class UsageMeter {
  readonly #reader: UsageReader;
  readonly #json: JsonScanner<AnswerPosition>;
  #stream: EventStreamScanner | undefined;
  #format: 'event-stream' | 'json' | undefined;
  /** The JSON of the current chunk is broken: nothing of it is read until the next one begins. */
  #broken = false;
  /** How much of what may stand between two documents that are glued together was seen; -1 inside a document. */
  #glue = NO_GLUE;
  /** Documents of the current event before this one. */
  #glued = 0;
  #over = false;
  #bom = 0;
  /** Called when an event of a stream is over. */
  onEvent: ((event: EventEnd) => void) | undefined;

  /**
   * @param dialect - of the provider, where its numbers alone don't show it
   * @param choices - how many answers were asked for: what others are said to have used is not summed
   * @param costField - where it reports a cost that is to be read
   */
  constructor(dialect?: UsageDialect, choices: number = MAX_CHOICES, costField?: ReportedCostField) {
    this.#reader = new UsageReader(dialect, choices, costField);
    this.#json = new JsonScanner('document', this.#reader);
  }

  /** Looks at the next bytes of the answer. */
  write(chunk: Uint8Array): void {
    if (this.#stream) this.#stream.write(chunk);
    else if (this.#format === 'json') this.#readJson(chunk, 0, chunk.length);
    else this.#detect(chunk);
  }

  /** The answer is over, cleanly or not: an unfinished last event still counts. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#reader.end();
  }

  /** What the provider said was used; undefined when it did not, or not in numbers that can be. */
  get usage(): Usage | undefined {
    return this.#reader.usage();
  }

  /** The service tier that served, as the provider names it; undefined where it doesn't. */
  get serviceTier(): string | undefined {
    return this.#reader.serviceTier;
  }

  /** What the provider says that the answer costs, in pico-dollars; undefined where that isn't read, or not told. */
  get reportedCost(): bigint | undefined {
    return this.#reader.reportedCost;
  }

  /** The answer's text so far, in characters. */
  get delivered(): DeliveredText {
    const { ascii, nonAscii } = this.#reader;
    // What a JSON answer has of a string so far is delivered. An event that is cut isn't: clients don't read it.
    const open = this.#format === 'json' && !this.#broken ? this.#json.openString : undefined;
    if (!open || !this.#reader.isText(open.within)) return { ascii, nonAscii };
    return { ascii: ascii + open.ascii, nonAscii: nonAscii + open.nonAscii };
  }

  /** Completion tokens as the provider counted them last; 0 until it did. */
  get reportedCompletionTokens(): number {
    return this.#reader.reportedCompletionTokens;
  }

  get format(): 'event-stream' | 'json' | undefined {
    return this.#format;
  }

  /** Whether a stream stands between two events, so that another event may follow. */
  get betweenEvents(): boolean {
    return this.#stream?.betweenEvents ?? false;
  }

  /**
   * Where the unfinished event begins in the chunk that was written last: 0 if in an earlier one,
   * -1 if there is none, or no event stream.
   */
  get eventFrom(): number {
    return this.#stream?.eventFrom ?? -1;
  }

  /** Whether what has come is the beginning of a JSON body that goes on. */
  get unfinishedJson(): boolean {
    return this.#format === 'json' && !this.#broken && !this.#json.isClosed;
  }

  /** Whether `[DONE]` was seen. */
  get done(): boolean {
    return this.#stream?.done ?? false;
  }

  /** Whether the answer said that it is an error. */
  get failed(): boolean {
    return this.#reader.failed || (this.#stream?.saysError ?? false);
  }

  /** Whether some choice gave a reason for its end. */
  get gaveReason(): boolean {
    return this.#reader.finished;
  }

  /** The first reason that a choice gave for its end, as the provider wrote it. */
  get finishReason(): string | undefined {
    return this.#reader.finishReason;
  }

  /** Whether some choice gave a reason for its end, or `[DONE]` was seen. */
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
        this.#stream = new EventStreamScanner({
          data: (bytes, from, to) => {
            this.#readJson(bytes, from, to);
          },
          event: (from, end, hasData, sharesEnd) => {
            this.#endEvent(from, end, hasData, sharesEnd);
          },
          isWhole: () => this.#isAnswer,
        });
        this.#stream.write(chunk, i);
        return;
      }
    }
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

  /** What follows a whole document may be another, glued to it; anything else that can't be is broken. */
  #afterFault(bytes: Uint8Array, at: number, to: number, length: number): number {
    if (this.#isAnswer && length >= MIN_GLUED && this.#glued < MAX_GLUED) {
      this.#glue = 0;
      return this.#skipGlue(bytes, at, to);
    }
    this.#broken = true;
    return to;
  }

  /** Passes `data:` and blanks after a document; another one begins after them, or the rest is broken. */
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
    this.#json.begin();
  }

  #endEvent(from: number, end: number, hasData: boolean, sharesEnd: boolean): void {
    const isOne = hasData && this.#glued === 0 && this.#glue === NO_GLUE && this.#isAnswer;
    const saysDone = this.#stream?.saysDone === true;
    const isUsageOnly = isOne && !sharesEnd && !saysDone && this.#reader.isUsageOnly;
    const nullUsage = isOne ? this.#nullUsage(from) : undefined;
    if (hasData) {
      this.#nextDocument();
      this.#broken = false;
      this.#glue = NO_GLUE;
      this.#glued = 0;
    }
    this.onEvent?.({ from, end, isUsageOnly, nullUsage });
  }

  /** Where the answer's member `"usage": null` stands in an event that begins there. */
  #nullUsage(eventFrom: number): EventEnd['nullUsage'] {
    const { nullUsage } = this.#reader;
    const dataFrom = this.#stream?.dataFrom(eventFrom);
    if (!nullUsage || dataFrom === undefined) return undefined;
    return { from: dataFrom + nullUsage.from, to: dataFrom + nullUsage.to };
  }

  /** Whether the current chunk is an object, and all there. */
  get #isAnswer(): boolean {
    return !this.#broken && this.#reader.isAnswer && this.#json.isClosed;
  }
}

const BOM = [0xef, 0xbb, 0xbf];
const NO_GLUE = -1;
/** More can't be asked for. */
const MAX_CHOICES = 128;
const GLUE = Uint8Array.from('data:', (char) => char.charCodeAt(0));
/** In bytes: a document of fewer is no part of an answer. */
const MIN_GLUED = 32;
/** Documents in one event, beyond which it is taken for broken. */
const MAX_GLUED = 100;
