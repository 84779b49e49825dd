/**
 * A gateway of the soak as a process of its own: `node soak-gateway.ts OPTIONS`, in JSON.
 *
 * It serves the public router on `/v1`, and its operators' functions on `/control`. What its hooks are told it writes to
 * stdout, a JSON line each. It ends gracefully by SIGTERM, and with whoever started it.
 */
import { setClockOffset } from './shifted-clock.ts';

import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import type { ChatCompletionsRouterOptions } from '../../src/index.ts';
import { createRouterWithTimers } from '../../src/router/router.ts';
import { MODEL } from '../soak/plan.ts';
import { PRICING } from '../soak/prices.ts';
import { REQUEST_ID_HEADER } from '../soak/provider.ts';

export interface SoakGatewayOptions {
  readonly store: string;
  readonly provider: string;
  readonly outboxDir?: string;
  /** As long as always if undefined. */
  readonly pace?: { readonly leaseMs: number; readonly renewMs: number };
}

/** What an operator may ask of a gateway. */
export type Control =
  | { readonly do: 'grant'; readonly account: string; readonly amount: string; readonly id: string }
  | { readonly do: 'adjust'; readonly account: string; readonly delta: string; readonly id: string }
  | { readonly do: 'create key'; readonly key: Parameters<typeof router.keys.create>[0] }
  | { readonly do: 'rename key'; readonly account: string; readonly id: string; readonly name: string }
  | { readonly do: 'ready' }
  | { readonly do: 'set clock'; readonly offsetMs: number }
  | { readonly do: 'measure' };

export interface Measures {
  readonly waitingCharges: number;
  readonly residentBytes: number;
}

const { store, provider, outboxDir, pace = {} } = JSON.parse(process.argv[2] ?? '{}') as SoakGatewayOptions;
const say = (line: object): void => void writeSync(1, `${JSON.stringify(line)}\n`);
let waitingCharges = (): number => 0;

const options: ChatCompletionsRouterOptions = {
  store,
  providers: { soak: { baseURL: provider, apiKey: 'sk-provider-secret' } },
  models: {
    [MODEL]: {
      targets: ['soak/upstream-model'],
      pricing: PRICING,
      contextWindow: 8192,
      maxOutputTokens: 1000,
    },
  },
  ...(outboxDir !== undefined && { outboxDir }),
  timeouts: { firstByteMs: 8000, idleMs: 8000 },
  closeTimeoutMs: 8000,
  health: false,
  hooks: {
    onRequest: ({ requestId, clientRequestId }) => say({ say: 'request', requestId, clientRequestId }),
    upstreamHeaders: ({ requestId }) => ({ [REQUEST_ID_HEADER]: requestId }),
    onSettled: ({ requestId, charged, writtenOff, voided, ending, usageSource }) =>
      say({ say: 'settled', requestId, charged, writtenOff, voided, ending, usageSource }),
    onError: ({ message }, { requestId }) => say({ say: 'error', message, requestId }),
    onLedgerEvent: (event) => say({ say: 'event', event }),
    onRouter: (gauges) => {
      waitingCharges = () => gauges.waitingCharges();
    },
  },
};
const router = createRouterWithTimers(options, pace);

async function control(command: Control): Promise<unknown> {
  switch (command.do) {
    case 'grant':
      return router.credits.grant(command.account, command.amount, { id: command.id });
    case 'adjust':
      return router.credits.adjust(command.account, command.delta, { id: command.id, reason: 'soak' });
    case 'create key':
      return router.keys.create(command.key);
    case 'rename key':
      return router.keys.update(command.account, command.id, { name: command.name });
    case 'ready':
      return router.ready();
    case 'set clock':
      return setClockOffset(command.offsetMs);
    default:
      return {
        waitingCharges: waitingCharges(),
        residentBytes: process.memoryUsage.rss(),
      } satisfies Measures;
  }
}

async function answerControl(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const result = await control(JSON.parse(await text(request)) as Control);
    response.end(JSON.stringify({ result }));
  } catch (error) {
    const { message, code = 'failed' } = error as Error & { readonly code?: string };
    response.writeHead(503).end(JSON.stringify({ message, code }));
  }
}

const server = createServer((request, response) => {
  if (request.url === '/control') void answerControl(request, response);
  else void router(request, response);
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
say({ say: 'listening', port: (server.address() as AddressInfo).port });

process.once('SIGTERM', () => {
  server.close();
  void router.close().then(() => process.exit(0));
});
process.stdin.resume().once('end', () => process.exit(1));
