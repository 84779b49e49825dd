import { once } from 'node:events';
import * as http from 'node:http';
import * as net from 'node:net';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type ChatCompletionsRouter, createChatCompletionsRouter, type Settled } from '../../../src/index.ts';
import { describeGateway } from '../../contracts/router.ts';
import { type AnyGateway, clientsOf, PROVIDER_KEY, QUESTION } from '../../helpers/gateway.ts';
import { buildNextApp, type NextServer, startNextApp } from '../helpers/next-app.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  DONE,
  type Provider,
  sleep,
  startProvider,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';
import { startRedis } from '../../helpers/redis-server.ts';

const temporary = mkdtempSync(join(tmpdir(), 'ccr-next-'));
const store = `sqlite:${join(temporary, 'credits.db')}`;
let folder: string;
let provider: Provider;
/** Another user of the same ledger file: the app's own router is in the server's process. */
let router: ChatCompletionsRouter;
let next: NextServer;
let accounts = 0;
/** All that were started, so that a test that failed leaves none behind. */
const servers = new Set<NextServer>();

async function start(env: Readonly<Record<string, string>> = {}): Promise<NextServer> {
  const server = await startNextApp(folder, {
    CREDITS_STORE: store,
    PROVIDER_URL: provider.baseURL,
    PROVIDER_KEY,
    ...env,
  });
  servers.add(server);
  return server;
}

beforeAll(async () => {
  // Turbopack by default; CONTRIBUTING.md says how to run it with webpack.
  folder = await buildNextApp(process.env['NEXT_BUILD_FLAGS']?.split(' '));
  provider = await startProvider();
  router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  next = await start();
}, 300_000);

afterAll(async () => {
  await provider.close();
  await Promise.all([...servers].map((server) => server.stop()));
  await router.close();
  rmSync(temporary, { recursive: true });
});

/** The app at one of its mounts, for an account that is new. */
async function startAt(path: string, server: NextServer = next): Promise<AnyGateway> {
  const account = `acct-${++accounts}`;
  const { key } = await router.keys.create({ account, name: 'test' });
  await router.credits.grant(account, '5.00', { id: 'welcome' });
  provider.received.length = 0;
  provider.script = answerJson(completionBody());
  return {
    provider,
    router,
    account,
    ...clientsOf(server.origin + path, key),
    nextSettled: () =>
      new Promise<Settled>((resolve) => {
        const listener = (settled: Settled): void => {
          if (settled.account !== account) return;
          server.settled.off('settled', listener);
          resolve(settled);
        };
        server.settled.on('settled', listener);
      }),
    close: async () => {},
  };
}

describe('next build', () => {
  it('runs the module of a router without any variable, and opens no ledger', () => {
    expect(existsSync(join(folder, 'credits.db'))).toBe(false);
  });

  it('gets an error where it asks for credits all the same', async () => {
    const said = await (await fetch(`${next.origin}/built`)).text();
    expect(said).toContain('the ledger is not opened during next build');
  });

  it('bundles the router into a route of the App Router', () => {
    const trace = readFileSync(join(folder, '.next/server/app/v1/[...path]/route.js.nft.json'), 'utf8');
    expect(trace).not.toContain('chat-completions-router/dist/router.js');
  });
});

const MOUNTS: readonly [string, string][] = [
  ['App Router', '/v1'],
  ['Pages Router', '/api/v1'],
];

describe.each(MOUNTS)("Next.js 16's %s", (_name, path) => {
  it('sends the headers of the router, and none of its own but for caches', async () => {
    const gateway = await startAt(path);
    gateway.provider.script = answerStream(STREAM);
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.text()).toBe(STREAM.filter((piece) => piece !== USAGE_EVENT).join(''));
    const {
      'x-request-id': requestId,
      date: _date,
      vary: _vary,
      ...headers
    } = Object.fromEntries(response.headers);
    expect(requestId).toMatch(/^[\da-z]{10,}$/);
    expect(headers).toEqual({
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      connection: 'keep-alive',
      'keep-alive': 'timeout=5',
      'transfer-encoding': 'chunked',
    });
  });

  it('leaves every method to the router', async () => {
    const gateway = await startAt(path);
    const statuses: Record<string, number> = {};
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      statuses[method] = (await gateway.fetch('/models', { method })).status;
    }
    const [refused, served] = [405, 200];
    expect(statuses).toEqual({
      GET: served,
      HEAD: served,
      POST: refused,
      PUT: refused,
      PATCH: refused,
      DELETE: refused,
      OPTIONS: 204,
    });
  });

  it('keeps credits in Redis as well, by a bundled ioredis', async () => {
    const redis = await startRedis();
    const shared = createChatCompletionsRouter({ store: redis.url, providers: {}, models: {} });
    const { key } = await shared.keys.create({ account: 'acct', name: 'test' });
    await shared.credits.grant('acct', '5.00', { id: 'welcome' });
    const server = await start({ CREDITS_STORE: redis.url });
    const { fetch: ask, post } = clientsOf(server.origin + path, key);
    provider.script = answerJson(completionBody());
    const posted = once(server.settled, 'settled');
    expect((await post(QUESTION)).status).toBe(200);
    await posted;
    expect(await (await ask('/credits')).json()).toMatchObject({ balance: '4.999955' });
    await server.stop();
    await shared.close();
    await redis.stop();
  });

  it('is refused a ledger file where instances have disks of their own', async () => {
    const server = await start({ VERCEL: '1' });
    const gateway = await startAt(path, server);
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(503);
    expect(response.headers.get('x-should-retry')).toBe('false');
    expect(await response.json()).toMatchObject({ error: { code: 'store_not_shared' } });
    expect(server.output()).toContain('VERCEL is set, so each instance has its own temporary disk');
    await server.stop();
  });
});

