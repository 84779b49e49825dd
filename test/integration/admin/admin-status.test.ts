import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, describe, expect, it } from 'vitest';

import {
  type AccountState,
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  MemoryStore,
  StoreUnavailableError,
} from '../../../src/index.ts';
import { type AdminDoor, startAdmin } from '../../helpers/admin.ts';

/** A store that can be away, and whose totals can be wrong. */
class Store extends MemoryStore {
  away = false;
  readonly wrong = new Set<string>();
  onSnapshot = (): void => {};

  override extend(...command: Parameters<MemoryStore['extend']>): ReturnType<MemoryStore['extend']> {
    if (this.away) throw new StoreUnavailableError('no', { cause: new Error('connect ECONNREFUSED') });
    return super.extend(...command);
  }

  override async snapshot(account: string): Promise<AccountState | undefined> {
    this.onSnapshot();
    const state = await super.snapshot(account);
    return state && this.wrong.has(account) ? { ...state, spent: state.spent + 1n } : state;
  }
}

describe('the status in the admin API', () => {
  let door: AdminDoor;
  let router: ChatCompletionsRouter;
  let folder: string | undefined;

  const start = async (store: Store, outboxDir?: string): Promise<void> => {
    router = createChatCompletionsRouter({
      store,
      providers: {},
      models: {},
      ...(outboxDir !== undefined && { outboxDir }),
    });
    door = await startAdmin({ router });
  };

  afterEach(async () => {
    await door.close();
    await router.close();
    if (folder !== undefined) rmSync(folder, { recursive: true });
    folder = undefined;
  });

  it('has the store, what waits, and what is logged', async () => {
    folder = mkdtempSync(join(tmpdir(), 'status-'));
    await start(new Store(), folder);
    const { status, body } = await door.ask('GET', '/status');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      running: 0,
      store: { state: 'available' },
      waiting_charges: 0,
      waiting: [],
      outbox: { folder },
      request_log: { written: 0, waiting: 0, refusals_left_out: 0, lost: 0 },
    });
    expect(Date.parse(body.started_at)).toBeLessThanOrEqual(Date.now());
    expect(body.outbox.error).toBeUndefined();
  });

  it('says why the store is unavailable, and is answered all the same', async () => {
    const store = new Store();
    await start(store);
    store.away = true;
    const { status, body } = await door.ask('GET', '/status');
    expect(status).toBe(200);
    expect(body.store).toMatchObject({ state: 'unavailable' });
    expect(body.store.error).toContain("can't be used: connect ECONNREFUSED");
    store.away = false;
    expect((await door.ask('GET', '/status')).body.store.state).toBe('available');
  });

  it('verifies accounts a page at a time, and names what is wrong', async () => {
    const store = new Store();
    await start(store);
    for (const account of ['a', 'b', 'c']) await router.credits.grant(account, '5.00', { id: 'g' });
    store.wrong.add('b');
    const first = await door.ask('GET', '/verification?limit=2');
    expect(first.body).toMatchObject({ accounts: 2, lines: 2, next_cursor: 'b' });
    expect(first.body.findings[0]).toMatchObject({ account: 'b', invariant: 'I1' });
    const last = await door.ask('GET', '/verification?limit=2&cursor=b');
    expect(last.body).toEqual({ accounts: 1, lines: 1, findings: [], next_cursor: null });
    const one = await door.ask('GET', '/verification?account=a');
    expect(one.body).toEqual({ accounts: 1, lines: 1, findings: [], next_cursor: null });
    const none = await door.ask('GET', '/verification?account=nobody');
    expect([none.status, none.body.error.code]).toEqual([404, 'account_not_found']);
    expect((await door.ask('GET', '/verification?limit=0')).body.error.param).toBe('limit');
  });

  it('ends a page of verification in time, with a cursor', async () => {
    const store = new Store();
    await start(store);
    for (const account of ['a', 'b', 'c']) await router.credits.grant(account, '5.00', { id: 'g' });
    const now = performance.now.bind(performance);
    let ahead = 0;
    performance.now = () => now() + ahead;
    store.onSnapshot = () => {
      ahead += 1500;
    };
    const page = await router.accounts.verify().finally(() => {
      performance.now = now;
    });
    expect(page).toEqual({ accounts: 2, lines: 2, findings: [], cursor: 'b' });
  });
});
