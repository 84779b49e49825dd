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
import { DeletionQueue, isDueBefore } from './deletion-queue.ts';
import { DueQueue, type Queued } from './due-queue.ts';
import type { AccountState, JournalLine, UsageRow } from '../../contract/ledger-store.ts';
import { accountHolders } from '../../engine/key-states.ts';
import { compareLots } from '../../engine/lots.ts';
import { MemoryDimensions } from './memory-dimensions.ts';
import { MemoryJournal } from './memory-journal.ts';
import { packRequest, unpackRequest } from './packed-rows.ts';
import { TextArchive } from './text-archive.ts';
import { addCounts, type Mutable } from '../../engine/usage-counters.ts';

/**
 * The rows of one account as maps and arrays. Requests that are over and journal lines are texts outside of V8's heap: as objects,
 * those of 100,000 requests would make each full collection take longer than it saves.
 */
export class MemoryAccount implements AccountRows {
  readonly totals: AccountTotals = emptyTotals();
  readonly #archive = new TextArchive<'line' | 'free' | 'charged'>();
  /** Of those that are over, the place in the archive. */
  readonly #requests = new Map<string, Queued | number>();
  readonly #leases = new DueQueue();
  readonly #deletions = new DeletionQueue();
  /** "API key, idempotency key" -> id of the last request that was admitted with both. */
  readonly #idempotencyKeys = new Map<string, string>();
  readonly #keys = new Map<string, KeyRow>();
  readonly #endUsers = new Map<string, EndUserRow>();
  readonly #fingerprints = new Map<string, string>();
  #lots: readonly LotRow[] = [];
  #allowances: readonly AllowanceRow[] = [];
  readonly journal: MemoryJournal = new MemoryJournal(this.#archive);
  /** "day key model" -> row. */
  readonly #usage = new Map<string, Mutable<UsageRow>>();
  /** The row that was counted in last. */
  #counted: Mutable<UsageRow> | undefined;
  readonly dimensions: MemoryDimensions = new MemoryDimensions();
  #usageCompacted = 0n;

  request(id: string): RequestRow | undefined {
    const found = this.#requests.get(id);
    return found === undefined ? undefined : this.#rowOf(found);
  }

  requestByIdempotencyKey(apiKey: string, key: string): RequestRow | undefined {
    const id = this.#idempotencyKeys.get(`${apiKey} ${key}`);
    const row = id === undefined ? undefined : this.request(id);
    return row?.state === 'voided' ? undefined : row;
  }

  freeIdempotencyKey(row: RequestRow): void {
    if (!row.idempotencyKey) return;
    const key = `${row.key} ${row.idempotencyKey.key}`;
    if (this.#idempotencyKeys.get(key) === row.id) this.#idempotencyKeys.delete(key);
    row.idempotencyKey = undefined;
    const found = this.#requests.get(row.id);
    if (typeof found === 'number') this.#keep(row, found);
  }

  firstDue(now: number): RequestRow | undefined {
    const lease = this.#leases.first?.row;
    const final = this.#firstDeletion(now);
    const first = lease && final ? (isDueBefore(lease, final) ? lease : final) : (lease ?? final);
    return first && first.due <= now ? first : undefined;
  }

  saveRequest(row: RequestRow): void {
    const found = this.#requests.get(row.id);
    if (row.idempotencyKey && row.state !== 'voided') {
      this.#idempotencyKeys.set(`${row.key} ${row.idempotencyKey.key}`, row.id);
    }
    if (row.state === 'held') {
      const entry = typeof found === 'object' ? found : { row, due: row.due, position: -1 };
      if (entry === found) this.#leases.remove(found);
      else this.#requests.set(row.id, entry);
      this.#leases.add(entry);
      return;
    }
    const isQueued = typeof found === 'number' && this.#rowOf(found).due === row.due;
    this.#keep(row, found);
    if (!isQueued) this.#deletions.add(row);
  }

  get running(): number {
    return this.#leases.length;
  }

  /** Adds `ms`, which may be negative, to the end of all leases. */
  moveLeases(ms: number): void {
    this.#leases.move(ms);
  }

  deleteRequest(row: RequestRow): void {
    const found = this.#requests.get(row.id);
    if (typeof found === 'object') this.#leases.remove(found);
    else if (found !== undefined) this.#archive.delete(found);
    this.#requests.delete(row.id);
    this.freeIdempotencyKey(row);
  }

  #rowOf(found: Queued | number): RequestRow {
    return typeof found === 'object' ? found.row : unpackRequest(this.#archive.read(found));
  }

  /** Archives a request that is over, in place of what was found of it. */
  #keep(row: RequestRow, found: Queued | number | undefined): void {
    const place = this.#archive.add(packRequest(row), row.amount === 0n ? 'free' : 'charged');
    this.#requests.set(row.id, place);
    if (typeof found === 'object') this.#leases.remove(found);
    else if (found !== undefined) this.#archive.delete(found);
  }

  /** The final record that may be deleted first, if it may be at this time. */
  #firstDeletion(now: number): RequestRow | undefined {
    for (let first = this.#deletions.first; first && first.due <= now; first = this.#deletions.first) {
      const row = this.request(first.id);
      if (row?.due === first.due) return row;
      // Deleted, or saved again with another time.
      this.#deletions.removeFirst();
    }
    return undefined;
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
    this.journal.append(line);
  }

  line(seq: bigint): JournalLine | undefined {
    return this.journal.line(seq);
  }

  keys(): Iterable<KeyRow> {
    return this.#keys.values();
  }

  count(usage: UsageRow): void {
    const { day, key, model } = usage;
    const last = this.#counted;
    // As the one before, mostly: its name need not be made.
    if (last && last.day === day && last.key === key && last.model === model) {
      addCounts(last, usage);
      return;
    }
    const id = `${day} ${key} ${model}`;
    const row = this.#usage.get(id);
    this.#counted = row ?? { ...usage };
    if (row) addCounts(row, usage);
    else this.#usage.set(id, this.#counted);
  }

  usage(fromDay: string, toDay: string, key?: string): UsageRow[] {
    return this.#usageRows(
      (row) => row.day >= fromDay && row.day <= toDay && (key === undefined || row.key === key),
    );
  }

  compactUsage(beforeDay: string): void {
    for (const [id, { day, charged }] of this.#usage) {
      if (day >= beforeDay) continue;
      this.#usageCompacted += charged;
      this.#usage.delete(id);
    }
    this.#counted = undefined;
    this.dimensions.compact(beforeDay);
  }

  state(account: string): AccountState {
    const { lowestFloor, lowWater, freeLowWater } = this.totals;
    return {
      ...balanceOf(this),
      lowestFloor,
      lowWater,
      freeLowWater,
      requests: Array.from(this.#requests.values(), (found) => requestRecord(this.#rowOf(found))),
      ...accountHolders(account, this.#keys.values(), this.#endUsers.values()),
      compacted: this.journal.compacted,
      usage: this.#usageRows(),
      usageCompacted: this.#usageCompacted,
      dimensionUsage: this.dimensions.all(),
    };
  }

  /** Copies: the rows go on counting. */
  #usageRows(isWanted: (row: UsageRow) => boolean = () => true): UsageRow[] {
    const rows: UsageRow[] = [];
    for (const row of this.#usage.values()) if (isWanted(row)) rows.push({ ...row });
    return rows;
  }
}
