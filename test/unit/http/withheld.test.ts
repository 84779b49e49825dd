import { EventEmitter } from 'node:events';

import { describe, expect, it } from 'vitest';

import { CreditsExhaustedError } from '../../../src/errors/credit-errors.ts';
import { PushBody } from '../../../src/http/answer-body.ts';
import { ClientConnection, type ClientResponse, type Exchange } from '../../../src/http/exchange.ts';
import { relay } from '../../../src/http/relay.ts';
import type { RelayEnd } from '../../../src/http/relay-end.ts';
import { UsageEventFilter } from '../../../src/metering/usage-event-filter.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';

class Response extends EventEmitter implements ClientResponse {
  headersSent = false;
  readonly statusCode = 200;
  writableEnded = false;
  destroyed = false;
  sent = '';

  writeHead(): void {
    this.headersSent = true;
  }

  flushHeaders(): void {}

  write(chunk: Uint8Array): boolean {
    this.sent += Buffer.from(chunk).toString();
    return true;
  }

  end(chunk: Uint8Array = Buffer.alloc(0)): void {
    this.write(chunk);
    this.writableEnded = true;
  }

  destroy(): void {
    this.destroyed = true;
  }
}

const SOURCE = { pause: () => {}, resume: () => {}, destroy: () => {} };
const SHORT = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n';
/** Too long to be held back whole. */
const LONG = SHORT.replace('Hi', 'a'.repeat(70_000));

/** Relays two pieces to a client whose hold covers the first. */
async function withheld(first: string, second: string): Promise<{ response: Response; end: RelayEnd }> {
  const response = new Response();
  const body = new PushBody(SOURCE);
  const meter = new UsageMeter({});
  let isCovered = true;
  const exchange = { id: 'r', headers: {}, response } as unknown as Exchange;
  const end = relay(
    exchange,
    new ClientConnection(response),
    {
      status: 200,
      headers: { 'content-type': 'text/event-stream' },
      received: {},
      body,
      idleTimeout: { touch: () => {}, pause: () => {} },
    },
    {
      meter,
      filter: new UsageEventFilter(meter, false),
      editor: undefined,
      gate: {
        canSend: () => isCovered,
        waitUntilAllowed: () => Promise.resolve(new CreditsExhaustedError()),
      },
      detached: undefined,
      requiresTermination: false,
      heartbeatMs: undefined,
    },
  );
  body.push(Buffer.from(first));
  await expect.poll(() => response.sent.length).toBe(first.length);
  isCovered = false;
  body.push(Buffer.from(second));
  return { response, end: await end };
}

describe('a stream whose hold is used up', () => {
  it('ends with an error event between two events', async () => {
    const { response, end } = await withheld(SHORT, SHORT);
    expect(end).toMatchObject({ ending: 'credits_exhausted', withheld: true });
    expect(response.sent.startsWith(`${SHORT}data: {"error":`)).toBe(true);
    expect([response.writableEnded, response.destroyed]).toEqual([true, false]);
  });

  it('is reset where its client has the beginning of an event', async () => {
    const beginning = LONG.slice(0, -3);
    const { response, end } = await withheld(beginning, LONG.slice(-3));
    expect(end).toMatchObject({ ending: 'credits_exhausted', withheld: true });
    expect(response.sent).toBe(beginning);
    expect([response.writableEnded, response.destroyed]).toEqual([false, true]);
  });
});
