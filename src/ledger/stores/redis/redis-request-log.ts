import {
  type RequestLogPage,
  type RequestLogRow,
  type RequestLogStore,
  TRIM_STEP,
} from '../../contract/request-log.ts';
import { ReplyReader } from './lua/define-script.ts';
import type { ScriptRunner } from './script-runner.ts';

/** Entries that are listed at a time, at least: of many without a row, each would be asked for by itself. */
const MIN_LISTED = 100;

/**
 * A request log in sorted sets, in the order of their members: one for all accounts, with `ID ACCOUNT`, and one for each
 * account, with `ID JSON`, in the account's slot.
 */
export class RedisRequestLog implements RequestLogStore {
  readonly #runner: ScriptRunner;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  /** One step after the other: what is written in part is in the list of all, so it is trimmed, and no row is left beside its replacement. */
  async append(added: readonly RequestLogRow[]): Promise<void> {
    if (added.length === 0) return;
    const { send } = this.#runner;
    // Two rows of an id would be two members.
    const rows = [...new Map(added.map((row) => [row.id, row])).values()];
    const listed = rows.flatMap(({ id, account }) => ['0', `${id} ${account}`]);
    await send('zadd', [this.#all, ...listed]);
    await Promise.all(
      rows
        .filter(({ replaces }) => replaces === true)
        .map(({ id, account }) => send('zremrangebylex', [this.#of(account), `[${id} `, `(${id}!`])),
    );
    await Promise.all(
      [...byAccount(rows)].map(([account, own]) =>
        send('zadd', [this.#of(account), ...own.flatMap(({ id, json }) => ['0', `${id} ${json}`])]),
      ),
    );
  }

  async find(id: string): Promise<RequestLogRow | undefined> {
    const [listed] = await this.#range(this.#all, id, `${id}!`);
    const [row] = listed === undefined ? [] : await this.#rowsOf(listed.slice(20), id, `${id}!`);
    return row;
  }

  async page({ account, from, before, limit }: RequestLogPage): Promise<readonly RequestLogRow[]> {
    if (account !== undefined) return this.#rowsOf(account, from, before, limit);
    const page: RequestLogRow[] = [];
    let end = before;
    // Of what is listed, some may have no row: not yet, or no longer. Less than a page would be taken for the last one.
    while (page.length < limit) {
      const listed = await this.#range(this.#all, from, end, Math.max(limit - page.length, MIN_LISTED));
      const [newest, oldest] = [listed[0]?.slice(0, 19), listed.at(-1)?.slice(0, 19)];
      if (newest === undefined || oldest === undefined) break;
      const accounts = new Set(listed.map((member) => member.slice(20)));
      const found = await Promise.all([...accounts].map((name) => this.#rowsOf(name, oldest, `${newest}!`)));
      page.push(...found.flat().sort((one, other) => (one.id < other.id ? 1 : -1)));
      end = oldest;
    }
    return page.slice(0, limit);
  }

  async trim(before: string, max: number): Promise<number> {
    const { send } = this.#runner;
    const surplus = Number(await send('zcard', [this.#all])) - max;
    const oldest = new ReplyReader(
      surplus > 0
        ? await send('zrange', [this.#all, '0', String(TRIM_STEP - 1)])
        : await send('zrangebylex', [this.#all, '-', `(${before}`, 'LIMIT', '0', String(TRIM_STEP)]),
    ).texts();
    const old = oldest.filter((member, n) => n < surplus || member < before);
    const newest = old.at(-1)?.slice(0, 19);
    if (newest === undefined) return 0;
    // Rows first: a list that is trimmed too early would leave them.
    const accounts = new Set(old.map((member) => member.slice(20)));
    await Promise.all(
      [...accounts].map((account) => send('zremrangebylex', [this.#of(account), '-', `(${newest}!`])),
    );
    await send('zrem', [this.#all, ...old]);
    return old.length;
  }

  async forget(account: string, before = '~'): Promise<void> {
    const { send } = this.#runner;
    for (;;) {
      const rows = await this.#rowsOf(account, '0', before, TRIM_STEP);
      if (rows.length === 0) return;
      // The list first: if this breaks off between the two, a repetition finds the rows.
      await send('zrem', [this.#all, ...rows.map(({ id }) => `${id} ${account}`)]);
      await send('zrem', [this.#of(account), ...rows.map(({ id, json }) => `${id} ${json}`)]);
    }
  }

  async #rowsOf(account: string, from: string, before: string, limit = -1): Promise<RequestLogRow[]> {
    const members = await this.#range(this.#of(account), from, before, limit);
    return members.map((member) => ({ id: member.slice(0, 19), account, json: member.slice(20) }));
  }

  /** Members from one id up to another, the newest first. */
  async #range(key: string, from: string, before: string, limit = -1): Promise<string[]> {
    const bounds = [key, `(${before}`, `[${from}`, 'LIMIT', '0', String(limit)];
    return new ReplyReader(await this.#runner.send('zrevrangebylex', bounds)).texts();
  }

  get #all(): string {
    return this.#runner.keys.log();
  }

  #of(account: string): string {
    return this.#runner.keys.logOf(account);
  }
}

function byAccount(rows: readonly RequestLogRow[]): Map<string, RequestLogRow[]> {
  const groups = new Map<string, RequestLogRow[]>();
  for (const row of rows) {
    const group = groups.get(row.account);
    if (group) group.push(row);
    else groups.set(row.account, [row]);
  }
  return groups;
}
