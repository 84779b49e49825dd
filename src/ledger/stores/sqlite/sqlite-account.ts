import {
  type AccountRows,
  type AccountTotals,
  type AllowanceRow,
  balanceOf,
  type EndUserRow,
  type KeyRow,
  type LotRow,
  requestRecord,
  type RequestRow,
} from '../../engine/account-rows.ts';
import { PassingMap } from '../../../async/passing-map.ts';
import type { AccountState, DeletedAccount, JournalLine, UsageRow } from '../../contract/ledger-store.ts';
import { ACCOUNT_POLICY, type FoundKey } from '../../contract/key-records.ts';
import { SESSION_PREFIX } from '../../contract/reserved-ids.ts';
import { accountHolders, foundKey } from '../../engine/key-states.ts';
import { compareLots } from '../../engine/lots.ts';
import { firstLowWater } from '../../engine/retention.ts';
import { addCounts, type Mutable } from '../../engine/usage-counters.ts';
import { SqliteAllowances } from './sqlite-allowances.ts';
import { type Columns, integer, number, text, valuesOf } from './sqlite-columns.ts';
import { deleteRows, deletionTime, runningRequests } from './sqlite-deletion.ts';
import { SqliteDimensions } from './sqlite-dimensions.ts';
import { SqliteEndUsers } from './sqlite-end-users.ts';
import {
  TOTALS,
  KEY,
  KEY_STATE,
  KEY_TERMS,
  LINE,
  LOT,
  REQUEST,
  REQUEST_STATE,
  USAGE,
  USAGE_COUNTS,
} from './sqlite-rows.ts';
import type { Row, Sql, SqlValue } from './sqlite-schema.ts';

/**
 * The rows of one account in tables.
 *
 * Rows are read lazily, and kept for later transactions as long as no other connection has written: see SqliteAccounts.
 * Requests, journal lines and the terms of keys are written at once, because queries look for them. What many commands
 * of a transaction change (totals, counters of keys, lots, usage) is written by `save`, before the commit.
 */
export class SqliteAccount implements AccountRows {
  readonly totals: AccountTotals;
  readonly #sql: Sql;
  readonly #id: bigint;
  /** The columns of `totals` in the file. */
  #savedTotals: readonly SqlValue[];
  readonly #keys = new Map<string, { readonly row: KeyRow; isStored: boolean }>();
  /** Not saved yet. Replaced after a save, as `#used` in SqliteAccounts. */
  #changedKeys = new Set<string>();
  readonly #endUsers: SqliteEndUsers;
  #lots: readonly LotRow[] | undefined;
  /** The same. */
  #changedLots = new Set<LotRow>();
  readonly #allowances: SqliteAllowances;
  readonly dimensions: SqliteDimensions;
  /** Requests whose row in the file is held. */
  readonly #held = new PassingMap<RequestRow>();
  /** No request in the file has a greater id; undefined until that was looked up. */
  #newestId: string | undefined;
  readonly #leases: DueRequests = { query: FIRST_LEASE, from: 0 };
  readonly #finals: DueRequests = { query: FIRST_FINAL, from: 0 };
  /** The same: counts that are not in the file yet, by day, key and model. */
  #counts = new Map<string, Mutable<UsageRow>>();

  static find(sql: Sql, name: string): SqliteAccount | undefined {
    const row = sql(ACCOUNT).get(name);
    return row && new SqliteAccount(sql, row);
  }

  /** Finds or creates an account. */
  static open(sql: Sql, name: string, now: number): SqliteAccount {
    const insert = (): Row | undefined =>
      sql(INSERT_ACCOUNT).get(name, firstLowWater(deletionTime(sql, name), now));
    const row = sql(ACCOUNT).get(name) ?? insert();
    if (!row) throw new Error(`The ledger file did not insert account ${name}`);
    return new SqliteAccount(sql, row);
  }

