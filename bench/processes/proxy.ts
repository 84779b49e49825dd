/** One of the proxies that are compared, in a process of its own: `proxy.ts KIND UPSTREAM-PORT [OPTIONS]`. */
import * as http from 'node:http';

import express from 'express';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { Redis } from 'ioredis';
import {
  createChatCompletionsRouter,
  type ChatCompletionsRouter,
  type ChatCompletionsRouterOptions,
} from 'chat-completions-router';
import { undiciTransport } from 'chat-completions-router/undici';

import { answerParent } from './parent.ts';

interface Options {
  /** How many more models there are than those that are asked for, and how many more API keys. */
  readonly models?: number;
  readonly keys?: number;
  readonly maxBodyBytes?: number;
}

const [kind = '', upstream = '', options = '{}'] = process.argv.slice(2);
const origin = `http://127.0.0.1:${upstream}`;
let key = 'none';

const KINDS: Readonly<Record<string, () => http.RequestListener | Promise<http.RequestListener>>> = {
  bare,
  'http-proxy-middleware': () => middleware(),
  'http-proxy-middleware, Redis': middlewareWithRedis,
  'http-proxy-middleware in Express': () => express().use('/v1', middleware()),
  'router, memory': () => router('memory:'),
  'router, memory, undici': () => router('memory:', { transport: undiciTransport() }),
  'router, memory, in Express': async () => express().use('/v1', await router('memory:')),
  'router, SQLite': () => router(`sqlite:${process.env['SQLITE_FILE']}`),
  'router, Redis': () => router(process.env['REDIS_URL'] ?? ''),
};

/** What anybody would write in an hour: it parses nothing, and knows nobody. */
function bare(): http.RequestListener {
  const agent = new http.Agent({ keepAlive: true });
  return (request, response) => {
    const { method, url: path = '', headers } = request;
    const onward = http.request(
      { host: '127.0.0.1', port: upstream, method, path, headers, agent },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    onward.on('error', () => response.destroy());
    response.on('close', () => {
      if (!response.writableFinished) onward.destroy();
    });
    request.pipe(onward);
  };
}

function middleware(): ReturnType<typeof createProxyMiddleware> {
  const agent = new http.Agent({ keepAlive: true });
  return createProxyMiddleware({ target: `${origin}/v1`, agent, changeOrigin: true });
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
async function router(
  store: string,
  more: Partial<ChatCompletionsRouterOptions> = {},
): Promise<ChatCompletionsRouter> {
  const { models = 0, keys = 0, maxBodyBytes }: Options = JSON.parse(options);
  const pricing = { input: '1.00', output: '3.00' };
  const model = { contextWindow: 100_000_000, maxOutputTokens: 4096, pricing };
  const names = ['json-1200', 'stream-50-20', 'stream-500-20', 'stream-1000-2000', 'stream-200-0'];
  const counts = [10, 100, 1000, 10_000, 100_000].map((count) => `stream-${count}-0`);
  const all = [...names, ...counts, ...Array.from({ length: models }, (_, n) => `acme/model-${n}`)];
  const made = createChatCompletionsRouter({
    store,
    providers: { bench: { baseURL: `${origin}/v1` } },
    models: Object.fromEntries(
      all.map((name) => [name, { ...model, targets: [{ provider: 'bench', model: name }] }]),
    ),
    ...(maxBodyBytes && { maxBodyBytes }),
    ...more,
  });
  await made.ready();
  ({ key } = await made.keys.create({ account: 'bench', name: 'bench' }));
  await made.credits.grant('bench', '1000000', { id: 'bench' });
  for (let n = 0; n < keys; n++) await made.keys.create({ account: `account${n}`, name: 'other' });
  return made;
}

const listener = await KINDS[kind]?.();
if (!listener) throw new Error(`No proxy is called ${kind}`);
const server = http.createServer(listener);
server.listen(0, '127.0.0.1', 8192, () => answerParent(server, { key: () => key }));
