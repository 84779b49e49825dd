import type { JournalLine, SettledUsage } from '../../contract/ledger-store.ts';
import type { RequestRow } from '../../engine/account-rows.ts';

/**
 * Rows as JSON, with amounts as text. Members that were undefined are missing when they are read. Each member is listed: an
 * object that is made by a spread, and then gets further members, takes twice the memory.
 */
type Packed<Row, Amounts extends keyof Row> = {
  readonly [name in keyof Required<Row>]: name extends Amounts ? string | undefined : Row[name] | undefined;
};

export function packRequest(row: RequestRow): string {
  const packed: Packed<RequestRow, 'amount' | 'checkpoint' | 'line'> = {
    id: row.id,
    key: row.key,
    countedAt: row.countedAt,
    countedBy: row.countedBy,
    tokens: row.tokens,
    idempotencyKey: row.idempotencyKey,
    state: row.state,
    amount: textOf(row.amount),
    checkpoint: textOf(row.checkpoint),
    due: row.due,
    model: row.model,
    line: textOf(row.line),
    ending: row.ending,
    provider: row.provider,
  };
  return JSON.stringify(packed);
}

export function unpackRequest(packed: string): RequestRow {
  const row: Omit<RequestRow, 'amount' | 'checkpoint' | 'line'> & {
    readonly amount: string;
    readonly checkpoint: string;
    readonly line?: string;
  } = JSON.parse(packed);
  const { amount, checkpoint, line } = row;
  return {
    ...row,
    amount: BigInt(amount),
    checkpoint: BigInt(checkpoint),
    line: line === undefined ? undefined : BigInt(line),
  };
}

type LineAmounts = 'seq' | 'amount' | 'available' | 'hold' | 'writtenOff';
type PackedUsage = Omit<SettledUsage, 'cost'> & { readonly cost?: string };

export function packLine(line: JournalLine): string {
  const { usage } = line;
  const packed: Packed<Omit<JournalLine, 'usage'>, LineAmounts> & {
    readonly usage: object | undefined;
  } = {
    // First those that `unpackSummands` reads.
    type: line.type,
    at: line.at,
    amount: textOf(line.amount),
    writtenOff: textOf(line.writtenOff),
    seq: textOf(line.seq),
    id: line.id,
    available: textOf(line.available),
    hold: textOf(line.hold),
    key: line.key,
    model: line.model,
    usage: usage?.cost === undefined ? usage : { ...usage, cost: textOf(usage.cost) },
    dimensions: line.dimensions,
    reason: line.reason,
  };
  return JSON.stringify(packed);
}

export function unpackLine(packed: string): JournalLine {
  const line: Omit<JournalLine, LineAmounts | 'usage'> & {
    readonly [name in LineAmounts]?: string;
  } & { readonly usage?: PackedUsage } = JSON.parse(packed);
  const { seq = '', amount = '', available = '', hold, writtenOff, usage, ...rest } = line;
  return {
    ...rest,
    seq: BigInt(seq),
    amount: BigInt(amount),
    available: BigInt(available),
    ...(hold !== undefined && { hold: BigInt(hold) }),
    ...(writtenOff !== undefined && { writtenOff: BigInt(writtenOff) }),
    ...(usage && { usage: unpackUsage(usage) }),
  };
}

/** The most bytes that the summands of a packed line take. */
export const MAX_SUMMANDS_BYTES = 160;
const SUMMANDS = /^\{"type":"(\w)","at":([^,"]+),"amount":"(-?\d+)"(?:,"writtenOff":"(-?\d+)")?,"seq"/;

/**
 * What a compaction adds up. A full journal compacts a line for each that is written.
 *
 * @param head - the first `MAX_SUMMANDS_BYTES` of a packed line
 */
export function unpackSummands(
  head: string,
): Pick<JournalLine, 'at' | 'amount'> & { readonly type: string; readonly writtenOff: bigint } {
  const [, type, at, amount, writtenOff = '0'] = SUMMANDS.exec(head) ?? [];
  if (type === undefined || amount === undefined) throw new TypeError('The text is not that of a line');
  return { type, at: Number(at), amount: BigInt(amount), writtenOff: BigInt(writtenOff) };
}

function unpackUsage({ cost, ...usage }: PackedUsage): SettledUsage {
  return { ...usage, ...(cost !== undefined && { cost: BigInt(cost) }) };
}

function textOf(amount: bigint | undefined): string | undefined {
  return amount === undefined ? undefined : String(amount);
}
