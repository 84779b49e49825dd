/**
 * A router as a process of its own, to be attacked: `node victim-process.ts OPTIONS`, in JSON, started by `victim.ts`.
 *
 * It says what it takes of memory and of the event loop. A bare proxy in its place shows what Node takes alone.
 */
import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import {
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
  type WebHandler,
} from '../../src/index.ts';
import { createWebServer } from '../helpers/web-server.ts';

export interface VictimOptions {
  readonly kind: 'node' | 'web' | 'bare' | 'bare-web';
  /** Base URL of its provider. */
  readonly provider: string;
  /** Of account `acct`, in USD. */
  readonly credits?: string;
  readonly router?: Partial<ChatCompletionsRouterOptions>;
  /** Of a model with two targets, so that an answer is looked at before it goes on. */
  readonly twoTargets?: boolean;
}

/** What it took since it was asked the last time. */
export interface Taken {
  /** Processor time of the longest turn of its event loop, in ms, with V8's own threads. */
  readonly longestTurnMs: number;
  readonly cpuMs: number;
  /** The most that it ever had, in bytes. */
  readonly mostBytes: number;
  /** Errors that its host was told of. */
  readonly errors: readonly string[];
}

const options = JSON.parse(process.argv[2] ?? '{}') as VictimOptions;
let errors: string[] = [];

async function start(): Promise<{ server: http.Server; keys: string[] }> {
  const { kind, provider, credits = '100.00', router: given, twoTargets } = options;
  if (kind === 'bare') return { server: http.createServer(bareProxy(provider)), keys: ['none', 'none'] };
  if (kind === 'bare-web') return { server: createWebServer(bareHandler(provider)), keys: ['none', 'none'] };
  const router = createChatCompletionsRouter({
    store: 'memory:',
    providers: {
      one: { baseURL: provider, onDisconnect: 'abort' },
      two: { baseURL: provider, onDisconnect: 'abort' },
    },
    models: {
      'acme/fast': {
        targets: twoTargets ? ['one/upstream-model', 'two/upstream-model'] : ['one/upstream-model'],
        pricing: { input: '0.01', output: '0.01' },
        contextWindow: 100_000_000,
        maxOutputTokens: 1000,
      },
    },
    health: false,
    ...given,
    hooks: { onError: (error) => errors.push(error.message) },
  });
  const keys: string[] = [];
  for (let i = 0; i < 5; i++) {
    const account = i === 0 ? 'acct' : `other${i}`;
    keys.push((await router.keys.create({ account, name: 'test' })).key);
    if (credits !== '0.00') await router.credits.grant(account, credits, { id: 'welcome' });
  }
  return { server: kind === 'web' ? createWebServer(router.fetch) : http.createServer(router), keys };
}

/** What `http.request` and two pipes do. */
function bareProxy(provider: string): http.RequestListener {
  const agent = new http.Agent({ keepAlive: true });
  return (request, response) => {
    const outgoing = http.request(
      `${provider}/chat/completions`,
      { method: 'POST', agent, headers: { 'content-type': 'application/json' } },
      (incoming) => {
        response.writeHead(incoming.statusCode ?? 502, incoming.headers);
        incoming.pipe(response);
      },
    );
    outgoing.on('error', () => response.destroy());
    request.pipe(outgoing);
  };
}

/** What `fetch` does with a `Request` and its `Response`. */
function bareHandler(provider: string): WebHandler {
  return async (request) => {
    const body = { body: request.body, duplex: 'half' } as RequestInit;
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${provider}/chat/completions`, { method: 'POST', headers, ...body });
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  };
}

let longestTurnMs = 0;
let turnBegan = process.cpuUsage();
let cpuBegan = process.cpuUsage();
let watching = false;

/** Measures each turn of the event loop, for as long as it is asked to: it leaves no time in which nothing is done. */
function watchTurn(): void {
  const { user, system } = process.cpuUsage(turnBegan);
  longestTurnMs = Math.max(longestTurnMs, (user + system) / 1000);
  turnBegan = process.cpuUsage();
  if (watching) setImmediate(watchTurn);
}

process.on('message', (message) => {
  if (message === 'watch') {
    watching = true;
    turnBegan = process.cpuUsage();
    longestTurnMs = 0;
    setImmediate(watchTurn);
  }
  if (message !== 'watch') watching = false;
  const { user, system } = process.cpuUsage(cpuBegan);
  const taken: Taken = {
    longestTurnMs,
    cpuMs: (user + system) / 1000,
    mostBytes: process.resourceUsage().maxRSS * 1024,
    errors,
  };
  cpuBegan = process.cpuUsage();
  errors = [];
  process.send?.(taken);
});
process.on('disconnect', () => process.exit());

const { server, keys } = await start();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.send?.({ port: (server.address() as AddressInfo).port, keys });
