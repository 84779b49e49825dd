import { Timeout } from '../async/timeout.ts';
import { bodyOfChunks } from '../http/answer-body.ts';
import { type ClientConnection, ClientDisconnectedError } from '../http/exchange.ts';
import { concatChunks, ChunkCollector } from '../http/body-chunks.ts';
import type { ProviderAnswer } from '../http/relay.ts';

/** The first 4 KiB of an answer's body, and the answer with all its bytes. */
export interface Peeked {
  readonly text: string;
  readonly answer: ProviderAnswer;
}

/** Errors are short: neither more bytes are read, nor is the answer held back for longer. */
const MAX_BYTES = 4096;
const WAIT_MS = 2000;

/**
 * Reads an error's body, or the beginning of it, and puts it back.
 *
 * @throws {ClientDisconnectedError} if the client leaves meanwhile
 */
export function peek(answer: ProviderAnswer, client: ClientConnection): Promise<Peeked> {
  const { body } = answer;
  const chunks = new ChunkCollector();

  return new Promise((resolve, reject) => {
    const timeout = new Timeout(WAIT_MS, onEnough);

    function stop(): void {
      timeout.clear();
      client.onDisconnect(undefined);
    }

    function onData(chunk: Buffer): void {
      chunks.add(chunk);
      if (chunks.length >= MAX_BYTES) onEnough();
    }

    function onEnough(): void {
      stop();
      const begun = concatChunks(chunks.take());
      body.unread(begun);
      resolve({ text: decodeHead(begun), answer });
    }

    function onEnd(): void {
      stop();
      const whole = concatChunks(chunks.take());
      resolve({
        text: decodeHead(whole),
        answer: { ...answer, body: bodyOfChunks([whole]) },
      });
    }

    /** The relay finds the body destroyed. */
    function onBroken(): void {
      stop();
      resolve({ text: '', answer });
    }

    function onDisconnect(): void {
      stop();
      body.unread();
      body.destroy();
      reject(new ClientDisconnectedError());
    }

    client.onDisconnect({ onDisconnect });
    if (!client.isDisconnected) body.read({ onData, onEnd, onBroken });
  });
}

function decodeHead(bytes: Buffer): string {
  return bytes.toString('utf8', 0, MAX_BYTES);
}
