import { JsonScanner } from '../json/scanner.ts';
import { EventStreamScanner } from '../metering/event-stream-scanner.ts';
import { MemberEditor } from './member-editor.ts';
import type { MemberPlan } from './member-plan.ts';
import { Splicer } from './splicer.ts';

/** How the answer to one request is edited. */
export interface AnswerEdits {
  readonly plan: MemberPlan;
  /** What its `model` is to be, where the plan edits it. */
  readonly model: string;
  /** What is charged by what has come so far, in USD. */
  readonly cost: () => string;
}

/**
 * Edits members of an answer as its bytes pass, in JSON and in each event of a stream, and leaves all other bytes as they are.
 *
 * It keeps of a chunk only what may still have to go, a comma and a key; with a cost to tell, all from the end of `usage` to
 * the end of its event or JSON, up to 1 MiB, beyond which the cost is not told. What is no JSON passes.
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

  /** Takes what comes next, once the meter has seen it; returns what may go on now. */
  write(pieces: Buffer | readonly Buffer[]): readonly Buffer[] {
    const chunks = Buffer.isBuffer(pieces) ? [pieces] : pieces;
    return chunks.map((chunk) => this.#edit(chunk)).filter((edited) => edited !== undefined);
  }

  /** The answer is over, and metered: what was kept of it. */
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

  /** Where something before it is undecided, it stands inside of an event, and stays. */
  #cut(from: number, to: number): void {
    if (this.#members.limit !== Infinity) return;
    this.#splicer.copyTo(this.#base + from);
    this.#splicer.skipTo(this.#base + to);
  }

  /** @param bytes - the chunk, or what the scanner of events puts in its place */
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

  /** What follows a whole document may be another, glued to it; anything else that is no JSON passes. */
  #afterFault(bytes: Uint8Array, at: number, to: number): number {
    this.#faults += 1;
    if (!this.#json.isClosed || this.#faults > MAX_FAULTS) {
      this.#members.readTo(this.#base + at);
      this.#members.begin();
      this.#broken = true;
      return to;
    }
    const next = bytes.indexOf(BRACE, at);
    if (next === -1 || next >= to) return to;
    this.#nextDocument();
    return next;
  }

  #endDocument(): void {
    this.#nextDocument();
    this.#broken = false;
    this.#faults = 0;
  }

  #nextDocument(): void {
    this.#json.begin();
    this.#members.begin();
    if (this.#splicer.isAwaiting) this.#splicer.give(this.#edits.cost());
  }
}

const NOTHING = Buffer.alloc(0);
const BRACE = 0x7b;
const BRACKET = 0x5b;
const BLANK_OR_BOM: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0x20, 0x09, 0x0a, 0x0d]);
/** Documents in one event, beyond which it is taken for broken. */
const MAX_FAULTS = 100;
