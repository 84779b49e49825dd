import type { CompactedSums, JournalLine } from '../../contract/ledger-store.ts';
import type { Mutable } from '../../engine/usage-counters.ts';
import { packLine, unpackLine } from './packed-rows.ts';
import type { TextArchive } from './text-archive.ts';

/** Minimum of journal lines in memory. */
const MIN_LINES = 50_000;
/** At this number more, the oldest are compacted. */
const COMPACTED_LINES = 250;

const NO_LINES: CompactedSums = { seq: 0n, at: 0, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n };

type LineArchive = Pick<TextArchive<'line'>, 'add' | 'read' | 'delete'>;

/** The journal of one account. Its lines are texts in an archive. */
export class MemoryJournal {
  readonly #archive: LineArchive;
  /** Of the lines that were not compacted, oldest first. */
  readonly #places: number[] = [];
  #compacted = NO_LINES;
  /** Of all lines. */
  readonly #sums: Mutable<CompactedSums> = { ...NO_LINES };
  /**
   * The sums as they were at each 250th line. A full journal compacts a line for each that is written, and to read each again would take
   * longer.
   */
  #milestones: CompactedSums[] = [];

  constructor(archive: LineArchive) {
    this.#archive = archive;
  }

  /** Sums of the lines that were compacted. */
  get compacted(): CompactedSums {
    return this.#compacted;
  }

  append(line: JournalLine): void {
    this.#places.push(this.#archive.add(packLine(line), 'line'));
    addLine(this.#sums, line);
    if (Number(line.seq) % COMPACTED_LINES !== 0) return;
    this.#milestones.push({ ...this.#sums });
    if (this.#places.length >= MIN_LINES + COMPACTED_LINES) this.compact(line.seq - BigInt(MIN_LINES));
  }

  line(seq: bigint): JournalLine | undefined {
    const place = this.#places[Number(seq - this.#compacted.seq) - 1];
    return place === undefined ? undefined : this.#lineAt(place);
  }

  lines(afterSeq: bigint, limit: number): readonly JournalLine[] {
    const from = this.#countUpTo(afterSeq);
    return this.#places.slice(from, from + limit).map((place) => this.#lineAt(place));
  }

  compact(seq: bigint): void {
    const { compacted } = this;
    if (seq <= compacted.seq) return;
    const reached = this.#milestones.findLast((milestone) => milestone.seq <= seq);
    const sums = { ...(reached && reached.seq > compacted.seq ? reached : compacted) };
    for (const line of this.lines(sums.seq, Number(seq - sums.seq))) addLine(sums, line);
    for (const place of this.#places.splice(0, this.#countUpTo(seq))) this.#archive.delete(place);
    this.#compacted = sums;
    this.#milestones = this.#milestones.filter((milestone) => milestone.seq > sums.seq);
  }

  #lineAt(place: number): JournalLine {
    return unpackLine(this.#archive.read(place));
  }

  /** Number of lines at or before `seq`; positions have no gaps. */
  #countUpTo(seq: bigint): number {
    const count = Number(seq - this.#compacted.seq);
    return Math.min(Math.max(0, count), this.#places.length);
  }
}

function addLine(sums: Mutable<CompactedSums>, { seq, at, type, amount, writtenOff }: JournalLine): void {
  sums.seq = seq;
  sums.at = Math.max(sums.at, at);
  if (type === 'g' || type === 'a') sums.granted += amount;
  else if (type === 'x') sums.expired += amount;
  else sums.spent += amount;
  if (writtenOff !== undefined) sums.writtenOff += writtenOff;
}
