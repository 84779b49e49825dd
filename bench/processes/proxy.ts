/** One of the proxies that are compared, in a process of its own: `proxy.ts KIND ORIGIN [OPTIONS]`. */
import * as http from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import * as https from 'node:https';

import express from 'express';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { Redis } from 'ioredis';
import {
  createChatCompletionsRouter,
  type ChatCompletionsRouter,
  type ChatCompletionsRouterOptions,
} from 'chat-completions-router';

import { answerParent } from './parent.ts';

interface Options {
  /** How many more models there are than those that are asked for, and how many more API keys. */
  readonly models?: number;
  readonly keys?: number;
  /** @default 1 */
  readonly accounts?: number;
  /** More options of the router. */
  readonly limits?: Pick<ChatCompletionsRouterOptions, 'maxBodyBytes' | 'maxBufferedBytes'>;
}

const [kind = '', origin = '', options = '{}'] = process.argv.slice(2);
const { protocol, hostname: host, port } = new URL(origin);
const client = protocol === 'https:' ? https : http;
/** Of each account. */
let apiKeys: readonly string[] = ['none'];

const STORES: Readonly<Record<string, string | undefined>> = {
  memory: 'memory:',
  SQLite: `sqlite:${process.env['SQLITE_FILE']}`,
  Redis: process.env['REDIS_URL'],
};

const OTHERS: Readonly<Record<string, () => http.RequestListener | Promise<http.RequestListener>>> = {
  bare,
  'http-proxy-middleware': middleware,
  'http-proxy-middleware, Redis': middlewareWithRedis,
  'http-proxy-middleware in Express': () => express().use('/v1', middleware()),
  undici: undiciAlone,
};

/** A router is called `router, STORE[, undici][, in Express]`. */
async function listenerOf(name: string): Promise<http.RequestListener> {
  const other = OTHERS[name];
  if (other) return other();
  const [, storeName = '', ...parts] = name.split(', ');
  const store = STORES[storeName];
  if (store === undefined) throw new Error(`No proxy is called ${name}`);
  const made = await router(store, parts.includes('undici'));
  if (parts.includes('in Express')) return express().use('/v1', made);
  return (request, response) => void made(request, response);
}

/** The least that a proxy can do: it parses nothing, and checks no key. */
function bare(): http.RequestListener {
  const agent = new client.Agent({ keepAlive: true });
  return (request, response) => {
    const { method, url: path = '', headers } = request;
    const onward = client.request({ host, port, method, path, headers, agent }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => {
      if (!response.writableFinished) onward.destroy();
    });
    request.pipe(onward);
  };
}

function middleware(): ReturnType<typeof createProxyMiddleware> {
  const agent = new client.Agent({ keepAlive: true });
  return createProxyMiddleware({ target: `${origin}/v1`, agent, changeOrigin: true });
}

/** What the router can't cost less than on undici: its handler writes what comes, and reads the request whole, as the router must. */
async function undiciAlone(): Promise<http.RequestListener> {
  const { Pool } = await import('undici');
  const pool = new Pool(origin);
  return (request, response) => {
    const body: Buffer[] = [];
    request.on('data', (chunk: Buffer) => body.push(chunk));
    request.on('end', () => {
      const { url: path = '', headers } = request;
      pool.dispatch(
        { path, method: 'POST', headers: endToEnd(headers), body: Buffer.concat(body) },
        {
          onRequestStart(controller) {
            response.on('close', () => {
              if (!response.writableFinished) controller.abort(new Error('The client has left'));
            });
          },
          onResponseStart: (_controller, status, answered) =>
            void response.writeHead(status, endToEnd(answered)),
          onResponseData: (_controller, chunk) => void response.write(chunk),
          onResponseEnd: () => void response.end(),
          onResponseError: () => void response.destroy(),
        },
      );
    });
  };
}

/** Without the headers of one connection. */
function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { connection: _connection, 'transfer-encoding': _encoding, ...others } = headers;
  return others;
}

/** What the router can't cost less than with Redis: its transport, a script before each request, and one after it. */
async function middlewareWithRedis(): Promise<http.RequestListener> {
  const redis = new Redis(process.env['REDIS_URL'] ?? '');
  const sha = String(await redis.script('LOAD', "return redis.call('HINCRBY', KEYS[1], 'held', ARGV[1])"));
  const proxy = middleware();
  return (request, response) => {
    response.once('finish', () => void redis.evalsha(sha, 1, 'floor', -1));
    void redis.evalsha(sha, 1, 'floor', 1).then(() => proxy(request, response));
  };
}

/** With everything on: keys, credits, holds, metering. */
async function router(store: string, onUndici: boolean): Promise<ChatCompletionsRouter> {
  const { models = 0, keys = 0, accounts = 1, limits }: Options = JSON.parse(options);
  // Only a process that uses undici loads it.
  const transport = onUndici && (await import('chat-completions-router/undici')).undiciTransport();
  const pricing = { input: '1.00', output: '3.00' };
  const model = { contextWindow: 100_000_000, maxOutputTokens: 4096, pricing };
  const names = [
    'json-1200',
    'stream-50-20',
    'stream-500-20',
    'stream-1000-2000',
    'stream-200-0',
    'stream-3-150',
  ];
  const counts = [10, 100, 1000, 10_000, 100_000].map((count) => `stream-${count}-0`);
  const all = [...names, ...counts, ...Array.from({ length: models }, (_, n) => `acme/model-${n}`)];
  const made = createChatCompletionsRouter({
    store,
    providers: { bench: { baseURL: `${origin}/v1` } },
    models: Object.fromEntries(
      all.map((name) => [name, { ...model, targets: [{ provider: 'bench', model: name }] }]),
    ),
    ...(transport && { transport }),
    ...limits,
  });
  await made.ready();
  apiKeys = await Promise.all(
    Array.from({ length: accounts }, async (_, n) => {
      const account = n === 0 ? 'bench' : `bench-${n}`;
      const { key } = await made.keys.create({ account, name: 'bench' });
      await made.credits.grant(account, '1000000', { id: account });
      return key;
    }),
  );
  for (let n = 0; n < keys; n++) await made.keys.create({ account: `account${n}`, name: 'other' });
  return made;
}

const server = http.createServer(await listenerOf(kind));
server.listen(0, '127.0.0.1', 8192, () => answerParent(server, { keys: () => apiKeys }));
