import { JsonError, JsonScanner } from '../json/scanner.ts';
import { ChunkReader, type Place } from './chunk-reader.ts';
import type { DeliveredText } from './estimate.ts';
import { EventStreamScanner } from './event-stream-scanner.ts';
import type { Usage } from './usage-dialects.ts';

/**
 * Reads usage out of an answer as its bytes pass, and keeps none of them.
 *
 * Whether the answer is an event stream or JSON is decided by its first bytes:
 * content types are missing, odd or wrong. Both are followed byte by byte, so a
 * count may be cut anywhere and an event may be of any length; text that looks
 * like usage, in content or tool arguments, is not where usage is.
 */
export class UsageMeter {
  readonly #reader = new ChunkReader();
  readonly #json: JsonScanner<Place>;
  #stream: EventStreamScanner | undefined;
  #format: 'event-stream' | 'json' | undefined;
  /** The JSON of the current chunk is broken: nothing of it is read until the next one begins. */
  #broken = false;
  #over = false;
  #bom = 0;
  /**
   * Called when an event of a stream is over: where it stands in the chunk that is being written
   * (from 0 if it began in an earlier one), and whether it has usage and nothing else to say.
   */
  onEvent: ((from: number, end: number, isUsageOnly: boolean) => void) | undefined;

  constructor() {
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

  /** The answer's text so far, in characters. */
  get delivered(): DeliveredText {
    return { ascii: this.#reader.ascii, nonAscii: this.#reader.nonAscii };
  }

  /** Completion tokens as the provider counted them last; 0 until it did. */
  get completionTold(): number {
    return this.#reader.completionTold;
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
          event: (from, end, hasData) => {
            this.#endEvent(from, end, hasData);
          },
        });
        this.#stream.write(chunk, i);
        return;
      }
    }
  }

  #readJson(bytes: Uint8Array, from: number, to: number): void {
    if (this.#broken) return;
    try {
      this.#json.write(bytes, from, to);
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      this.#broken = true;
    }
  }

  #endEvent(from: number, end: number, hasData: boolean): void {
    const saysDone = this.#stream?.saysDone === true;
    const isUsageOnly = hasData && !saysDone && this.#reader.isUsageOnly && this.#isWhole();
    if (hasData) {
      this.#reader.end();
      this.#reader.begin();
      this.#json.begin();
      this.#broken = false;
    }
    this.onEvent?.(from, end, isUsageOnly);
  }

  /** Whether the current chunk is all there. */
  #isWhole(): boolean {
    if (this.#broken) return false;
    try {
      this.#json.end();
      return true;
    } catch {
      return false;
    }
  }
}

const BOM = [0xef, 0xbb, 0xbf];
