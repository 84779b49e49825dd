import type { Readable } from 'node:stream';

import { UpstreamError, UpstreamTimeoutError } from '../errors.ts';
import type { UsageEventFilter } from '../metering/usage-event-filter.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Client, Exchange } from './exchange.ts';

/** A provider's answer on its way to the client. */
export interface Answer {
  readonly status: number;
  /** The headers that may reach the client. */
  readonly headers: Readonly<Record<string, string>>;
  /** The answer's bytes, plain. Destroying it closes the connection to the provider. */
  readonly body: Readable;
  /** Tells the idle clock that bytes came, or that none are awaited while the client doesn't read. */
  readonly idleClock: { touch(): void; pause(): void };
}

/** How the relay of an answer ended. */
export interface RelayEnd {
  readonly ending: 'finished' | 'client_gone' | 'upstream_cut' | 'timeout' | 'closed';
  /** Why, where it did not finish. */
  readonly error?: Error;
}

/** The router is closing and waits no longer. */
export class Closed extends Error {
  override readonly name = 'Closed';

  constructor() {
    super('The router was closed');
  }
}

/** How long the rest of a finished stream may take once its reader has left: its usage, its end. */
const LINGER_MS = 1000;

/**
 * Carries an answer's bytes to the client as they come, with back-pressure, and shows each chunk to the meter.
 *
 * Resolves when the answer is over, whoever ended it; never rejects. An answer
 * that was cut never looks finished: between two events of a stream the client
 * gets an error event and a close without `[DONE]`, anywhere else its
 * connection is reset.
 *
 * @param filter - for streams to which we added `include_usage`: takes that one event out again
 */
export function relay(
  exchange: Exchange,
  client: Client,
  answer: Answer,
  meter: UsageMeter,
  filter: UsageEventFilter | undefined,
): Promise<RelayEnd> {
  const { response } = exchange;
  const { body, idleClock } = answer;

  return new Promise((resolve) => {
    const head = headFor(answer, exchange.id, filter !== undefined);
    let over = false;
    /** The client left with the whole answer; what is still awaited is the usage. */
    let lingering = false;

    response.writeHead(answer.status, head);
    // The head and a first chunk that is already here leave together; a head alone doesn't wait for one.
    const flushing = setImmediate(() => {
      response.flushHeaders();
    });

    function finish(end: RelayEnd): void {
      if (over) return;
      over = true;
      clearImmediate(flushing);
      response.off('drain', onDrain);
      client.onGone(undefined);
      meter.end();
      resolve(end);
    }

    function send(chunk: Buffer): void {
      if (response.write(chunk)) return;
      idleClock.pause();
      body.pause();
    }

    function onData(chunk: Buffer): void {
      if (over) return;
      idleClock.touch();
      if (lingering) {
        meter.write(chunk);
        return;
      }
      if (filter) {
        const passed = filter.write(chunk);
        if (Buffer.isBuffer(passed)) send(passed);
        else for (const piece of passed) send(piece);
      } else {
        meter.write(chunk);
        send(chunk);
      }
    }

    function onDrain(): void {
      idleClock.touch();
      body.resume();
    }

    function onEnd(): void {
      if (over) return;
      if (lingering) {
        finish({ ending: 'finished' });
        return;
      }
      if (filter) for (const piece of filter.end()) response.write(piece);
      response.end();
      finish({ ending: 'finished' });
    }

    function onBroken(error?: Error): void {
      if (over) return;
      if (lingering) {
        finish({ ending: 'client_gone' });
        return;
      }
      const end = brokenEnd(error);
      if (meter.format === undefined ? isEventStream(head) : meter.betweenEvents) {
        response.end(Buffer.from(`data: ${JSON.stringify(end.shown)}\n\n`));
      } else {
        response.destroy();
      }
      finish({ ending: end.ending, error: end.error });
    }

    function onClientGone(): void {
      // openai-node hangs up as soon as it has read [DONE]: that is a finished stream, not an abandoned one.
      if (meter.done) finish({ ending: 'finished' });
      else if (!meter.finished) finish({ ending: 'client_gone' });
      if (!meter.finished) {
        body.destroy();
        return;
      }
      // Whoever leaves with the last word pays for it like others: its usage is about to come.
      lingering = true;
      const linger = setTimeout(() => body.destroy(), LINGER_MS);
      body.once('close', () => {
        clearTimeout(linger);
      });
      body.resume();
    }

    response.on('drain', onDrain);
    body.on('data', onData);
    body.on('end', onEnd);
    body.on('error', onBroken);
    body.on('close', onBroken);
    client.onGone(onClientGone);
    // It may have broken in the very packet that its head came in, before anybody listened.
    if (body.destroyed) onBroken(body.errored ?? undefined);
  });
}

/** The answer's headers, ours over them; an event stream must not be cached, buffered or compressed on its way. */
function headFor(answer: Answer, requestId: string, filtered: boolean): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { ...answer.headers, 'x-request-id': requestId };
  const stream = isEventStream(headers);
  if (stream) {
    headers['cache-control'] = 'no-cache, no-transform';
    headers['x-accel-buffering'] = 'no';
  }
  if (stream || filtered) delete headers['content-length'];
  return headers;
}

function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  return /^text\/event-stream\b/i.test(headers['content-type'] ?? '');
}

function brokenEnd(error: Error | undefined): {
  readonly ending: RelayEnd['ending'];
  readonly error: Error;
  readonly shown: Error;
} {
  if (error instanceof UpstreamTimeoutError) return { ending: 'timeout', error, shown: error };
  const shown = new UpstreamError(
    'upstream_cut',
    error instanceof Closed
      ? 'This server was shut down before the answer was complete.'
      : 'The provider closed the connection before its answer was complete.',
  );
  return { ending: error instanceof Closed ? 'closed' : 'upstream_cut', error: error ?? shown, shown };
}
