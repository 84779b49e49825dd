import * as zlib from 'node:zlib';

import type { Settle, Void } from '../contract/ledger-store.ts';

/** What is to be posted, whatever happens to this process. */
export type Intent =
  | { readonly type: 'settle'; readonly command: Settle }
  | { readonly type: 'void'; readonly command: Void };

/** What an outbox keeps: the commands of a ledger, or what another sender is to deliver. */
export interface Kept {
  readonly type: string;
  /** `requestId` is its id in the outbox. */
  readonly command: { readonly account: string; readonly requestId: string };
}

/** What is left to do of an outbox, by its bytes. */
export interface Contents<Item> {
  /** In the order in which they were written. */
  readonly intents: readonly Item[];
  /** Lines that can't be read, but for a last one that was not finished. */
  readonly damaged: number;
}

/** One line: CRC-32 of what follows in 8 hex digits, a space, JSON. */
export function intentLine(intent: Kept): Buffer {
  return line([intent.type, plain(intent)]);
}

/** Says that these requests need nothing any more. */
export function doneLine(requestIds: readonly string[]): Buffer {
  return line(['done', requestIds]);
}

/**
 * Reads all that can be read.
 *
 * A process can die in the middle of its last line, so a last one that is torn is no
 * damage. Where a line end was damaged, the lines beside it are still found.
 */
export function readLines<Item extends Kept = Intent>(bytes: Buffer): Contents<Item> {
  const waiting = new Map<string, Item>();
  let damaged = 0;
  const lines = bytes.toString('latin1').split('\n');
  lines.forEach((text, index) => {
    if (text === '') return;
    const records = parseLine(text) ?? partsOf(text);
    if (records.length === 0 && index < lines.length - 1) damaged += 1;
    for (const record of records) apply(record, waiting);
  });
  return { intents: [...waiting.values()], damaged };
}

/** What a line says. Amounts are strings while it is JSON. */
type Line = [type: string, value: Kept['command'] | string[]];

function line(content: readonly [type: string, value: object]): Buffer {
  const json = Buffer.from(JSON.stringify(content));
  return Buffer.concat([Buffer.from(`${checksum(json)} `), json, Buffer.from('\n')]);
}

/** What a line says, as a list of one; undefined where its checksum is not that of its bytes. */
function parseLine(text: string): Line[] | undefined {
  const json = Buffer.from(text.slice(9), 'latin1');
  if (text.slice(0, 9) !== `${checksum(json)} `) return undefined;
  // The checksum says that it is as it was written.
  const content: Line = JSON.parse(json.toString(), revive);
  return [content];
}

/** Lines that became one because the end of the first was damaged. */
function partsOf(text: string): Line[] {
  const starts = Array.from(text.matchAll(/[0-9a-f]{8} \["/g), ({ index }) => index);
  return starts.flatMap((start, n) => {
    const next = starts[n + 1];
    return parseLine(text.slice(start, next === undefined ? undefined : next - 1)) ?? [];
  });
}

function apply<Item extends Kept>([type, value]: Line, waiting: Map<string, Item>): void {
  if (Array.isArray(value)) for (const requestId of value) waiting.delete(requestId);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a folder has the items of one kind of outbox
  else waiting.set(value.requestId, { type, command: value } as Item);
}

function checksum(bytes: Buffer): string {
  return zlib.crc32(bytes).toString(16).padStart(8, '0');
}

/** The command with its amounts as strings: what JSON makes of a bigint is up to the host, who may have given it a `toJSON`. */
export function plain(intent: Kept): object {
  if (!isSettle(intent)) return intent.command;
  const { amount, usage } = intent.command;
  const { cost } = usage;
  return {
    ...intent.command,
    amount: String(amount),
    usage: { ...usage, ...(cost !== undefined && { cost: String(cost) }) },
  };
}

function isSettle(intent: Kept): intent is Extract<Intent, { type: 'settle' }> {
  return intent.type === 'settle';
}

function revive(key: string, value: unknown): unknown {
  return (key === 'amount' || key === 'cost') && typeof value === 'string' ? BigInt(value) : value;
}
