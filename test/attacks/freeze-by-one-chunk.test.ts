import { EventEmitter, once } from 'node:events';
import { PassThrough, type Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { bodyOfStream, streamOf } from '../../src/http/answer-body.ts';
import { ClientConnection, type ClientResponse, type Exchange } from '../../src/http/exchange.ts';
import { readChatRequest } from '../../src/http/read-body.ts';
import { type ProviderAnswer, relay, type RelayOptions } from '../../src/http/relay.ts';
import type { RelayEnd } from '../../src/http/relay-end.ts';
import { UsageEventFilter } from '../../src/metering/usage-event-filter.ts';
import { UsageMeter } from '../../src/metering/usage-meter.ts';
import { afterFirstEvent } from '../../src/upstream/first-event.ts';

/** What is looked at of a chunk before the clock is read. */
const PART = 2048;
const EVENT = 'data: {x\n\n';
/** A part ends after a line. */
const PART_OF_EVENTS = PART - (PART % EVENT.length);
const EVENTS = Buffer.from(EVENT.repeat(6553));

/** By this clock all takes so long that each part of a chunk has a turn of its own. */
beforeEach(() => {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 1));
});

afterEach(() => {
  vi.restoreAllMocks();
});

class Response extends EventEmitter implements ClientResponse {
  readonly headersSent = true;
  readonly statusCode = 200;
  writableEnded = false;
  destroyed = false;
  /** Says so to each write. */
  isFree = true;
  got: Buffer = Buffer.alloc(0);

  writeHead(): void {}

  flushHeaders(): void {}

  write(chunk: Uint8Array): boolean {
    this.got = Buffer.concat([this.got, chunk]);
    return this.isFree;
  }

  end(chunk?: Uint8Array): void {
    if (chunk) this.write(chunk);
    this.writableEnded = true;
  }

  destroy(): void {
    this.destroyed = true;
  }
}

interface Running {
  readonly response: Response;
  readonly body: PassThrough;
  readonly end: Promise<RelayEnd>;
}

function startRelay(parts: Partial<RelayOptions> = {}): Running {
  const response = new Response();
  const body = new PassThrough({ highWaterMark: 1_000_000 });
  const answer: ProviderAnswer = answerOf(body);
  const meter = parts.meter ?? new UsageMeter();
  const end = relay(exchangeOf(response), new ClientConnection(response), answer, {
    meter,
    filter: undefined,
    editor: undefined,
    gate: undefined,
    detached: undefined,
    requiresTermination: false,
    heartbeatMs: undefined,
    ...parts,
  });
  return { response, body, end: Promise.resolve(end) };
}

function answerOf(body: Readable): ProviderAnswer {
  const idleTimeout = { touch: (): void => {}, pause: (): void => {} };
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream' },
    received: {},
    body: bodyOfStream(body),
    idleTimeout,
  };
}

function exchangeOf(response: Response, body?: Readable): Exchange {
  return {
    id: 'req_1',
    method: 'POST',
    url: '/v1/chat/completions',
    headers: { 'content-type': 'application/json' },
    body: body ? { kind: 'stream', stream: body } : { kind: 'bytes', bytes: Buffer.alloc(0), exact: true },
    response,
  };
}

/** How long what a response got is, turn by turn, until something is over. */
async function lengths(response: Response, over: Promise<unknown>): Promise<number[]> {
  const seen: number[] = [];
  const note = (): void => {
    seen.push(response.got.length);
    next = setImmediate(note);
  };
  let next = setImmediate(note);
  await over;
  clearImmediate(next);
  return [0, ...seen, response.got.length];
}

