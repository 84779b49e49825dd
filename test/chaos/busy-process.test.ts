import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { LedgerEvent } from '../../src/index.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { blockLoop } from '../helpers/block-loop.ts';
import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';
import { answerJson, answerStream, completionBody, STREAM } from '../helpers/provider.ts';
import { startCluster } from '../helpers/redis-cluster.ts';
import { namespace } from '../helpers/redis-ledger.ts';
import { startSentinel } from '../helpers/redis-sentinel.ts';
import { startRedis } from '../helpers/redis-server.ts';

/** Blocks the process right after it has sent a command: the reply lies in the socket when the timers run. */
class BusyStore extends RedisStore {
  /** How long the next commands block, in ms. */
  blocks: number[] = [];

  override admit(...args: Parameters<RedisStore['admit']>): ReturnType<RedisStore['admit']> {
    return this.#blocked(super.admit(...args));
  }

  override settle(...args: Parameters<RedisStore['settle']>): ReturnType<RedisStore['settle']> {
    return this.#blocked(super.settle(...args));
  }

  override findKey(...args: Parameters<RedisStore['findKey']>): ReturnType<RedisStore['findKey']> {
    return this.#blocked(super.findKey(...args));
  }

  #blocked<T>(sent: Promise<T>): Promise<T> {
    blockLoop(this.blocks.shift() ?? 0);
    return sent;
  }
}

const SETUPS = {
  Redis: startRedis,
  'a Redis cluster': () => startCluster({ withReplicas: true }),
  'a Redis that sentinels watch': () => startSentinel(),
};

describe.each(Object.entries(SETUPS))('a busy process with %s', { timeout: 60_000 }, (_name, start) => {
  let redis: { readonly url: string; stop(): Promise<void> };
  let store: BusyStore;
  let gateway: Gateway;
  let told: LedgerEvent[];

  beforeAll(async () => {
    redis = await start();
    told = [];
    store = new BusyStore({ client: redis.url, keyPrefix: namespace() });
    const hooks = { onLedgerEvent: (event: LedgerEvent) => void told.push(event) };
    gateway = await startGateway({ store, hooks: [hooks] });
    gateway.provider.script = (response, request) =>
      (request.body.includes('"stream":true') ? answerStream(STREAM) : answerJson(completionBody()))(
        response,
        request,
      );
    await gateway.router.ready();
  }, 60_000);

  afterAll(async () => {
    await gateway.close();
    await redis.stop();
  });

  /** Asks so often at once, and says how often there was which status. */
  async function ask(count: number, stream: boolean): Promise<Record<string, number>> {
    const statuses: Record<string, number> = {};
    await Promise.all(
      Array.from({ length: count }, async () => {
        const response = await gateway.post({ ...QUESTION, stream });
        const answer = await response.text();
        // Of a refusal the code is told, too.
        const status = response.ok ? '200' : `${response.status} ${answer}`;
        statuses[status] = (statuses[status] ?? 0) + 1;
      }),
    );
    return statuses;
  }

  it.each([100, 260, 600, 2000])('answers every request where it is blocked for %i ms', async (ms) => {
    store.blocks = [ms, ms / 2, ms / 2];
    expect(await ask(20, false)).toEqual({ '200': 20 });
    store.blocks = [0, 0, ms];
    expect(await ask(20, true)).toEqual({ '200': 20 });
    expect(told).toEqual([]);
  });

  it('answers every request where it is blocked at any moment, and charges each once', async () => {
    const before = await store.balance('acct');
    let isOver = false;
    const work = (async () => {
      for (const ms of [300, 150, 450, 1000, 250, 300]) {
        await new Promise((resolve) => setTimeout(resolve, 30));
        if (!isOver) blockLoop(ms);
      }
    })();
    const statuses: Record<string, number>[] = [];
    for (let round = 0; round < 8; round++) statuses.push(await ask(10, round % 2 === 0));
    isOver = true;
    await work;
    expect(statuses).toEqual(Array.from({ length: 8 }, () => ({ '200': 10 })));
    expect(told).toEqual([]);
    await expect
      .poll(async () => (await store.balance('acct'))?.spent)
      .toBe((before?.spent ?? 0n) + 80n * 45_000n);
    expect(await store.balance('acct')).toMatchObject({ held: 0n, frozen: false });
  });
});
