/**
 * A gateway as a process of its own: `node gateway.ts OPTIONS`, in JSON.
 *
 * What it writes to stdout was true before it went on. It ends gracefully by SIGTERM, and with whoever started it.
 */
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

import { StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import type { HoldMode } from '../../src/options/router-options.ts';
import { createRouterWithTimers } from '../../src/router/router.ts';

export interface GatewayOptions {
  /** URL of the store. */
  readonly store: string;
  /** How long commands wait for Redis, where it isn't as long as always. */
  readonly redisTimeouts?: { readonly timeoutMs: number };
  /** Base URL of the provider. */
  readonly provider: string;
  /** What account `acct` is granted, once, in USD. */
  readonly credits: string;
  readonly outboxDir?: string;
  readonly holdMode?: HoldMode;
  readonly leaseMs?: number;
  readonly renewMs?: number;
}

const options = JSON.parse(process.argv[2] ?? '{}') as GatewayOptions;
const say = (...words: readonly (string | number)[]): void => void writeSync(1, `${words.join(' ')}\n`);

const { store, redisTimeouts, provider, credits, outboxDir, holdMode, leaseMs, renewMs } = options;
const router = createRouterWithTimers(
  {
    store: redisTimeouts ? new RedisStore({ client: store, ...redisTimeouts }) : store,
    providers: { loopback: { baseURL: provider, apiKey: 'sk-provider-secret' } },
    models: {
      'acme/fast': {
        targets: ['loopback/upstream-model'],
        pricing: { input: '1', output: '3', cachedInput: '0.1' },
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
    },
    ...(outboxDir !== undefined && { outboxDir }),
    ...(holdMode && { holdMode }),
    // A target that is cut off with its gateway's other troubles is asked again.
    health: false,
    hooks: {
      onSettled: ({ requestId, charged }) => say('settled', requestId, charged),
      onError: (error) => say('error', JSON.stringify(error.message)),
      onLedgerEvent: (event) => say('event', JSON.stringify(event)),
    },
  },
  { ...(leaseMs !== undefined && { leaseMs }), ...(renewMs !== undefined && { renewMs }) },
);

await untilAnswered(() => router.credits.grant('acct', credits, { id: 'opening' }));
const { key } = await untilAnswered(() => router.keys.create({ account: 'acct', name: 'chaos' }));
const server = http.createServer(router).listen(0, '127.0.0.1');
await once(server, 'listening');
say('listening', (server.address() as AddressInfo).port, key);

process.once('SIGTERM', () => {
  void router.close().then(() => {
    say('closed');
    process.exit(0);
  });
});
process.stdin.resume().once('end', () => process.exit(1));

/** A store that has short timeouts may be too slow for them at first. */
async function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      await pause(20);
    }
  }
}
