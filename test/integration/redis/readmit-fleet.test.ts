import { afterEach, beforeEach, expect, it } from 'vitest';

import { type HealthChange, RedisStore } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const OK = answerJson(completionBody());
const BUSY = answerJson('{"error":{"message":"busy"}}', 503);

let server: RedisServer;
let first: Provider;
let second: Provider;
let gateways: Gateway[];
let changes: HealthChange[];

beforeEach(async () => {
  gateways = [];
  changes = [];
  [server, first, second] = await Promise.all([startRedis(), startProvider(BUSY), startProvider(OK)]);
});
afterEach(async () => {
  for (const gateway of gateways) await gateway.close();
  await Promise.all([server.stop(), first.close(), second.close()]);
});

/** A process of the fleet, whose callers have their account as their key. */
async function start(): Promise<Gateway> {
  const gateway = await startGateway({
    store: new RedisStore({ client: server.url, timeoutMs: 500 }),
    authenticate: (key) => ({ account: key }),
    health: { failures: 2, coolDownMs: 60_000 },
    retries: { perTarget: 0 },
    providers: { first: { baseURL: first.baseURL }, second: { baseURL: second.baseURL } },
    models: { 'acme/fast': { targets: ['first/a', 'second/b'], pricing: 'free', maxOutputTokens: 1000 } },
    hooks: [{ onHealthChange: (change) => void changes.push(change) }],
  });
  gateways.push(gateway);
  return gateway;
}

async function ask(gateway: Gateway, account: string): Promise<void> {
  const response = await gateway.post(QUESTION, { headers: { authorization: `Bearer ${account}` } });
  expect(response.status).toBe(200);
  await response.text();
}

it('readmits for all what a process ejected that is gone, through one that knows nothing of it', async () => {
  const store = new RedisStore({ client: server.url });
  const ejected = async (): Promise<unknown> => {
    const report = { member: 'test', leaseMs: 1000, changes: [], exhausted: [] };
    return (await store.fleet.syncHealth(report)).ejected.map(({ target }) => target);
  };
  const one = await start();
  for (const account of ['a', 'b', 'c', 'd']) await ask(one, account);
  await expect.poll(ejected).toEqual([JSON.stringify(['first', 'a'])]);
  await one.close();
  gateways = [];
  changes = [];
  first.script = OK;

  const other = await start();
  await other.router.ready();
  await other.router.providers.readmit('first');
  await expect.poll(ejected).toEqual([]);
  const before = first.received.length;
  await ask(other, 'a');
  expect(first.received.length).toBe(before + 1);
  expect(changes).toEqual([]);
  await store.close();
});
