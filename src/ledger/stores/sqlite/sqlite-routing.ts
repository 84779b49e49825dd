import { MAX_AMOUNT } from '../../contract/money.ts';
import {
  type CostBatch,
  ENDED_PERIOD_MS,
  type RoutingChange,
  type RoutingState,
  type RoutingStore,
  WRITER_MS,
} from '../../contract/routing.ts';
import { checkCostBatch, checkRoutingChange } from '../../engine/validate-routing.ts';
import { integer, number, text } from './sqlite-columns.ts';
import type { Sql } from './sqlite-schema.ts';
import type { SqliteSession } from './sqlite-session.ts';

/** What operators change of the routing, in tables of the ledger file. */
export class SqliteRouting implements RoutingStore {
  readonly #session: SqliteSession;
  readonly #now: () => number;

  constructor(session: SqliteSession, now: () => number) {
    this.#session = session;
    this.#now = now;
  }

  async read(known = ''): Promise<RoutingState> {
    return this.#session.read((sql) => readRouting(sql, known));
  }

  async write(change: RoutingChange): Promise<boolean> {
    checkRoutingChange(change);
    return this.#session.write('durable', ({ sql }) => writeRouting(sql, change));
  }

  async addCosts(batch: CostBatch): Promise<void> {
    checkCostBatch(batch);
    await this.#session.write('write', ({ sql }) => addCosts(sql, batch, this.#now()));
  }
}

/** Each statement once, for a rehearsal. */
export function rehearseRouting(sql: Sql, name: string, now: number): void {
  const { version } = readRouting(sql, '');
  writeRouting(sql, { from: version, to: name, document: '{}' });
  readRouting(sql, '');
  const cost = { provider: name, from: now, until: now + 1, amount: 1n };
  addCosts(sql, { writer: name, number: 1, costs: [cost] }, now);
}

function readRouting(sql: Sql, known: string): RoutingState {
  const costs = sql(COSTS)
    .all()
    .map((row) => ({
      provider: text(row, 'provider'),
      from: number(row, 'from_ms'),
      until: number(row, 'until_ms'),
      amount: integer(row, 'amount'),
    }));
  const found = sql(VERSION).get();
  const version = found ? text(found, 'version') : '';
  if (version === known) return { version, costs };
  const document = sql(DOCUMENT).get();
  return { version, ...(document && { document: text(document, 'document') }), costs };
}

function writeRouting(sql: Sql, { from, to, document }: RoutingChange): boolean {
  const found = sql(VERSION).get();
  const version = found ? text(found, 'version') : '';
  if (version === to) return true;
  if (version !== from) return false;
  sql(SAVE).run(to, document);
  return true;
}

function addCosts(sql: Sql, { writer, number: count, costs }: CostBatch, now: number): void {
  sql(FORGET_WRITERS).run(now - WRITER_MS);
  sql(FORGET_COSTS).run(now - ENDED_PERIOD_MS);
  const last = sql(LAST).get(writer);
  if (last && number(last, 'number') >= count) return;
  sql(SAVE_WRITER).run(writer, count, now);
  for (const { provider, from, until, amount } of costs)
    sql(ADD).run(provider, from, until, amount, MAX_AMOUNT);
}

const VERSION = 'SELECT version FROM routing WHERE id = 1';
const DOCUMENT = 'SELECT document FROM routing WHERE id = 1';
const SAVE = `INSERT INTO routing (id, version, document) VALUES (1, ?, ?)
  ON CONFLICT (id) DO UPDATE SET version = excluded.version, document = excluded.document`;
const COSTS = 'SELECT provider, from_ms, until_ms, amount FROM provider_costs';
const ADD = `INSERT INTO provider_costs (provider, from_ms, until_ms, amount) VALUES (?, ?, ?, ?)
  ON CONFLICT (provider, from_ms, until_ms) DO UPDATE SET amount = MIN(amount + excluded.amount, ?)`;
const FORGET_COSTS = 'DELETE FROM provider_costs WHERE until_ms <= ?';
const LAST = 'SELECT number FROM cost_writers WHERE id = ?';
const SAVE_WRITER = `INSERT INTO cost_writers (id, number, at) VALUES (?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET number = excluded.number, at = excluded.at`;
const FORGET_WRITERS = 'DELETE FROM cost_writers WHERE at <= ?';
