import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { RedisStore, type ResponseEnded } from '../../../src/index.ts';
import { type Gateway, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const OK = answerJson(completionBody());
const BUSY = answerJson('{"error":{"message":"busy"}}', 503);

let server: RedisServer;
let first: Provider;
let second: Provider;
let gateways: Gateway[];
/** Of each answer. */
let ended: ResponseEnded[];

beforeEach(async () => {
  gateways = [];
  ended = [];
  [server, first, second] = await Promise.all([startRedis(), startProvider(OK), startProvider(OK)]);
});
afterEach(async () => {
  for (const gateway of gateways) await gateway.close();
  await Promise.all([server.stop(), first.close(), second.close()]);
});

/** A process of the fleet. */
async function start(): Promise<Gateway> {
  const gateway = await startGateway({
    store: new RedisStore({ client: server.url, timeoutMs: 500 }),
    sticky: { by: ['header:x-session-id'] },
    health: { failures: 1000 },
    retries: { perTarget: 0 },
    providers: {
      first: { baseURL: first.baseURL, apiKey: 'sk-first' },
      second: { baseURL: second.baseURL, apiKeys: ['sk-a', 'sk-b'] },
    },
    models: {
      'acme/fast': { targets: ['first/a', 'second/b'], pricing: 'free', maxOutputTokens: 1000 },
    },
    hooks: [{ onResponse: (event: ResponseEnded) => void ended.push(event) }],
  });
  gateways.push(gateway);
  return gateway;
}

/** Who answered a turn. */
async function turn(gateway: Gateway, session: string): Promise<string> {
  const answers = ended.length;
  const response = await gateway.post(
    { model: 'acme/fast', messages: [{ role: 'user', content: 'hi' }] },
    { headers: { 'x-session-id': session } },
  );
  expect(response.status).toBe(200);
  await response.text();
  await expect.poll(() => ended.length).toBe(answers + 1);
  return ended.at(-1)?.provider ?? '';
}

/** A turn that the first provider can't answer. */
async function movedTurn(gateway: Gateway, session: string): Promise<void> {
  first.script = BUSY;
  expect(await turn(gateway, session)).toBe('second');
  first.script = OK;
}

/** What is under way may have begun before: twice. */
async function hears(gateway: Gateway): Promise<void> {
  await gateway.router.ready();
  await gateway.router.ready();
}

it('a conversation stays where another process served it, and where that process served it later', async () => {
  const [one, other] = [await start(), await start()];
  expect(await turn(other, 's2')).toBe('first');
  await movedTurn(one, 's1');
  await hears(one);
  await hears(other);
  expect(await turn(other, 's1')).toBe('second');
  expect(await turn(other, 's2')).toBe('first');
  second.script = BUSY;
  expect(await turn(other, 's1')).toBe('first');
  second.script = OK;
  await hears(other);
  await hears(one);
  expect(await turn(one, 's1')).toBe('first');
  expect(ended.map(({ sticky }) => sticky)).toEqual(['new', 'new', 'kept', 'kept', 'moved', 'kept']);
});

it('without being asked, others hear of it', async () => {
  const [one, other] = [await start(), await start()];
  for (let n = 1; n <= 100; n++) await movedTurn(one, `s${n}`);
  // Another session each time: one that is served before it is heard of stays where it is.
  let asked = 0;
  await expect.poll(() => turn(other, `s${(asked += 1)}`), { timeout: 10_000 }).toBe('second');
});

it('a process that starts goes on where one that was closed has stopped', async () => {
  const one = await start();
  await movedTurn(one, 's1');
  await one.close();
  gateways = [];
  const other = await start();
  await other.router.ready();
  expect(await turn(other, 's1')).toBe('second');
  expect(ended.at(-1)?.sticky).toBe('kept');
});

it('without Redis a process keeps its own conversations, says so once, and tells of them when Redis is back', async () => {
  const one = await start();
  await movedTurn(one, 's1');
  await server.restart(async () => {
    await expect
      .poll(() => one.errors.map(({ message }) => message))
      .toContainEqual(expect.stringMatching(/^The fleet's view of providers is unavailable: /));
  });
  const redis = new Redis(server.url);
  await expect.poll(() => redis.llen('ccr:turns')).toBe(1);
  redis.disconnect();
  const other = await start();
  await other.router.ready();
  expect(await turn(other, 's1')).toBe('second');
});
