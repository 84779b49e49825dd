import type { Readable } from 'node:stream';

import { asError, type RouterError, UpstreamError, UpstreamTimeoutError } from '../errors.ts';
import type { UsageEventFilter } from '../metering/usage-event-filter.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { Drain } from './drains.ts';
import type { Client, Exchange } from './exchange.ts';
import { StreamHeartbeat } from './stream-heartbeat.ts';

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
  readonly ending:
    | 'finished'
    | 'client_gone'
    | 'upstream_cut'
    | 'timeout'
    | 'closed'
    | 'credits_exhausted'
    | 'failed';
  /** Why, where the provider or the router is to blame. */
  readonly error?: Error;
  /** The client left before output came, whatever was read since; undefined if it did not leave. */
  readonly leftBeforeOutput?: boolean | undefined;
  /** The meter saw a piece that did not go on. */
  readonly withheld: boolean;
  /** When the first byte of its body came, by `performance.now()`; undefined if none did. */
  readonly firstByteAt: number | undefined;
}

/** What keeps delivery within what is paid for. */
export interface Brake {
  /** Whether all that the meter has seen may go on to the client. Asked after each piece. */
  mayPass(): boolean;
  /** Resolves once it may, or with what the client is told when it never will. */
  untilPassable(): Promise<RouterError | undefined>;
}

