import { Readable } from 'node:stream';

import { Timeout } from '../async/timeout.ts';
import { UpstreamError, UpstreamTimeoutError, withoutBytes } from '../errors/errors.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError } from '../http/exchange.ts';
import { isEventStream } from '../http/answer-head.ts';
import { concatChunks, ChunkCollector } from '../http/body-chunks.ts';
import type { Answer } from '../http/relay.ts';
import { RouterClosedError } from '../http/relay-end.ts';
import { Turns } from '../http/turns.ts';
import { UsageMeter } from '../metering/usage-meter.ts';

/** More of an answer than this is not kept back. */
const MAX_BYTES = 65_536;

export interface FirstEventTerms {
  /** How long the client is kept waiting for it, in ms; then the answer is as good as any. */
  readonly waitMs: number;
  /** How long the provider has for it, in ms; what it says later is too late. */
  readonly firstByteMs: number;
  /** For providers that bill an answer whoever reads it. */
  readonly detached: DetachedRead | undefined;
}

/**
 * Waits for the first event of a stream, or for a short JSON body, and puts it back.
 *
 * Until then nothing of the answer has reached the client, so that an error in
 * its place is like an answer that never came.
 *
 * @throws {UpstreamError} when the answer is an error, or broke
 * @throws {UpstreamTimeoutError} when the provider's time ran out
 */
export function afterFirstEvent(
  answer: Answer,
  client: ClientConnection,
  { waitMs, firstByteMs, detached: drain }: FirstEventTerms,
): Promise<Answer> {
  const { body, idleClock } = answer;
  const meter = new UsageMeter();
  const chunks = new ChunkCollector();
  let hasEvent = false;
  meter.onEvent = () => {
    hasEvent = true;
  };

  return new Promise((resolve, reject) => {
    const turns = new Turns(body, {
      look: (part) => {
        meter.write(part);
      },
      pass: judge,
      mayGoOn: () => true,
    });
    let isEnded = false;
    const tooLate = firstByteMs < waitMs;
    const timeout = new Timeout(Math.min(waitMs, firstByteMs), () => {
      if (tooLate) fail(new UpstreamTimeoutError('first_byte', firstByteMs));
      else pass();
    });

    function stop(): void {
      timeout.clear();
      turns.stop();
      body.off('data', onData);
      body.off('end', onEnd);
      body.off('error', onBroken);
      body.off('close', onBroken);
      client.onGone(undefined);
    }

    function pass(): void {
      if (isEnded) {
        passWhole();
        return;
      }
      stop();
      body.pause();
      if (chunks.length > 0) body.unshift(concatChunks(chunks.take()));
      resolve(answer);
    }

    function passWhole(): void {
      stop();
      resolve({ ...answer, body: Readable.from(chunks.take(), { objectMode: false }) });
    }

    function fail(error: Error): void {
      stop();
      // It may still say why it breaks, and nobody listens any more.
      body.on('error', () => {});
      body.destroy();
      reject(error);
    }

    function onData(chunk: Buffer): void {
      idleClock.touch();
      chunks.add(chunk);
      turns.take(chunk);
    }

    /** Once all that came was looked at: an error may stand behind an event. */
    function judge(): void {
      if (turns.isBehind || isEnded) return;
      if (meter.failed) fail(errorInside());
      else if (hasEvent || chunks.length > MAX_BYTES) pass();
    }

    function onEnd(): void {
      isEnded = true;
      turns.end(judgeWhole);
    }

    function judgeWhole(): void {
      meter.end();
      if (meter.failed) {
        fail(errorInside());
        return;
      }
      if (meter.unfinishedJson || (!hasEvent && !meter.finished && isEventStream(answer.headers))) {
        fail(brokenBefore(undefined));
        return;
      }
      passWhole();
    }

    function onBroken(error?: Error): void {
      // What ended well is closed as well.
      if (isEnded && error === undefined) return;
      fail(isReason(error) ? error : brokenBefore(error));
    }

    body.on('data', onData);
    body.on('end', onEnd);
    body.on('error', onBroken);
    body.on('close', onBroken);
    client.onGone(() => {
      const abort = (reason: Error): void => {
        fail(reason);
      };
      if (!drain?.begin(abort)) abort(new ClientDisconnectedError());
    });
    if (body.destroyed) onBroken(body.errored ?? undefined);
  });
}

/** Whether the body was ended by us, and why. */
function isReason(error: Error | undefined): error is Error {
  return (
    error instanceof UpstreamTimeoutError ||
    error instanceof ClientDisconnectedError ||
    error instanceof RouterClosedError
  );
}

function brokenBefore(cause: Error | undefined): UpstreamError {
  const error = new UpstreamError(
    'upstream_unreachable',
    "The model's provider closed the connection before its answer had begun.",
  );
  return cause ? Object.assign(error, { cause: withoutBytes(cause) }) : error;
}

function errorInside(): UpstreamError {
  return new UpstreamError(
    'upstream_invalid_response',
    "The model's provider answered with an error in place of a completion.",
  );
}
