import type { JournalLine, SettledUsage } from '../../contract/ledger-store.ts';
import type { RequestRow } from '../../engine/account-rows.ts';

/** Rows as JSON, with amounts as text. Members that were undefined are missing when they are read. */

type PackedRequest = Omit<RequestRow, RequestAmounts> & { readonly [name in RequestAmounts]?: string };
type RequestAmounts = 'amount' | 'checkpoint' | 'line';

export function packRequest(row: RequestRow): string {
  const { amount, checkpoint, line } = row;
  return JSON.stringify({
    ...row,
    amount: textOf(amount),
    checkpoint: textOf(checkpoint),
    line: textOf(line),
  });
}

export function unpackRequest(packed: string): RequestRow {
  const row: PackedRequest = JSON.parse(packed);
  const { amount = '', checkpoint = '', line } = row;
  return {
    ...row,
    amount: BigInt(amount),
    checkpoint: BigInt(checkpoint),
    line: line === undefined ? undefined : BigInt(line),
  };
}

type PackedLine = Omit<JournalLine, LineAmounts | 'usage'> & {
  readonly [name in LineAmounts]?: string;
} & { readonly usage?: Omit<SettledUsage, 'cost'> & { readonly cost?: string } };
type LineAmounts = 'seq' | 'amount' | 'available' | 'hold' | 'writtenOff';

export function packLine(line: JournalLine): string {
  const { seq, amount, available, hold, writtenOff, usage } = line;
  return JSON.stringify({
    ...line,
    seq: textOf(seq),
    amount: textOf(amount),
    available: textOf(available),
    hold: textOf(hold),
    writtenOff: textOf(writtenOff),
    usage: usage?.cost === undefined ? usage : { ...usage, cost: textOf(usage.cost) },
  });
}

export function unpackLine(packed: string): JournalLine {
  const line: PackedLine = JSON.parse(packed);
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

/** The members of a line that its compaction adds up. A full journal compacts a line for each that is written. */
export function unpackAmounts(
  packed: string,
): Pick<JournalLine, 'seq' | 'at' | 'type' | 'amount'> & { readonly writtenOff: bigint } {
  const { seq = '', at, type, amount = '', writtenOff = '' }: PackedLine = JSON.parse(packed);
  return { seq: BigInt(seq), at, type, amount: BigInt(amount), writtenOff: BigInt(writtenOff) };
}

function unpackUsage({ cost, ...usage }: NonNullable<PackedLine['usage']>): SettledUsage {
  return { ...usage, ...(cost !== undefined && { cost: BigInt(cost) }) };
}

function textOf(amount: bigint | undefined): string | undefined {
  return amount === undefined ? undefined : String(amount);
}