/** What acts on an answer while it is relayed. */
export interface RelayParts {
  /** Sees every byte. */
  readonly meter: UsageMeter;
  /** For streams to which we added `include_usage`: takes that one event out again. */
  readonly filter: UsageEventFilter | undefined;
  readonly brake: Brake | undefined;
  /** For providers that bill an answer whoever reads it. */
  readonly drain: Drain | undefined;
  /** A stream that ends with neither a `finish_reason` nor `[DONE]` was cut. */
  readonly mustMarkEnd: boolean;
  /** What ends a stream that broke between two events: an error event, or the end of its connection. */
  readonly onBreak: 'error' | 'reset';
  /** How long an event stream may be silent, in ms; undefined for ever. */
  readonly heartbeatMs: number | undefined;
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
 * that was cut never looks finished, also where its bytes came to a good end:
 * between two events of a stream the client gets an error event and a close
 * without `[DONE]`, anywhere else its connection is reset.
 */
export function relay(
  exchange: Exchange,
  client: Client,
  answer: Answer,
  { meter, filter, brake, drain, mustMarkEnd, onBreak, heartbeatMs }: RelayParts,
): Promise<RelayEnd> {
  const { response } = exchange;
  const { body, idleClock } = answer;

  return new Promise((resolve) => {
    const head = headFor(answer, exchange, filter !== undefined);
    let over = false;
    /** When something of the answer's body first came. */
    let firstByteAt: number | undefined;
    /** The client left, and what is still to come is only metered: the last word's usage, or all the rest. */
    let unread: 'lingering' | 'draining' | undefined;
    let leftBeforeOutput: boolean | undefined;
    /** What the brake has stopped. */
    let withheld: Buffer | readonly Buffer[] | undefined;

    response.writeHead(answer.status, head);
    // The head and a first chunk that is already here leave together; a head alone doesn't wait for one.
    const flushing = setImmediate(() => {
      response.flushHeaders();
    });
    const heartbeat =
      heartbeatMs !== undefined && isEventStream(head)
        ? new StreamHeartbeat(heartbeatMs, sendAll, mayBeat)
        : undefined;

    function finish(end: Omit<RelayEnd, 'withheld' | 'firstByteAt'>): void {
      if (over) return;
      over = true;
      clearImmediate(flushing);
      heartbeat?.stop();
      response.off('drain', onDrain);
      client.onGone(undefined);
      meter.end();
      resolve({ ...end, withheld: withheld !== undefined, firstByteAt });
    }

    function send(chunk: Buffer): void {
      heartbeat?.touch();
      if (response.write(chunk)) return;
      heartbeat?.pause();
      idleClock.pause();
      body.pause();
    }

    /** Not after `[DONE]`, where clients stop reading, nor in an event that goes on, or is held back. */
    function mayBeat(): boolean {
      return firstByteAt === undefined || (meter.betweenEvents && !meter.done && !withheld);
    }

    function sendAll(pieces: Buffer | readonly Buffer[]): void {
      try {
        if (Buffer.isBuffer(pieces)) send(pieces);
        else for (const piece of pieces) send(piece);
      } catch (error) {
        // What a host has put around its response may throw; nobody else would hear of it here.
        fail(asError(error));
      }
    }

    function fail(error: Error): void {
      finish({ ending: 'failed', error });
      body.destroy();
      response.destroy();
    }

    function onData(chunk: Buffer): void {
      if (over) return;
      firstByteAt ??= performance.now();
      idleClock.touch();
      let passed: Buffer | readonly Buffer[] = chunk;
      if (filter) passed = filter.write(chunk);
      else meter.write(chunk);
      if (unread) return;
      if (brake && !brake.mayPass()) withhold(passed, brake);
      else sendAll(passed);
    }

    function withhold(pieces: Buffer | readonly Buffer[], by: Brake): void {
      withheld = pieces;
      idleClock.pause();
      body.pause();
      void by.untilPassable().then((refusal) => {
        if (over || unread) return;
        if (refusal) {
          breakOff(refusal, 'error');
          finish({ ending: 'credits_exhausted' });
          body.destroy();
          return;
        }
        withheld = undefined;
        idleClock.touch();
        body.resume();
        sendAll(pieces);
      });
    }

    function onDrain(): void {
      heartbeat?.touch();
      idleClock.touch();
      body.resume();
    }

    function onEnd(): void {
      if (over) return;
      if (unread) {
        finish(unread === 'lingering' ? { ending: 'finished' } : { ending: 'client_gone', leftBeforeOutput });
        return;
      }
      sendAll(filter?.end() ?? []);
      if (over) return;
      if (wasCut()) {
        onBroken();
        return;
      }
      response.end();
      finish({ ending: 'finished' });
    }

    function onBroken(error?: Error): void {
      if (over) return;
      if (unread) {
        finish({ ending: 'client_gone', leftBeforeOutput });
        return;
      }
      const end = brokenEnd(error);
      breakOff(end.shown, onBreak);
      finish({ ending: end.ending, error: end.error });
    }

    /** Whether something is missing of an answer whose bytes came to a good end. */
    function wasCut(): boolean {
      if (answer.status >= 300) return false;
      if (meter.format === 'json') return meter.unfinishedJson;
      if (!mustMarkEnd || meter.finished || meter.failed) return false;
      const { ascii, nonAscii } = meter.delivered;
      return isEventStream(head) || ascii + nonAscii > 0;
    }

    /** A cut answer must never look finished. */
    function breakOff(shown: Error, how: RelayParts['onBreak']): void {
      if (how === 'error' && betweenEvents()) {
        response.end(Buffer.from(`data: ${JSON.stringify(shown)}\n\n`));
      } else {
        response.destroy();
      }
    }

    function betweenEvents(): boolean {
      if (meter.format === undefined) return isEventStream(head);
      // A filter stands before every brake: what it let go were whole events.
      return withheld ? meter.format === 'event-stream' : meter.betweenEvents;
    }

    function onClientGone(): void {
      if (meter.finished) {
        // openai-node hangs up as soon as it has read [DONE]: that is a finished stream, not an abandoned one.
        if (meter.done) finish({ ending: 'finished' });
        // Whoever leaves with the last word pays for it like others: its usage is about to come.
        readOn('lingering');
        const linger = setTimeout(() => body.destroy(), LINGER_MS);
        body.once('close', () => {
          clearTimeout(linger);
        });
        return;
      }
      const { ascii, nonAscii } = meter.delivered;
      leftBeforeOutput = ascii + nonAscii === 0;
      if (drain?.begin((reason) => body.destroy(reason))) {
        readOn('draining');
      } else {
        finish({ ending: 'client_gone', leftBeforeOutput });
        body.destroy();
      }
    }

    function readOn(why: 'lingering' | 'draining'): void {
      unread = why;
      clearImmediate(flushing);
      heartbeat?.stop();
      idleClock.touch();
      body.resume();
    }

    response.on('drain', onDrain);
    body.on('data', onData);
    body.on('end', onEnd);
    body.on('error', onBroken);
    body.on('close', onBroken);
    client.onGone(onClientGone);
    // Whoever looked at its first event has paused it.
    body.resume();
    // It may have broken in the very packet that its head came in, before anybody listened.
    if (body.destroyed) onBroken(body.errored ?? undefined);
  });
}

/** The answer's headers, ours over them; an event stream must not be cached, buffered or compressed on its way. */
function headFor(answer: Answer, exchange: Exchange, filtered: boolean): Readonly<Record<string, string>> {
  const { id, crossOrigin } = exchange;
  const headers: Record<string, string> = { ...answer.headers, 'x-request-id': id, ...crossOrigin };
  const stream = isEventStream(headers);
  if (stream) {
    headers['cache-control'] = 'no-cache, no-transform';
    headers['x-accel-buffering'] = 'no';
  }
  if (stream || filtered) delete headers['content-length'];
  return headers;
}

/** By what its headers say. */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
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
