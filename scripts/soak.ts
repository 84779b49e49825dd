/**
 * `npm run soak -- --minutes 10`: two gateways and their clients, with a fault of some kind every second or two.
 *
 * Says every ten seconds what memory the gateways have and how much the ledger remembers. In the end every whole
 * answer must have been charged once, the audit must find nothing, memory must have levelled off, and a day later
 * nothing may be remembered of any request.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Redis } from 'ioredis';

import { RedisStore } from '../src/ledger/redis/redis-store.ts';
import { type GatewayProcess, spawnGateway } from '../test/chaos/gateway-child.ts';
import { ask, type Reply } from '../test/chaos/client.ts';
import { startUnreliableLink } from '../test/chaos/unreliable-link.ts';
import { findingsOf } from '../test/helpers/audit.ts';
import { answerJson, answerStream, completionBody, startProvider, STREAM } from '../test/helpers/provider.ts';
import { startRedis } from '../test/helpers/redis-server.ts';

const COST = 45_000n;
const DAY_MS = 24 * 60 * 60 * 1000;
/** A client has its answer this long before its charge is in the outbox, at most. */
const POSTING_MS = 500;

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const endsAt = performance.now() + Number(values.minutes) * 60_000;

const outboxDir = mkdtempSync(join(tmpdir(), 'ccr-soak-'));
const server = await startRedis(['--appendonly', 'yes', '--appendfsync', 'everysec']);
const admin = new Redis(server.port, { retryStrategy: () => 50 });
admin.on('error', () => {});
const link = await startUnreliableLink(server.port);
const provider = await startProvider((response, request) =>
  (request.body.includes('"stream":true') ? answerStream(STREAM, 20) : answerJson(completionBody()))(
    response,
    request,
  ),
);

/** Of each place the gateway that is there, and when one was killed there. */
const places = await Promise.all(
  [`redis://127.0.0.1:${link.port}`, server.url].map(async (store) => ({
    gateway: await start(store),
    store,
    killedAt: [] as number[],
  })),
);
type Place = (typeof places)[number];

const faults: Readonly<Record<string, (place: Place) => Promise<unknown>>> = {
  'kill a gateway': async (place) => {
    place.killedAt.push(performance.now());
    await place.gateway.kill();
    place.gateway = await start(place.store);
  },
  'deploy a gateway': async (place) => {
    await place.gateway.terminate();
    place.gateway = await start(place.store);
  },
  'kill Redis': () => server.restart(),
  'freeze Redis': async () => {
    server.freeze();
    await pause(700);
    server.thaw();
  },
  'pause Redis': () => admin.call('CLIENT', 'PAUSE', '600', 'WRITE'),
  'flush scripts': () => admin.script('FLUSH'),
  'fill memory': async () => {
    await admin.config('SET', 'maxmemory', '1');
    await pause(500);
    await admin.config('SET', 'maxmemory', '0');
  },
  'refuse writes': async () => {
    await admin.config('SET', 'min-replicas-to-write', '1');
    await pause(500);
    await admin.config('SET', 'min-replicas-to-write', '0');
  },
  'break the link': async () => {
    link.fail(20);
    await pause(1500);
    link.heal();
  },
};

const struck: Record<string, number> = {};
const replies: { readonly reply: Reply; readonly place: Place }[] = [];
const memory: number[] = [];
const clients = Array.from({ length: 8 }, (_, n) => beClient(nth(places, n), n < 4));
const reporting = setInterval(() => void report(), 10_000);
for (let n = 0; performance.now() < endsAt; n++) {
  await pause(500 + Math.random() * 1500);
  const [name, strike] = nth(Object.entries(faults), Math.floor(Math.random() * 1000));
  await strike(nth(places, n));
  struck[name] = (struck[name] ?? 0) + 1;
}
await Promise.all(clients);
clearInterval(reporting);
for (const { gateway } of places) await gateway.terminate();
const isRight = await judge();

await provider.close();
await link.close();
admin.disconnect();
await server.stop();
rmSync(outboxDir, { recursive: true });
process.exit(isRight ? 0 : 1);

function start(store: string): Promise<GatewayProcess> {
  const pace = { leaseMs: 5000, heartbeatMs: 1000 };
  return spawnGateway({ store, provider: provider.baseURL, credits: '10000', outboxDir, ...pace });
}

async function beClient(place: Place, stream: boolean): Promise<void> {
  while (performance.now() < endsAt) {
    const reply = await ask(place.gateway, { stream });
    replies.push({ reply, place });
    if (reply.status !== 200) await pause(20);
  }
}

async function report(): Promise<void> {
  const pids = places.map(({ gateway }) => String(gateway.pid)).join(',');
  const megabytes = execFileSync('ps', ['-o', 'rss=', '-p', pids], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((kilobytes) => Math.round(Number(kilobytes) / 1024));
  memory.push(Math.max(...megabytes));
  const remembered = await admin.hlen('ccr:{acct}:r').catch(() => 'an unknown number of');
  console.log(`${replies.length} requests, ${remembered} remembered, ${megabytes.join(' and ')} MB`);
}

async function judge(): Promise<boolean> {
  // It reads hundreds of thousands of requests at once.
  const store = new RedisStore({ client: server.url, timeoutMs: 60_000 });
  try {
    await until(async () => {
      await store.sweep(1000);
      return (await store.balance('acct'))?.held === 0n;
    });
    const findings = await findingsOf(store);
    const charges = new Map<string, bigint>();
    for (const { type, id, amount } of await store.journal('acct', 0n, Infinity)) {
      if (type !== 'g') charges.set(id, (charges.get(id) ?? 0n) + amount);
    }
    const wrong = replies.filter(({ reply, place }) => {
      const { status, requestId, isWhole, endedAt } = reply;
      const charge = charges.get(requestId);
      // Of one that was refused, a lease may have ended, by which nothing is charged.
      if (status >= 400) return (charge ?? 0n) > 0n;
      const isSafe = !place.killedAt.some((time) => time > endedAt - 50 && time < endedAt + POSTING_MS);
      return isWhole && isSafe ? charge !== COST : (charge ?? 0n) > COST;
    });
    const later = new RedisStore({
      client: server.url,
      now: () => Date.now() + DAY_MS + 60_000,
      timeoutMs: 60_000,
    });
    while ((await later.sweep(10_000)) > 0);
    const left = (await later.snapshot('acct'))?.requests.length;
    await later.close();
    const levels = memory.length < 6 ? undefined : growth(memory.slice(memory.length / 3));
    const shown = wrong.slice(0, 5).map(({ reply: { status, requestId, isWhole } }) => ({
      status,
      requestId,
      isWhole,
      charge: charges.get(requestId),
    }));
    console.log({ struck, wrong: wrong.length, shown, findings, left, memoryGrowth: levels });
    return wrong.length === 0 && findings.length === 0 && left === 0 && (levels ?? 0) < 1.2;
  } finally {
    await store.close();
  }
}

/** How the mean of the later half compares with that of the earlier one. */
function growth(values: readonly number[]): number {
  const mean = (half: readonly number[]): number => half.reduce((sum, each) => sum + each, 0) / half.length;
  const middle = Math.floor(values.length / 2);
  return mean(values.slice(middle)) / mean(values.slice(0, middle));
}

/** In turn. */
function nth<T>(list: readonly T[], n: number): T {
  const found = list[n % list.length];
  if (found === undefined) throw new Error('The list is empty');
  return found;
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo().catch(() => false))) await pause(200);
}
