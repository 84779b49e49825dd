/**
 * A router as one of several processes that share a Redis and a provider's limit: `node fleet-member.ts OPTIONS`, in JSON.
 *
 * It offers itself requests from `offer RATE` on stdin until `stop`, and ends with whoever started it. What it writes is what its
 * clients got: statuses with their codes.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

import { type LedgerStore, MemoryStore, RedisStore, type UpstreamLimits } from '../../src/index.ts';
import { createRouterWithTimers } from '../../src/router/router.ts';

export interface FleetMemberOptions {
  /** Of Redis. */
  readonly store: string;
  /** Credits are in the memory of the process: it shares the view of providers alone. */
  readonly ownCredits?: boolean;
  /** Base URL. */
  readonly provider: string;
  /** Base URL of the next target's provider. */
  readonly spare?: string;
  readonly limits?: UpstreamLimits;
  /** A sixtieth of the minute of the limits. */
  readonly bucketMs: number;
  readonly health?: { readonly failures: number; readonly coolDownMs: number };
}

const options = JSON.parse(process.argv[2] ?? '{}') as FleetMemberOptions;
const { store, ownCredits, provider, spare, limits, bucketMs, health } = options;
const say = (...words: readonly (string | number)[]): void => void writeSync(1, `${words.join(' ')}\n`);

function storeWithFleet(): LedgerStore {
  const { fleet } = new RedisStore({ client: store, timeoutMs: 500 });
  return Object.assign(new MemoryStore(), { fleet });
}

const router = createRouterWithTimers(
  {
    store: ownCredits ? storeWithFleet() : store,
    authenticate: (account) => ({ account }),
    providers: {
      loopback: { baseURL: provider, apiKey: 'sk-1', ...(limits && { limits }) },
      ...(spare !== undefined && { spare: { baseURL: spare, apiKey: 'sk-2' } }),
    },
    models: {
      'acme/fast': {
        targets: ['loopback/upstream-model', ...(spare === undefined ? [] : ['spare/upstream-model'])],
        pricing: { input: '1', output: '3' },
        contextWindow: 8192,
        maxOutputTokens: 100,
      },
    },
    retries: false,
    health: health ?? false,
    hooks: {
      onHealthChange: ({ type }) => say('health', type),
      onError: (error) => say('error', JSON.stringify(error.message)),
    },
  },
  { bucketMs },
);

for (const account of ['acct', 'a', 'b', 'c'])
  await router.credits.grant(account, '100.00', { id: `opening-${account}` });

async function ask(account = 'acct'): Promise<void> {
  const body = JSON.stringify({ model: 'acme/fast', messages: [{ role: 'user', content: 'Hello' }] });
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${account}` };
  const response = await router.fetch(
    new Request('http://localhost/v1/chat/completions', { method: 'POST', headers, body }),
  );
  const { error } = (await response.json()) as { error?: { code: string } };
  say('answer', response.status, error?.code ?? '-');
}

/** Requests at random times, whatever becomes of those before. */
async function offer(perSecond: number, { signal }: AbortController): Promise<void> {
  let due = performance.now();
  while (!signal.aborted) {
    due += (-Math.log(1 - Math.random()) * 1000) / perSecond;
    await pause(Math.max(0, due - performance.now()));
    void ask();
  }
}

const offering = new AbortController();
say('ready');
createInterface(process.stdin)
  .on('line', (line) => {
    const [word, argument] = line.split(' ');
    if (word === 'offer') void offer(Number(argument), offering);
    if (word === 'stop') offering.abort();
    if (word === 'ask') void ask(argument);
  })
  .once('close', () => process.exit(1));
