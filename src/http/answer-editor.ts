import { JsonScanner } from '../json/scanner.ts';
import { EventStreamScanner } from '../metering/event-stream-scanner.ts';
import { MemberEditor } from './member-editor.ts';
import type { MemberPlan } from './member-plan.ts';
import { Splicer } from './splicer.ts';

/** How the answer to one request is edited. */
export interface AnswerEdits {
  readonly plan: MemberPlan;
  /** The value for its `model`, where the plan edits that. */
  readonly model: string;
  /** The charge for what has arrived so far, in USD. */
  readonly cost: () => string;
}

/**
 * Edits members of an answer as its bytes pass, in JSON and in each event of a stream; all other bytes pass unchanged.
 *
 * Of a chunk it holds back only what may still have to be removed: a comma and a key. Where blanks or the key make that more
 * than 64 KiB, the rest of the JSON passes unchanged. If a cost is to be added, it holds back everything from the end of
 * `usage` to the end of the event or JSON, up to 1 MiB; beyond that no cost is added. Anything that isn't JSON passes
 * unchanged.
 */
export class AnswerEditor {
  readonly #edits: AnswerEdits;
  readonly #splicer = new Splicer();
  readonly #members: MemberEditor;
  readonly #json: JsonScanner<string>;
  #stream: EventStreamScanner | undefined;
  #isJson = false;
  #broken = false;
  #faults = 0;
  #chunk: Buffer = Buffer.alloc(0);
  /** Offset of the chunk in the stream. */
  #base = 0;

  constructor(edits: AnswerEdits) {
    this.#edits = edits;
    this.#members = new MemberEditor(edits.plan, this.#splicer, edits.model);
    this.#json = new JsonScanner('document', this.#members);
  }

  /** Edits the next bytes, after the meter has seen them; returns those that can be sent now. */
  write(bytes: Buffer | readonly Buffer[]): readonly Buffer[] {
    const chunks = Buffer.isBuffer(bytes) ? [bytes] : bytes;
    return chunks.map((chunk) => this.#edit(chunk)).filter((edited) => edited !== undefined);
  }

  /** The answer is over, and metered: returns what was held back. */
  end(): readonly Buffer[] {
    this.#base = this.#splicer.open(NOTHING);
    this.#endDocument();
    const rest = this.#splicer.close(Infinity);
    return rest ? [rest] : [];
  }

  #edit(chunk: Buffer): Buffer | undefined {
    this.#chunk = chunk;
    this.#base = this.#splicer.open(chunk);
    if (this.#stream) this.#stream.write(chunk);
    else if (this.#isJson) this.#readJson(chunk, 0, chunk.length);
    else this.#begin(chunk);
    if (this.#splicer.heldFrom(this.#members.limit) > MAX_UNDECIDED_BYTES) this.#pass();
    return this.#splicer.close(this.#members.limit);
  }

  #begin(chunk: Buffer): void {
    const from = chunk.findIndex((byte) => !BLANK_OR_BOM.has(byte));
    if (from === -1) return;
    this.#isJson = chunk[from] === BRACE || chunk[from] === BRACKET;
    if (this.#isJson) {
      this.#readJson(chunk, from, chunk.length);
      return;
    }
    this.#stream = new EventStreamScanner({
      data: (bytes, dataFrom, dataTo) => {
        this.#readJson(bytes, dataFrom, dataTo);
      },
      event: (_from, _end, hasData) => {
        if (hasData) this.#endDocument();
      },
      isWhole: () => !this.#broken && this.#json.isClosed,
      comment: (textFrom, textTo) => {
        if (this.#edits.plan.hidesComments) this.#cut(textFrom, textTo);
      },
    });
    this.#stream.write(chunk, from);
  }

  /** A comment behind undecided bytes is inside an event, and stays. */
  #cut(from: number, to: number): void {
    if (this.#members.limit !== Infinity) return;
    this.#splicer.copyTo(this.#base + from);
    this.#splicer.skipTo(this.#base + to);
  }

  /** @param bytes - the chunk, or bytes that the event scanner puts in its place */
  #readJson(bytes: Uint8Array, from: number, to: number): void {
    let at = from;
    while (at < to && !this.#broken) {
      const before = this.#json.length;
      if (bytes === this.#chunk) this.#members.shift = this.#base + at - before;
      if (this.#json.write(bytes, at, to)) at = to;
      else at = this.#afterFault(bytes, at + this.#json.faultAt - before, to);
      if (bytes === this.#chunk) this.#members.readTo(this.#base + at);
    }
  }

  /** A whole document may be followed by another without a separator; any other invalid JSON passes unchanged. */
  #afterFault(bytes: Uint8Array, at: number, to: number): number {
    this.#faults += 1;
    if (!this.#json.isClosed || this.#faults > MAX_FAULTS) {
      this.#members.readTo(this.#base + at);
      this.#pass();
      return to;
    }
    const next = bytes.indexOf(BRACE, at);
    if (next === -1 || next >= to) return to;
    this.#nextDocument();
    return next;
  }

  /** The rest of the document passes unchanged. */
  #pass(): void {
    this.#members.begin();
    this.#broken = true;
  }

  #endDocument(): void {
    this.#nextDocument();
    this.#broken = false;
    this.#faults = 0;
  }

  #nextDocument(): void {
    this.#json.begin();
    this.#members.begin();
    if (this.#splicer.isReserved) this.#splicer.fill(this.#edits.cost());
  }
}

const NOTHING = Buffer.alloc(0);
const BRACE = 0x7b;
const BRACKET = 0x5b;
const BLANK_OR_BOM: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0x20, 0x09, 0x0a, 0x0d]);
const MAX_UNDECIDED_BYTES = 65_536;
/** Most documents in one event; with more it counts as broken. */
const MAX_FAULTS = 100;