describe("Next.js's after", () => {
  it('keeps the process until an answer without a reader is over and its charge posted', async () => {
    const server = await start({ ON_CLIENT_GONE: 'drain' });
    const gateway = await startAt('/v1', server);
    let go: () => void = () => {};
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await new Promise<void>((resolve) => (go = resolve));
      response.end(text(' there', 'stop') + USAGE_EVENT + DONE);
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    await response.body?.cancel();
    await sleep(100);
    const stopped = server.stop();
    await sleep(300);
    go();
    expect(await settled).toMatchObject({ ending: 'client_gone', charged: '0.000045' });
    await stopped;
  });
});

it('finishes a running stream on SIGTERM, and posts its charge', async () => {
  const server = await start();
  const gateway = await startAt('/v1', server);
  let go: () => void = () => {};
  gateway.provider.script = async (response) => {
    beginStream(response);
    response.write(text('Hello'));
    await new Promise<void>((resolve) => (go = resolve));
    response.end(text(' there', 'stop') + USAGE_EVENT + DONE);
  };
  const response = await gateway.post({ ...QUESTION, stream: true });
  const stopped = server.stop();
  // It takes no new connection, and goes on with this one.
  const { port, hostname } = new URL(server.origin);
  const refused = (): Promise<boolean> =>
    new Promise((resolve) => {
      const socket = net.connect(Number(port), hostname, () => {
        socket.destroy();
        resolve(false);
      });
      socket.on('error', () => resolve(true));
    });
  await expect.poll(refused).toBe(true);
  go();
  expect(await response.text()).toContain('[DONE]');
  await stopped;
  expect(await gateway.router.credits.balance(gateway.account)).toMatchObject({
    totalUsed: '0.000045',
    held: '0.00',
  });
});

describe("a body that is longer than Next.js's proxyClientMaxBodySize", () => {
  const long = JSON.stringify({ ...QUESTION, padding: 'x'.repeat(1_500_000) });

  it.each(['/proxied/v1', '/api/proxied/v1'])(
    'is a 413 at %s that names that setting, and costs nothing',
    async (path) => {
      const gateway = await startAt(path);
      const response = await gateway.post(long);
      expect(response.status).toBe(413);
      const { error } = (await response.json()) as { error: { code: string; message: string } };
      expect(error.code).toBe('request_too_large');
      expect(error.message).toMatch(
        new RegExp(`${long.length} bytes, but the router received [1-9]\\d{5,6}.*proxyClientMaxBodySize`),
      );
      expect(await router.credits.balance(gateway.account)).toMatchObject({ balance: '5.00', held: '0.00' });
      expect(gateway.provider.received).toHaveLength(0);
    },
  );

  it('is one that names the setting as well where the client gave no length', async () => {
    const gateway = await startAt('/proxied/v1');
    const body = new Blob([long]).stream();
    const response = await gateway.post(undefined, { body, duplex: 'half' });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('invalid_json');
    expect(error.message).toMatch(/ends after [1-9]\d{5,6} bytes, in the middle.*proxyClientMaxBodySize/);
    expect(gateway.provider.received).toHaveLength(0);
  });

  it.each(['/v1', '/api/v1'])('goes through at %s, where nothing copies it first', async (path) => {
    const gateway = await startAt(path);
    expect((await gateway.post(long)).status).toBe(200);
  });

  it("is Next.js's own 413 behind the body parser of the Pages Router, which takes 1 MB", async () => {
    const gateway = await startAt('/api/parsed/v1');
    // It leaves the rest of the body unread, and so the connection of no use.
    const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' };
    const request = http.request(`${gateway.baseURL}/chat/completions`, {
      method: 'POST',
      headers,
      agent: false,
    });
    request.on('error', () => {}).end(long);
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    const [body] = (await once(response, 'data')) as [Buffer];
    expect([response.statusCode, String(body)]).toEqual([413, 'Body exceeded 1mb limit']);
    request.destroy();
  });
});

describeGateway("Next.js 16's App Router", () => startAt('/v1'));
describeGateway("Next.js 16's App Router, at an optional catch-all below api", () => startAt('/api/app/v1'));
describeGateway("Next.js 16's App Router, behind a proxy.ts", () => startAt('/proxied/v1'));
describeGateway("Next.js 16's Pages Router", () => startAt('/api/v1'));
describeGateway("Next.js 16's Pages Router behind its body parser", () => startAt('/api/parsed/v1'), {
  rendersBodies: true,
});

describe('what Next.js says of all that', () => {
  it('is no warning of routes that answered nothing', () => {
    expect(next.output()).toContain('settled');
    expect(next.output()).not.toMatch(/without sending a response|Unhandled|uncaught/i);
  });
});