describe('a chunk of an answer that is slow to look at', () => {
  it.each([
    ['as it is', (): Partial<RelayOptions> => ({})],
    [
      'through a filter',
      (): Partial<RelayOptions> => {
        const meter = new UsageMeter();
        return { meter, filter: new UsageEventFilter(meter) };
      },
    ],
  ])('goes on in turns, byte for byte: %s', async (_how, parts) => {
    const { response, body, end } = startRelay(parts());
    const seen = lengths(response, end);
    body.end(EVENTS);
    expect(await end).toMatchObject({ ending: 'finished' });
    const all = await seen;
    const steps = all.map((length, i) => length - (all[i - 1] ?? 0));
    // The filter keeps events whole.
    expect(Math.max(...steps)).toBeLessThan(PART + EVENT.length);
    expect(response.got.equals(EVENTS)).toBe(true);
    expect(response.writableEnded).toBe(true);
  });

  it('goes on while its client reads, and waits while it does not', async () => {
    const { response, body, end } = startRelay();
    response.isFree = false;
    body.write(Buffer.concat([EVENTS, EVENTS]));
    for (let drained = 1; drained <= 3; drained++) {
      for (let i = 0; i < 5; i++) await turn();
      expect(response.got).toHaveLength(drained * PART_OF_EVENTS);
      response.emit('drain');
    }
    response.isFree = true;
    body.end();
    expect(await end).toMatchObject({ ending: 'finished' });
    expect(response.got.equals(Buffer.concat([EVENTS, EVENTS]))).toBe(true);
  });

  it('reaches its client whole though the provider breaks off meanwhile', async () => {
    const { response, body, end } = startRelay();
    body.write(EVENTS);
    await turn();
    expect(response.got.length).toBeLessThan(EVENTS.length);
    body.destroy(new Error('reset'));
    expect(await end).toMatchObject({ ending: 'upstream_cut' });
    expect(response.got.subarray(0, EVENTS.length).equals(EVENTS)).toBe(true);
    expect(response.got.subarray(EVENTS.length).toString()).toContain('"code":"upstream_cut"');
  });

  it('ends with its client', async () => {
    const { response, body, end } = startRelay();
    body.write(EVENTS);
    await turn();
    const { length } = response.got;
    expect(length).toBeLessThan(EVENTS.length);
    response.emit('close');
    expect(await end).toMatchObject({ ending: 'client_gone' });
    expect(body.destroyed).toBe(true);
    await turn();
    await turn();
    expect(response.got).toHaveLength(length);
  });

  it('that is held back until it is paid for comes whole, though its body has ended', async () => {
    const meter = new UsageMeter();
    let pay = (): void => {};
    let isPaid = false;
    const paid = new Promise<undefined>((resolve) => {
      pay = () => {
        isPaid = true;
        resolve(undefined);
      };
    });
    const gate = { canSend: () => isPaid || !meter.finished, waitUntilAllowed: () => paid };
    const { response, body, end } = startRelay({ meter, filter: new UsageEventFilter(meter, false), gate });
    const last = Buffer.from('data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    body.end(Buffer.concat([EVENTS, last]));
    if (!body.readableEnded) await once(body, 'end');
    while (response.got.length < EVENTS.length - PART) await turn();
    for (let i = 0; i < 5; i++) await turn();
    expect(response.writableEnded).toBe(false);
    pay();
    expect(await end).toMatchObject({ ending: 'finished', withheld: false });
    expect(response.got.equals(Buffer.concat([EVENTS, last]))).toBe(true);
  });

  it('is looked at in turns before its first event, too', async () => {
    const body = new PassThrough({ highWaterMark: 1_000_000 });
    const response = new Response();
    const terms = { waitMs: 1e6, firstByteMs: 2e6, detached: undefined };
    const passed = afterFirstEvent(answerOf(body), new ClientConnection(response), terms);
    const begun = response.got;
    const turns = lengths(response, passed);
    const bytes = Buffer.concat([Buffer.from(':\n'.repeat(20_000)), Buffer.from('data: {}\n\n')]);
    body.end(bytes);
    const answer = await passed;
    expect((await turns).length).toBeGreaterThan(bytes.length / PART);
    expect(begun).toHaveLength(0);
    expect(Buffer.concat(await streamOf(answer.body).toArray()).equals(bytes)).toBe(true);
  });
});

describe('a chunk of a request that is slow to look at', () => {
  const REQUEST = Buffer.from(
    `{"model":"acme/fast","messages":[{"role":"user","content":"hi"}],"metadata":[${'1,'.repeat(100_000)}1]}`,
  );
  const limits = { maxBodyBytes: 1e6, bodyTimeoutMs: 1e6, clientRouting: new Set<never>() };
  const buffer = { hold: (): void => {} };

  it.each([
    ['that comes', 0],
    ['that came with its head', REQUEST.length],
  ])('is scanned in turns: one %s', async (_how, length) => {
    const body = new PassThrough({ highWaterMark: 1_000_000 });
    const exchange = exchangeOf(new Response(), body);
    if (length > 0) {
      body.end(REQUEST);
      exchange.headers['content-length'] = `${length}`;
    }
    const read = Promise.resolve(readChatRequest(exchange, limits, buffer));
    const turns = lengths(new Response(), read);
    if (length === 0) body.end(REQUEST);
    const { request, body: pieces } = await read;
    expect((await turns).length).toBeGreaterThan(REQUEST.length / PART - 2);
    expect(request.model).toBe('acme/fast');
    expect(Buffer.concat(pieces).equals(REQUEST)).toBe(true);
  });

  it('is refused for what stands in a later turn, and the rest of it read and forgotten', async () => {
    const body = new PassThrough({ highWaterMark: 1000 });
    const read = readChatRequest(exchangeOf(new Response(), body), limits, buffer);
    body.write(Buffer.concat([REQUEST.subarray(0, 10_000), Buffer.from('}')]));
    body.end(Buffer.alloc(50_000));
    await expect(read).rejects.toMatchObject({ code: 'invalid_json' });
    if (!body.readableEnded) await once(body, 'end');
  });
});
