import { Readable } from 'node:stream';

import { Timeout } from '../async/timeout.ts';
import { type Client, ClientGone } from '../http/exchange.ts';
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
  const chunks: Buffer[] = [];
  let size = 0;

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

    function text(): string {
      return Buffer.concat(chunks, Math.min(size, MOST_BYTES)).toString();
    }

    function onData(chunk: Buffer): void {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= MOST_BYTES) onEnough();
    }

    function onEnough(): void {
      stop();
      body.pause();
      if (size > 0) body.unshift(Buffer.concat(chunks, size));
      resolve({ text: text(), answer });
    }

    function onEnd(): void {
      stop();
      resolve({ text: text(), answer: { ...answer, body: Readable.from(chunks, { objectMode: false }) } });
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
