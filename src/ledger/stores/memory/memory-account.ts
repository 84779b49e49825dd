import {
  type AccountRows,
  type AccountTotals,
  type AllowanceRow,
  balanceOf,
  type EndUserRow,
  type KeyRow,
  type LotRow,
  emptyTotals,
  requestRecord,
  type RequestRow,
} from '../../engine/account-rows.ts';
import { DueQueue, isBefore, type Queued } from './due-queue.ts';
import type { AccountState, JournalLine, UsageRow } from '../../contract/ledger-store.ts';
import { accountHolders } from '../../engine/key-states.ts';
import { compareLots } from '../../engine/lots.ts';
import { MemoryDimensions } from './memory-dimensions.ts';
import { addCounts, type Mutable } from '../../engine/usage-counters.ts';

/** Minimum of journal lines in memory. At a tenth more, the oldest are compacted. */
const MIN_JOURNAL_LINES = 50_000;

/** The rows of one account as maps and arrays. */
export class MemoryAccount implements AccountRows {
  readonly totals: AccountTotals = emptyTotals();
  readonly #requests = new Map<string, Queued>();
  // Two queues, because a final record's `due` is nearly always the latest of all:
  // it is added at the end of its queue in one step.
  readonly #leases = new DueQueue();
  readonly #finals = new DueQueue();
  /** "API key, idempotency key" -> the last request that was admitted with both. */
  readonly #idempotencyKeys = new Map<string, RequestRow>();
  readonly #keys = new Map<string, KeyRow>();
  readonly #endUsers = new Map<string, EndUserRow>();
  readonly #fingerprints = new Map<string, string>();
  #lots: readonly LotRow[] = [];
  #allowances: readonly AllowanceRow[] = [];
  #journal: JournalLine[] = [];
  /** "day key model" -> row. */
  readonly #usage = new Map<string, Mutable<UsageRow>>();
  readonly dimensions: MemoryDimensions = new MemoryDimensions();
  #usageCompacted = 0n;
  readonly #compacted = { seq: 0n, at: 0, granted: 0n, spent: 0n, expired: 0n, writtenOff: 0n };

  request(id: string): RequestRow | undefined {
    return this.#requests.get(id)?.row;
  }

  requestByIdempotencyKey(apiKey: string, key: string): RequestRow | undefined {
    const row = this.#idempotencyKeys.get(`${apiKey} ${key}`);
    return row?.state === 'voided' ? undefined : row;
  }