  private constructor(sql: Sql, row: Row) {
    this.#sql = sql;
    this.#id = integer(row, 'id');
    this.#allowances = new SqliteAllowances(sql, this.#id);
    this.#endUsers = new SqliteEndUsers(sql, this.#id);
    this.dimensions = new SqliteDimensions(sql, this.#id);
    this.totals = TOTALS.read(row);
    this.#savedTotals = valuesOf(TOTALS, this.totals);
  }

  /** How many rows it keeps in memory. */
  get size(): number {
    const lots = this.#lots?.length ?? 0;
    return 1 + this.#keys.size + this.#endUsers.size + this.#held.size + lots + this.#allowances.size;
  }

  request(id: string): RequestRow | undefined {
    const held = this.#held.get(id);
    if (held) return held;
    this.#newestId ??= text(this.#sql(NEWEST_ID).get(this.#id) ?? {}, 'id');
    if (id > this.#newestId) return undefined;
    return this.#requestOf(this.#sql(REQUEST_BY_ID).get(this.#id, id));
  }

  requestByIdempotencyKey(apiKey: string, key: string): RequestRow | undefined {
    return this.#requestOf(this.#sql(REQUEST_BY_IDEMPOTENCY_KEY).get(this.#id, apiKey, key));
  }

  freeIdempotencyKey(row: RequestRow): void {
    if (!row.idempotencyKey) return;
    row.idempotencyKey = undefined;
    this.#sql(FREE_IDEMPOTENCY_KEY).run(this.#id, row.id);
  }

  firstDue(now: number): RequestRow | undefined {
    const lease = this.#firstOf(this.#leases, now);
    const final = this.#firstOf(this.#finals, now);
    return lease && final ? (isBefore(lease, final) ? lease : final) : (lease ?? final);
  }

  saveRequest(row: RequestRow): void {
    if (this.#held.has(row.id) && !row.idempotencyKey) {
      this.#sql(UPDATE_REQUEST).run(...valuesOf(REQUEST_STATE, row), this.#id, row.id);
    } else {
      this.#sql(SAVE_REQUEST).run(this.#id, ...valuesOf(REQUEST, row));
    }
    if (row.state === 'held') this.#held.set(row.id, row);
    else this.#held.delete(row.id);
    if (this.#newestId !== undefined && row.id > this.#newestId) this.#newestId = row.id;
    const queue = row.state === 'held' ? this.#leases : this.#finals;
    queue.from = Math.min(queue.from, row.due);
  }

  deleteRequest(row: RequestRow): void {
    this.#held.delete(row.id);
    this.#sql(DELETE_REQUEST).run(this.#id, row.id);
  }

  key(id: string): KeyRow | undefined {
    const known = this.#keys.get(id);
    if (known) return known.row;
    const columns = this.#sql(KEY_BY_ID).get(this.#id, id);
    if (!columns) return undefined;
    const row = KEY.read(columns);
    this.#keys.set(id, { row, isStored: true });
    return row;
  }

  saveKey(row: KeyRow): void {
    if (!this.#keys.has(row.key)) this.#keys.set(row.key, { row, isStored: false });
    this.#changedKeys.add(row.key);
  }

  saveKeyTerms(row: KeyRow): void {
    this.saveKey(row);
    this.#writeKey(row.key);
    this.#changedKeys.delete(row.key);
    this.#sql(UPDATE_KEY_TERMS).run(...valuesOf(KEY_TERMS, row), this.#id, row.key);
    // Its members are the caller's objects.
    this.#keys.delete(row.key);
  }

  deleteKey(row: KeyRow): void {
    this.#changedKeys.delete(row.key);
    this.#keys.delete(row.key);
    this.#sql(DELETE_KEY).run(this.#id, row.key);
  }

  /** The sessions that expired before a time, at most `most`. */
  expiredSessions(before: number, most: number): KeyRow[] {
    this.save();
    return this.#sql(EXPIRED_SESSIONS)
      .all(this.#id, SESSION_PREFIX, `${SESSION_PREFIX}~`, before, most)
      .map(KEY.read);
  }

  endUser(id: string): EndUserRow | undefined {
    return this.#endUsers.find(id);
  }

  endUserCount(): number {
    return this.#endUsers.count();
  }

  saveEndUser(row: EndUserRow): void {
    this.#endUsers.save(row);
  }

  deleteEndUser(row: EndUserRow): void {
    this.#endUsers.delete(row);
  }

  /** End users of whom nothing runs, after an id, in order, at most `most`. */
  idleEndUsers(after: string, most: number): EndUserRow[] {
    return this.#endUsers.idle(after, most);
  }

  openLots(): readonly LotRow[] {
    this.#lots ??= this.#sql(LOTS).all(this.#id).map(LOT.read).toSorted(compareLots);
    return this.#lots;
  }

  saveLot(row: LotRow): void {
    const lots = this.openLots();
    if (row.remaining === 0n) this.#lots = lots.filter((lot) => lot !== row);
    else if (!lots.includes(row)) this.#lots = [...lots, row].toSorted(compareLots);
    this.#changedLots.add(row);
  }

  allowances(): readonly AllowanceRow[] {
    return this.#allowances.all();
  }

  saveAllowance(row: AllowanceRow): void {
    this.#allowances.save(row);
  }

  deleteAllowance(row: AllowanceRow): void {
    this.#allowances.delete(row);
  }

  fingerprint(id: string): string | undefined {
    const row = this.#sql(FINGERPRINT).get(this.#id, id);
    return row && text(row, 'fingerprint');
  }

  saveFingerprint(id: string, fingerprint: string): void {
    this.#sql(INSERT_FINGERPRINT).run(this.#id, id, fingerprint);
  }

  append(line: JournalLine): void {
    this.#sql(INSERT_LINE).run(this.#id, ...valuesOf(LINE, line));
  }

  count(usage: UsageRow): void {
    const place = `${usage.day} ${usage.key} ${usage.model}`;
    const counts = this.#counts.get(place);
    if (counts) addCounts(counts, usage);
    else this.#counts.set(place, { ...usage });
  }

  /** The first rows of a range of days, or those after one, as many as take 2 ms. */
  usagePage(fromDay: string, toDay: string, after?: UsageRow): UsageRow[] {
    const { day, key, model } = after ?? { day: fromDay, key: '', model: '' };
    return this.#sql(USAGE_PAGE).all(this.#id, toDay, day, key, model).map(USAGE.read);
  }

  usageOfKey(fromDay: string, toDay: string, key: string): UsageRow[] {
    const terms = [this.#id, fromDay, this.#id, toDay, this.#id, key, toDay];
    return this.#sql(USAGE_OF_KEY)
      .all(...terms)
      .map(USAGE.read);
  }

  compactUsage(beforeDay: string): void {
    this.save();
    if (!this.#sql(HAS_USAGE).get(this.#id, beforeDay)) return;
    this.#sql(ADD_COMPACTED_USAGE).run(this.#id, beforeDay, this.#id);
    this.#sql(DELETE_USAGE).run(this.#id, beforeDay);
    this.dimensions.compact(beforeDay);
  }

  /** Writes the changed totals, keys, lots and usage. */
  save(): void {
    for (const id of this.#changedKeys) this.#writeKey(id);
    if (this.#changedKeys.size > 0) this.#changedKeys = new Set();
    this.#endUsers.write();
    for (const lot of this.#changedLots) {
      if (lot.remaining === 0n) this.#sql(DELETE_LOT).run(this.#id, lot.id);
      else this.#sql(SAVE_LOT).run(this.#id, ...valuesOf(LOT, lot));
    }
    if (this.#changedLots.size > 0) this.#changedLots = new Set();
    for (const usage of this.#counts.values()) {
      this.#sql(COUNT_USAGE).run(this.#id, ...valuesOf(USAGE, usage));
    }
    if (this.#counts.size > 0) this.#counts = new Map();
    this.dimensions.save();
    const totals = valuesOf(TOTALS, this.totals);
    if (totals.every((value, n) => value === this.#savedTotals[n])) return;
    this.#sql(UPDATE_TOTALS).run(...totals, this.#id);
    this.#savedTotals = totals;
  }

  /** How many requests run, as saved. */
  get running(): number {
    return runningRequests(this.#sql, this.#id);
  }

  /** Deletes all rows, and records the sums. The account must not be used any more. */
  delete(deleted: DeletedAccount): void {
    deleteRows(this.#sql, this.#id, deleted);
  }

  /** All keys, as saved. */
  keys(): KeyRow[] {
    return this.#sql(KEYS).all(this.#id).map(KEY.read);
  }

  line(seq: bigint): JournalLine | undefined {
    const [line] = this.lines(seq - 1n, 1);
    return line?.seq === seq ? line : undefined;
  }

  lines(afterSeq: bigint, limit: number): JournalLine[] {
    return this.#sql(LINES).all(this.#id, afterSeq, limit).map(LINE.read);
  }

  /** Compacts the oldest lines, at most `most` of them and none after `seq`; returns whether lines up to `seq` remain. */
  compact(seq: bigint, most: bigint): boolean {
    const next = integer(this.#compacted(), 'compacted_seq') + most;
    const until = seq < next ? seq : next;
    const sums = this.#sql(COMPACTED_LINES).get(this.#id, until);
    if (!sums || sums['seq'] === null) return false;
    this.#sql(ADD_COMPACTED).run(
      integer(sums, 'seq'),
      integer(sums, 'at'),
      integer(sums, 'granted'),
      integer(sums, 'spent'),
      integer(sums, 'expired'),
      integer(sums, 'written_off'),
      this.#id,
    );
    this.#sql(DELETE_LINES).run(this.#id, until);
    return until < seq;
  }

  /** The whole account, as saved. */
  state(account: string): AccountState {
    const { lowestFloor, lowWater, freeLowWater } = this.totals;
    return {
      ...balanceOf(this),
      lowestFloor,
      lowWater,
      freeLowWater,
      requests: this.#sql(REQUESTS)
        .all(this.#id)
        .map((row) => requestRecord(REQUEST.read(row))),
      ...accountHolders(account, this.keys(), this.#endUsers.all()),
      compacted: this.compacted,
      usage: this.#sql(USAGE_ROWS).all(this.#id).map(USAGE.read),
      usageCompacted: integer(this.#compacted(), 'usage_compacted'),
      dimensionUsage: this.dimensions.all(),
    };
  }

  /** As saved. */
  get compacted(): AccountState['compacted'] {
    const sums = this.#compacted();
    return {
      seq: integer(sums, 'compacted_seq'),
      at: number(sums, 'compacted_at'),
      granted: integer(sums, 'compacted_granted'),
      spent: integer(sums, 'compacted_spent'),
      expired: integer(sums, 'compacted_expired'),
      writtenOff: integer(sums, 'compacted_written_off'),
    };
  }

  #compacted(): Row {
    return this.#sql(COMPACTED).get(this.#id) ?? {};
  }

  /** The request of a row: the one in memory, if it is held. */
  #requestOf(row: Row | undefined): RequestRow | undefined {
    if (!row) return undefined;
    const known = this.#held.get(text(row, 'id'));
    if (known) return known;
    const request = REQUEST.read(row);
    if (request.state === 'held') this.#held.set(request.id, request);
    return request;
  }

  #firstOf(queue: DueRequests, now: number): RequestRow | undefined {
    if (now < queue.from) return undefined;
    const first = this.#requestOf(this.#sql(queue.query).get(this.#id));
    queue.from = first?.due ?? Infinity;
    return now < queue.from ? undefined : first;
  }

  #writeKey(id: string): void {
    const known = this.#keys.get(id);
    if (known?.isStored) this.#sql(UPDATE_KEY).run(...valuesOf(KEY_STATE, known.row), this.#id, id);
    else if (known) this.#sql(INSERT_KEY).run(this.#id, ...valuesOf(KEY, known.row));
    if (known) known.isStored = true;
  }
}

/** The leases or the final records of an account, by when they are due. */
interface DueRequests {
  /** Finds the first. */
  readonly query: string;
  /** None is due before. */
  from: number;
}

/** Whether a request is due before another. */
function isBefore(a: RequestRow, b: RequestRow): boolean {
  return a.due < b.due || (a.due === b.due && a.id < b.id);
}

export function findKey(sql: Sql, hash: string, now: number): FoundKey | undefined {
  const columns = sql(KEY_BY_HASH).get(hash, hash);
  if (!columns) return undefined;
  const policy = sql(KEY_BY_ID).get(integer(columns, 'account'), ACCOUNT_POLICY);
  const rows = { row: KEY.read(columns), policy: policy && KEY.read(policy) };
  return foundKey(text(columns, 'account_name'), rows, hash, now);
}

/** Whether the hash is, or was last, that of a secret. */
export function isHashTaken(sql: Sql, hash: string): boolean {
  return sql(KEY_BY_HASH).get(hash, hash) !== undefined;
}

const ACCOUNT = `SELECT id, ${TOTALS.names.join(', ')} FROM accounts WHERE name = ?`;
const COMPACTED = 'SELECT * FROM accounts WHERE id = ?';
const INSERT_ACCOUNT = 'INSERT INTO accounts (name, low_water) VALUES (?, ?) RETURNING *';
const UPDATE_TOTALS = `${update('accounts', TOTALS)} WHERE id = ?`;

const REQUESTS = `SELECT ${REQUEST.names.join(', ')} FROM requests WHERE account = ?`;
const REQUEST_BY_ID = `${REQUESTS} AND id = ?`;
const REQUEST_BY_IDEMPOTENCY_KEY = `${REQUESTS} AND api_key = ? AND idempotency_key = ? AND state <> 'voided'`;
const NEWEST_ID = "SELECT coalesce(max(id), '') AS id FROM requests WHERE account = ?";
const FIRST_LEASE = `${REQUESTS} AND state = 'held' ORDER BY due, id LIMIT 1`;
const FIRST_FINAL = `${REQUESTS} AND state <> 'held' ORDER BY due, id LIMIT 1`;
const SAVE_REQUEST = `${insert('requests', REQUEST)} ON CONFLICT DO UPDATE SET state = excluded.state,
  amount = excluded.amount, checkpoint = excluded.checkpoint, due = excluded.due, model = excluded.model,
  line = excluded.line, ending = excluded.ending, provider = excluded.provider,
  idempotency_key = excluded.idempotency_key, body_hash = excluded.body_hash`;
const UPDATE_REQUEST = `${update('requests', REQUEST_STATE)} WHERE account = ? AND id = ?`;
const FREE_IDEMPOTENCY_KEY = `UPDATE requests SET idempotency_key = NULL, body_hash = NULL WHERE account = ? AND id = ?`;
const DELETE_REQUEST = 'DELETE FROM requests WHERE account = ? AND id = ?';

const KEYS = `SELECT ${KEY.names.join(', ')} FROM keys WHERE account = ?`;
const KEY_BY_ID = `${KEYS} AND id = ?`;
const KEY_BY_HASH = `
  SELECT keys.account AS account, accounts.name AS account_name, ${KEY.names.map((column) => `keys.${column}`).join(', ')}
  FROM keys JOIN accounts ON accounts.id = keys.account WHERE hash = ? OR previous_hash = ?`;
const INSERT_KEY = insert('keys', KEY);
const UPDATE_KEY = `${update('keys', KEY_STATE)} WHERE account = ? AND id = ?`;
const UPDATE_KEY_TERMS = `${update('keys', KEY_TERMS)} WHERE account = ? AND id = ?`;
const DELETE_KEY = 'DELETE FROM keys WHERE account = ? AND id = ?';
const EXPIRED_SESSIONS = `${KEYS} AND id > ? AND id < ? AND hash IS NOT NULL AND expires_at <= ? AND running = 0 LIMIT ?`;

const LOTS = `SELECT ${LOT.names.join(', ')} FROM lots WHERE account = ?`;
const SAVE_LOT = `${insert('lots', LOT)} ON CONFLICT DO UPDATE SET remaining = excluded.remaining`;
const DELETE_LOT = 'DELETE FROM lots WHERE account = ? AND id = ?';

const FINGERPRINT = 'SELECT fingerprint FROM fingerprints WHERE account = ? AND id = ?';
const INSERT_FINGERPRINT = insert('fingerprints', { names: ['id', 'fingerprint'] });

const LINES = `SELECT ${LINE.names.join(', ')} FROM journal WHERE account = ? AND seq > ? ORDER BY seq LIMIT ?`;
const INSERT_LINE = insert('journal', LINE);
const DELETE_LINES = 'DELETE FROM journal WHERE account = ? AND seq <= ?';
const COMPACTED_LINES = `
  SELECT
    max(seq) AS seq,
    max(at) AS at,
    sum(CASE WHEN type IN ('g', 'a') THEN amount ELSE 0 END) AS granted,
    sum(CASE WHEN type IN ('g', 'a', 'x') THEN 0 ELSE amount END) AS spent,
    sum(CASE WHEN type = 'x' THEN amount ELSE 0 END) AS expired,
    sum(coalesce(written_off, 0)) AS written_off
  FROM journal WHERE account = ? AND seq <= ?`;
const ADD_COMPACTED = `
  UPDATE accounts SET
    compacted_seq = ?, compacted_at = max(compacted_at, ?), compacted_granted = compacted_granted + ?, compacted_spent = compacted_spent + ?,
    compacted_expired = compacted_expired + ?, compacted_written_off = compacted_written_off + ?
  WHERE id = ?`;

const SUMS = USAGE_COUNTS.names.map((column) => `${column} = ${column} + excluded.${column}`);
const COUNT_USAGE = `${insert('usage', USAGE)} ON CONFLICT DO UPDATE SET ${SUMS.join(', ')}`;
const USAGE_ROWS = 'SELECT * FROM usage WHERE account = ?';
const USAGE_PAGE = `${USAGE_ROWS} AND day <= ? AND (day, api_key, model) > (?, ?, ?)
  ORDER BY day, api_key, model LIMIT 500`;
/** Finds the days first: each one, and then the key on it, by the index, however many keys there are. */
const USAGE_OF_KEY = `
  WITH RECURSIVE days (day) AS (
    SELECT min(day) FROM usage WHERE account = ? AND day >= ?
    UNION ALL
    SELECT (SELECT min(usage.day) FROM usage WHERE account = ? AND usage.day > days.day) FROM days WHERE days.day < ?
  )
  SELECT usage.* FROM days CROSS JOIN usage ON account = ? AND usage.day = days.day AND api_key = ? WHERE days.day <= ?`;
const HAS_USAGE = 'SELECT 1 FROM usage WHERE account = ? AND day < ? LIMIT 1';
const ADD_COMPACTED_USAGE = `
  UPDATE accounts SET usage_compacted = usage_compacted
    + coalesce((SELECT sum(charged) FROM usage WHERE account = ? AND day < ?), 0)
  WHERE id = ?`;
const DELETE_USAGE = 'DELETE FROM usage WHERE account = ? AND day < ?';

function insert(table: string, { names }: Pick<Columns<never>, 'names'>): string {
  return `INSERT INTO ${table} (account, ${names.join(', ')}) VALUES (?${', ?'.repeat(names.length)})`;
}

function update(table: string, { names }: Pick<Columns<never>, 'names'>): string {
  return `UPDATE ${table} SET ${names.map((name) => `${name} = ?`).join(', ')}`;
}
