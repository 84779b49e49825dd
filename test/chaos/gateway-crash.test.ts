import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { openStore } from '../../src/ledger/stores/open-store.ts';
import { beginStream, DONE, event, type Provider, startProvider, text } from '../helpers/provider.ts';
import { type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { type Books, closeBooks, COST, openBooks } from './books.ts';
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts';
import { ask, type Reply } from './client.ts';

const RENEW_MS = 300;
const LEASE_MS = 1500;
const PIECES = 60;
const PIECE_MS = 20;
/** 10 tokens by estimate. */
const PIECE = 'x'.repeat(40);
const OUTPUT_TOKEN = 3000n;

describe('a gateway that is killed', { timeout: 60_000 }, () => {
  it('at 40 points of their streams charges each for what it delivered, less a heartbeat at most', async () => {
    const store = `sqlite:${join(newFolder(), 'credits.db')}`;
    const provider = await startStreams();
    const options = { store, provider: provider.baseURL, credits: '100' };
    const streams: Stream[] = [];
    for (let round = 0; round < 4; round++) {
      const gateway = await startGatewayProcess({ ...options, leaseMs: LEASE_MS, renewMs: RENEW_MS });
      const started = Array.from({ length: 10 }, async (_, n) => {
        await pause(n * 100);
        return startStream(gateway);
      });
      // The first has come to its end then, and the others haven't.
      await started[0];
      await pause(100 + Math.random() * 300);
      const killedAt = performance.now();
      await gateway.kill();
      for (const stream of await Promise.all(started)) streams.push({ ...stream, killedAt });
    }
    const books = await endLeases(store);
    const wrong = streams.map((stream) => judge(stream, books)).filter((verdict) => verdict !== 'right');
    expect(wrong).toEqual([]);
    // Of all kinds there are some: else this shows nothing.
    expect(streams.some(({ reply }) => reply.isWhole)).toBe(true);
    expect(streams.filter(({ reply }) => reply.status === 200 && !reply.isWhole).length).toBeGreaterThan(10);
  });

  it('with 50 requests open leaks no hold (LiteLLM #27639): the next admit ends their leases', async () => {
    const server = await startTestRedis();
    const provider = await startProvider(() => {});
    onTestFinished(() => provider.close());
    const options = {
      store: server.url,
      provider: provider.baseURL,
      credits: '1',
      holdMode: 'strict',
    } as const;
    const gateway = await startGatewayProcess({ ...options, leaseMs: 1000, renewMs: 250 });
    const asked = Array.from({ length: 50 }, () => ask(gateway));
    await expect.poll(() => provider.received.length).toBe(50);
    const store = openBooks(server.url);
    expect(await store.balance('acct')).toMatchObject({ held: 50n * 3_142_000n });
    await gateway.kill();
    await Promise.all(asked);
    await pause(1000);
    provider.script = (response) => void response.writeHead(500).end();
    const next = await startGatewayProcess(options);
    // Each ends eight leases before it asks for money.
    for (let n = 0; n < 7; n++) expect((await ask(next)).status).toBe(500);
    await next.terminate();
    const { state } = await closeBooks(store);
    expect(state).toMatchObject({ available: 1_000_000_000n, spent: 0n });
  });

  it('while Redis was frozen leaves its charges in the outbox, and the next posts them once', async () => {
    const server = await startTestRedis();
    const outboxDir = newFolder();
    const { provider, finish } = await startHeldStreams();
    const options = { store: server.url, provider: provider.baseURL, credits: '100', outboxDir };
    const gateway = await startGatewayProcess({ ...options, leaseMs: LEASE_MS, renewMs: RENEW_MS });
    const asked = Array.from({ length: 20 }, () => ask(gateway, { stream: true }));
    await expect.poll(() => provider.received.length).toBe(20);
    server.freeze();
    finish();
    const replies = await Promise.all(asked);
    expect(replies.every(({ isWhole, body }) => isWhole && body.endsWith(DONE))).toBe(true);
    // A charge is on disk when its request has ended, which is soon after its client has all of it.
    await pause(200);
    await gateway.kill();
    server.thaw();
    expect(gateway.settled.size).toBe(0);
    const outboxes = readdirSync(outboxDir);
    expect(outboxes).toHaveLength(1);
    // As if its owner had given no sign of life for 10 seconds.
    for (const name of outboxes) utimesSync(join(outboxDir, name), 0, 0);
    const next = await startGatewayProcess(options);
    const { charges, state } = await closeBooks(openBooks(server.url));
    await next.terminate();
    for (const { requestId } of replies) expect(charges.get(requestId)).toBe(COST);
    expect(state.spent).toBe(20n * COST);
    expect(readdirSync(outboxDir)).toEqual([]);
  });

  it('beside another leaves that one and the books in peace', async () => {
    const store = `sqlite:${join(newFolder(), 'credits.db')}`;
    const provider = await startStreams(10);
    const options = { store, provider: provider.baseURL, credits: '100', leaseMs: LEASE_MS };
    const [one, other] = [await startGatewayProcess(options), await startGatewayProcess(options)];
    const doomed = Array.from({ length: 10 }, () => startStream(one));
    const safe = Array.from({ length: 10 }, () => startStream(other));
    await pause(100);
    await one.kill();
    await Promise.all(doomed);
    const replies = (await Promise.all(safe)).map(({ reply }) => reply);
    expect(replies.every(({ isWhole }) => isWhole)).toBe(true);
    const { charges } = await endLeases(store);
    const exact = 9000n + 100n * OUTPUT_TOKEN;
    expect(replies.map(({ requestId }) => charges.get(requestId))).toEqual(replies.map(() => exact));
  });
});

describe('a gateway that is asked to end', { timeout: 30_000 }, () => {
  it('during 20 streams finishes them, and loses no charge (LiteLLM #34805, one-api postConsumeQuota)', async () => {
    const server = await startTestRedis();
    const { provider, finish } = await startHeldStreams();
    const gateway = await startGatewayProcess({
      store: server.url,
      provider: provider.baseURL,
      credits: '100',
    });
    const asked = Array.from({ length: 20 }, () => ask(gateway, { stream: true }));
    await expect.poll(() => provider.received.length).toBe(20);
    const ended = gateway.terminate();
    await expect.poll(() => takesRequests(gateway)).toBe(false);
    finish();
    const replies = await Promise.all(asked);
    await ended;
    expect(gateway.settled.size).toBe(20);
    const { charges, state } = await closeBooks(openBooks(server.url));
    expect(replies.map(({ requestId }) => charges.get(requestId))).toEqual(replies.map(() => COST));
    expect(state.spent).toBe(20n * COST);
  });
});

function takesRequests({ baseURL, key }: GatewayProcess): Promise<boolean> {
  return fetch(`${baseURL}/models`, { headers: { authorization: `Bearer ${key}` } }).then(
    ({ ok }) => ok,
    () => false,
  );
}

interface Stream {
  readonly reply: Reply;
  /** When each piece arrived. */
  readonly arrivals: readonly number[];
  readonly killedAt?: number;
}

async function startStream(gateway: GatewayProcess): Promise<Stream> {
  const arrivals: number[] = [];
  const reply = await ask(
    gateway,
    { stream: true },
    {
      onText: (piece) => {
        const count = piece.split(PIECE).length - 1;
        for (let n = 0; n < count; n++) arrivals.push(performance.now());
      },
    },
  );
  return { reply, arrivals };
}

/** `right`, or what is wrong with what was charged for a stream. */
function judge({ reply, arrivals, killedAt = 0 }: Stream, { charges }: Books): string {
  const { status, requestId, isWhole } = reply;
  if (status === 0) return 'right';
  const charge = charges.get(requestId);
  if (charge === undefined) return `${requestId} has no charge`;
  const exact = 9000n + BigInt(PIECES) * 10n * OUTPUT_TOKEN;
  // Its end may have reached the client and not the ledger: that takes milliseconds.
  if (isWhole && arrivals.at(-1)! < killedAt - 100) {
    return charge === exact ? 'right' : `${requestId} was whole and costs ${charge}`;
  }
  const output = (pieces: number): bigint => 9000n + BigInt(pieces) * 10n * OUTPUT_TOKEN;
  // What went through the gateway before it died, and did not arrive: a few pieces.
  const most = output(arrivals.length + 5);
  const oldest = killedAt - RENEW_MS - SLACK_MS;
  const beforeHeartbeat = arrivals.filter((time) => time < oldest).length;
  const least = beforeHeartbeat === 0 ? 0n : output(beforeHeartbeat);
  if (charge > most) return `${requestId} costs ${charge}, and delivered ${most}`;
  if (charge < least) return `${requestId} costs ${charge}, and had delivered ${least} a heartbeat before`;
  return 'right';
}

/** For so long a busy machine may keep a heartbeat waiting. */
const SLACK_MS = 500;

/** Lets somebody else sweep until nothing is held, as any gateway does. */
async function endLeases(url: string): Promise<Books> {
  const sweeper = openStore(url);
  const sweeping = setInterval(() => void sweeper.sweep(1000).catch(() => {}), 100);
  try {
    return await closeBooks(openBooks(url));
  } finally {
    clearInterval(sweeping);
    await sweeper.close();
  }
}

/** A provider of streams whose usage is what an estimate of their prompt and text comes to. */
async function startStreams(pieces = PIECES): Promise<Provider> {
  const provider = await startProvider(async (response) => {
    beginStream(response);
    for (let n = 0; n < pieces && !response.destroyed; n++) {
      response.write(text(PIECE));
      await pause(PIECE_MS);
    }
    const usage = { prompt_tokens: 9, completion_tokens: 10 * pieces, total_tokens: 9 + 10 * pieces };
    response.end(text('', 'stop') + event({ choices: [], usage }) + DONE);
  });
  onTestFinished(() => provider.close());
  return provider;
}

/** A provider whose streams begin at once and end all together. */
async function startHeldStreams(): Promise<{ provider: Provider; finish: () => void }> {
  const held = Promise.withResolvers<void>();
  const provider = await startProvider(async (response) => {
    beginStream(response);
    response.write(text('Hello'));
    await held.promise;
    const usage = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 };
    response.end(text(' there.', 'stop') + event({ choices: [], usage }) + DONE);
    await once(response, 'close');
  });
  onTestFinished(() => provider.close());
  return { provider, finish: held.resolve };
}

async function startTestRedis(): Promise<RedisServer> {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  return server;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-chaos-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
