import { type ClientRequest, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import type { GatewayRun } from './gateway-place.ts';
import type { Departure, Plan } from './plan.ts';

/** A request as its client saw it, sent once. */
export interface Try {
  /** The client's own name for it: the number of the plan, and of the try. */
  readonly id: string;
  readonly plan: Plan;
  /** Undefined where no gateway was there. */
  readonly run: GatewayRun | undefined;
  readonly place: number;
  readonly sentAt: number;
  /** By which the ledger knows it, where its client or its gateway has told. */
  requestId?: string;
  /** 0 where there was none. */
  status: number;
  code?: string;
  headAt?: number;
  endedAt?: number;
  /** Its answer came to its end, as that is for an answer of its kind. */
  isWhole: boolean;
  /** The client closed before. */
  hasLeft: boolean;
}

const PATIENCE_MS = 15_000;

/** Sends a plan's request and reads the answer, as long as its client stays. */
export async function send(
  attempted: Try,
  departure: Departure,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const { plan, run, id } = attempted;
  if (run) {
    const outgoing = request({
      port: run.port,
      host: '127.0.0.1',
      method: 'POST',
      path: '/v1/chat/completions',
      agent: false,
      headers: {
        authorization: `Bearer ${plan.payer.secret}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(plan.body),
        'x-request-id': id,
        ...headers,
      },
    });
    await exchange(outgoing, attempted, departure);
  } else await pause(50);
  attempted.endedAt = Date.now();
}

async function exchange(outgoing: ClientRequest, attempted: Try, departure: Departure): Promise<void> {
  const { body: sent, stream } = attempted.plan;
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const leave = (): void => {
    attempted.hasLeft = true;
    outgoing.destroy();
    end();
  };
  outgoing.on('error', () => end());
  outgoing.on('response', (response) => {
    attempted.headAt = Date.now();
    attempted.status = response.statusCode ?? 0;
    const { 'x-request-id': requestId } = response.headers;
    if (typeof requestId === 'string') attempted.requestId = requestId;
    let reads = 0;
    let body = '';
    response.setEncoding('utf8');
    response.on('data', (piece: string) => {
      body += piece;
      reads += 1;
      if (departure.kind === 'mid-answer' && reads === departure.afterReads) leave();
    });
    response.on('error', () => end());
    response.on('close', () => {
      const endsAsItShould = !stream || attempted.status !== 200 || body.endsWith('[DONE]\n\n');
      attempted.isWhole = response.complete && !attempted.hasLeft && endsAsItShould;
      if (attempted.status !== 200) attempted.code = codeOf(body);
      end();
    });
  });
  if (departure.kind === 'before the body') outgoing.write(sent.slice(0, sent.length / 2));
  else outgoing.end(sent);
  const patience = setTimeout(leave, PATIENCE_MS);
  const leaving = 'afterMs' in departure ? setTimeout(leave, departure.afterMs) : undefined;
  await over;
  clearTimeout(patience);
  clearTimeout(leaving);
}

function codeOf(body: string): string {
  try {
    return String((JSON.parse(body) as { readonly error: { readonly code: unknown } }).error.code);
  } catch {
    return 'unreadable';
  }
}
