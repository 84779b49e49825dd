import type { JournalLine, SettledUsage } from '../../contract/ledger-store.ts';
import type { RequestRow } from '../../engine/account-rows.ts';

/*
 * Rows as JSON lists, with amounts as text, and null for what is undefined. The names of their members would take more than
 * half of the memory.
 */

type PackedRequest = readonly [
  id: string,
  key: string,
  countedAt: number,
  countedBy: RequestRow['countedBy'],
  tokens: number,
  idempotencyKey: RequestRow['idempotencyKey'] | null,
  state: RequestRow['state'],
  amount: string,
  checkpoint: string,
  due: number,
  model: string,
  line: string | null,
  ending: RequestRow['ending'] | null,
  provider: string | null,
];

export function packRequest(row: RequestRow): string {
  const packed: PackedRequest = [
    row.id,
    row.key,
    row.countedAt,
    row.countedBy,
    row.tokens,
    row.idempotencyKey ?? null,
    row.state,
    String(row.amount),
    String(row.checkpoint),
    row.due,
    row.model,
    textOf(row.line),
    row.ending ?? null,
    row.provider ?? null,
  ];
  return JSON.stringify(packed);
}

export function unpackRequest(packed: string): RequestRow {
  const row: PackedRequest = JSON.parse(packed);
  const [id, key, countedAt, countedBy, tokens, idempotencyKey, state, ...rest] = row;
  const [amount, checkpoint, due, model, line, ending, provider] = rest;
  return {
    id,
    key,
    countedAt,
    countedBy,
    tokens,
    idempotencyKey: idempotencyKey ?? undefined,
    state,
    amount: BigInt(amount),
    checkpoint: BigInt(checkpoint),
    due,
    model,
    line: line === null ? undefined : BigInt(line),
    ending: ending ?? undefined,
    provider: provider ?? undefined,
  };
}

type PackedLine = readonly [
  type: JournalLine['type'],
  seq: string,
  at: number,
  id: string,
  amount: string,
  available: string,
  hold: string | null,
  writtenOff: string | null,
  key: string | null,
  model: string | null,
  usage: PackedUsage | null,
  dimensions: JournalLine['dimensions'] | null,
  reason: string | null,
];

/** `packUsage` makes its cost text, because JSON has no bigint. */
type PackedUsage = Omit<SettledUsage, 'cost'> & { readonly cost?: bigint | string };

export function packLine(line: JournalLine): string {
  const packed: PackedLine = [
    line.type,
    String(line.seq),
    line.at,
    line.id,
    String(line.amount),
    String(line.available),
    textOf(line.hold),
    textOf(line.writtenOff),
    line.key ?? null,
    line.model ?? null,
    line.usage ? packUsage(line.usage) : null,
    line.dimensions ?? null,
    line.reason ?? null,
  ];
  return JSON.stringify(packed);
}

export function unpackLine(packed: string): JournalLine {
  const line: PackedLine = JSON.parse(packed);
  const [type, seq, at, id, amount, available, ...rest] = line;
  const [hold, writtenOff, key, model, usage, dimensions, reason] = rest;
  return {
    type,
    seq: BigInt(seq),
    at,
    id,
    amount: BigInt(amount),
    available: BigInt(available),
    ...(hold !== null && { hold: BigInt(hold) }),
    ...(writtenOff !== null && { writtenOff: BigInt(writtenOff) }),
    ...(key !== null && { key }),
    ...(model !== null && { model }),
    ...(usage !== null && { usage: unpackUsage(usage) }),
    ...(dimensions && { dimensions }),
    ...(reason !== null && { reason }),
  };
}

function packUsage(usage: SettledUsage): PackedUsage {
  return usage.cost === undefined ? usage : { ...usage, cost: String(usage.cost) };
}

function unpackUsage({ cost, ...usage }: PackedUsage): SettledUsage {
  return { ...usage, ...(cost !== undefined && { cost: BigInt(cost) }) };
}

function textOf(amount: bigint | undefined): string | null {
  return amount === undefined ? null : String(amount);
}
