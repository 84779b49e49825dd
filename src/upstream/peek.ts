import { Readable } from 'node:stream';

import { Timeout } from '../async/timeout.ts';
import { type Client, ClientGone } from '../http/exchange.ts';
import { joined, PieceCollector } from '../http/body-chunks.ts';
import type { Answer } from '../http/relay.ts';

/** What an answer's body begins with, 4 KiB of it at most, and the answer as if nobody had looked. */
export interface Peeked {
  readonly text: string;
  readonly answer: Answer;
}

/** Errors are short; more than this is not looked at, nor kept back for longer. */
const MOST_BYTES = 4096;
const WAIT_MS = 2000;

/**
 * Reads an error's body, or the beginning of it, and puts it back.
 *
 * @throws {ClientGone} if the client leaves meanwhile
 */
export function peek(answer: Answer, client: Client): Promise<Peeked> {
  const { body } = answer;
  const chunks = new PieceCollector();

  return new Promise((resolve, reject) => {
    const timeout = new Timeout(WAIT_MS, onEnough);

    function stop(): void {
      timeout.clear();
      body.off('data', onData);
      body.off('end', onEnd);
      body.off('error', onBroken);
      body.off('close', onBroken);
      client.onGone(undefined);
    }

    function onData(chunk: Buffer): void {
      chunks.add(chunk);
      if (chunks.length >= MOST_BYTES) onEnough();
    }

    function onEnough(): void {
      stop();
      body.pause();
      const begun = joined(chunks.take());
      if (begun.length > 0) body.unshift(begun);
      resolve({ text: textOf(begun), answer });
    }

    function onEnd(): void {
      stop();
      const whole = joined(chunks.take());
      resolve({
        text: textOf(whole),
        answer: { ...answer, body: Readable.from([whole], { objectMode: false }) },
      });
    }

    /** Whoever relays it finds it destroyed. */
    function onBroken(): void {
      stop();
      body.on('error', () => {});
      resolve({ text: '', answer });
    }

    body.on('data', onData);
    body.on('end', onEnd);
    body.on('error', onBroken);
    body.on('close', onBroken);
    client.onGone(() => {
      stop();
      body.on('error', () => {});
      body.destroy();
      reject(new ClientGone());
    });
    // Whoever looked at it before has paused it.
    body.resume();
    if (body.destroyed) onBroken();
  });
}

function textOf(bytes: Buffer): string {
  return bytes.toString('utf8', 0, MOST_BYTES);
}