  freeIdempotencyKey(row: RequestRow): void {
    if (!row.idempotencyKey) return;
    const key = `${row.key} ${row.idempotencyKey.key}`;
    if (this.#idempotencyKeys.get(key) === row) this.#idempotencyKeys.delete(key);
    row.idempotencyKey = undefined;
  }

  firstDue(now: number): RequestRow | undefined {
    const lease = this.#leases.first;
    const final = this.#finals.first;
    const first = lease && final ? (isBefore(lease, final) ? lease : final) : (lease ?? final);
    return first && first.due <= now ? first.row : undefined;
  }

  saveRequest(row: RequestRow): void {
    let entry = this.#requests.get(row.id);
    if (!entry) {
      entry = { row, queue: undefined, due: row.due, position: -1 };
      this.#requests.set(row.id, entry);
    }
    if (row.idempotencyKey && row.state !== 'voided') {
      this.#idempotencyKeys.set(`${row.key} ${row.idempotencyKey.key}`, row);
    }
    entry.queue?.remove(entry);
    (row.state === 'held' ? this.#leases : this.#finals).add(entry);
  }

  /** Adds `ms`, which may be negative, to the end of all leases. */
  moveLeases(ms: number): void {
    this.#leases.move(ms);
  }

  deleteRequest(row: RequestRow): void {
    const entry = this.#requests.get(row.id);
    entry?.queue?.remove(entry);
    this.#requests.delete(row.id);
    this.freeIdempotencyKey(row);
  }

  key(id: string): KeyRow | undefined {
    return this.#keys.get(id);
  }

  saveKey(row: KeyRow): void {
    this.#keys.set(row.key, row);
  }

  saveKeyTerms(row: KeyRow): void {
    this.saveKey(row);
  }

  deleteKey(row: KeyRow): void {
    this.#keys.delete(row.key);
  }

  endUser(id: string): EndUserRow | undefined {
    return this.#endUsers.get(id);
  }

  endUserCount(): number {
    return this.#endUsers.size;
  }

  saveEndUser(row: EndUserRow): void {
    this.#endUsers.set(row.id, row);
  }

  deleteEndUser(row: EndUserRow): void {
    this.#endUsers.delete(row.id);
  }

  endUsers(): Iterable<EndUserRow> {
    return this.#endUsers.values();
  }

  openLots(): readonly LotRow[] {
    return this.#lots;
  }

  saveLot(row: LotRow): void {
    if (row.remaining === 0n) this.#lots = this.#lots.filter((lot) => lot !== row);
    else if (!this.#lots.includes(row)) this.#lots = [...this.#lots, row].toSorted(compareLots);
  }

  allowances(): readonly AllowanceRow[] {
    return this.#allowances;
  }

  saveAllowance(row: AllowanceRow): void {
    if (!this.#allowances.includes(row)) this.#allowances = [...this.#allowances, row];
  }

  deleteAllowance(row: AllowanceRow): void {
    this.#allowances = this.#allowances.filter((each) => each !== row);
  }

  fingerprint(id: string): string | undefined {
    return this.#fingerprints.get(id);
  }

  saveFingerprint(id: string, fingerprint: string): void {
    this.#fingerprints.set(id, fingerprint);
  }

  append(line: JournalLine): void {
    this.#journal.push(line);
    if (this.#journal.length > 1.1 * MIN_JOURNAL_LINES) this.compact(line.seq - BigInt(MIN_JOURNAL_LINES));
  }

  line(seq: bigint): JournalLine | undefined {
    return this.#journal[Number(seq - this.#compacted.seq) - 1];
  }

  journal(afterSeq: bigint, limit: number): readonly JournalLine[] {
    const from = this.#linesUpTo(afterSeq);
    return this.#journal.slice(from, from + limit);
  }

  compact(seq: bigint): void {
    const sums = this.#compacted;
    for (const line of this.#journal.splice(0, this.#linesUpTo(seq))) {
      sums.seq = line.seq;
      sums.at = Math.max(sums.at, line.at);
      if (line.type === 'g' || line.type === 'a') sums.granted += line.amount;
      else if (line.type === 'x') sums.expired += line.amount;
      else sums.spent += line.amount;
      sums.writtenOff += line.writtenOff ?? 0n;
    }
  }

  keys(): Iterable<KeyRow> {
    return this.#keys.values();
  }

  count(usage: UsageRow): void {
    const id = `${usage.day} ${usage.key} ${usage.model}`;
    const row = this.#usage.get(id);
    if (row) addCounts(row, usage);
    else this.#usage.set(id, { ...usage });
  }

  usage(fromDay: string, toDay: string): UsageRow[] {
    return this.#usageRows().filter(({ day }) => day >= fromDay && day <= toDay);
  }

  compactUsage(beforeDay: string): void {
    for (const [id, { day, charged }] of this.#usage) {
      if (day >= beforeDay) continue;
      this.#usageCompacted += charged;
      this.#usage.delete(id);
    }
    this.dimensions.compact(beforeDay);
  }

  state(account: string): AccountState {
    const { lowestFloor, lowWater, freeLowWater } = this.totals;
    return {
      ...balanceOf(this),
      lowestFloor,
      lowWater,
      freeLowWater,
      requests: Array.from(this.#requests.values(), ({ row }) => requestRecord(row)),
      ...accountHolders(account, this.#keys.values(), this.#endUsers.values()),
      compacted: { ...this.#compacted },
      usage: this.#usageRows(),
      usageCompacted: this.#usageCompacted,
      dimensionUsage: this.dimensions.all(),
    };
  }

  /** Copies: the rows go on counting. */
  #usageRows(): UsageRow[] {
    return Array.from(this.#usage.values(), (row) => ({ ...row }));
  }

  /** Number of lines at or before `seq`; positions have no gaps. */
  #linesUpTo(seq: bigint): number {
    const count = Number(seq - this.#compacted.seq);
    return Math.min(Math.max(0, count), this.#journal.length);
  }
}
