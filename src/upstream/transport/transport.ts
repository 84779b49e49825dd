import type { IncomingHttpHeaders } from 'node:http';

import type { Connection } from '../../catalog/connection.ts';
import { UpstreamError } from '../../errors/upstream-errors.ts';
import type { AnswerBody } from '../../http/answer-body.ts';
import type { BodyChunks } from '../../http/body-chunks.ts';

/** The complete request to a provider. */
export interface UpstreamRequest {
  readonly connection: Connection;
  /** Path and query. */
  readonly path: string;
  /** All headers, including `host` and `content-length`; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: BodyChunks;
  /** The provider's key, which is also in the headers: the answer must not show it. */
  readonly apiKey: string | undefined;
  /** Its answer may take long: the request's body must not be kept meanwhile. */
  readonly isStream: boolean;
}

/** The head of a provider's answer, and the body that follows it. */
export interface AnswerHead {
  readonly statusCode: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: AnswerBody;
}

/** Learns what becomes of a request. Exactly one of `onHead` and `onFailed` is called, once, after `send` has returned. */
export interface SendListener {
  /** The request is written to a connected socket, reused or new: the provider may bill it. */
  onConnected(): void;
  onHead(head: AnswerHead): void;
  /** There is no answer: the connection's error, or the reason passed to `abort`. */
  onFailed(error: Error): void;
  /** The answer is over, however it ended. Called once after `onHead`. */
  onOver(): void;
}

/** A request that was sent. */
export interface Sending {
  /** Closes the connection, or the stream of one; the body of an answer that has arrived is destroyed with `reason`. */
  abort(reason: Error): void;
  /** It was sent on a reused connection that broke before any byte came back: the provider may not have read it. */
  readonly diedUnanswered: boolean;
  /** The provider said, by HTTP/2, that it has not processed it. */
  readonly wasRefused: boolean;
  /** The operating system has all of the request's bytes, and no tool has them: they may be freed. False if that isn't known. */
  readonly isWritten: boolean;
}

/** Sends POST requests to providers and keeps the connections. */
export interface Transport {
  send(request: UpstreamRequest, listener: SendListener): Sending;
  /** These are all that later requests will use: keeps connections warm where they ask for it, and closes unused ones of others. */
  keepWarm(connections: readonly Connection[]): void;
  /** Closes connections that no request uses, and that were used before: one has died, the others may have. */
  closeUnused(connection: Connection): void;
  /** Closes all connections. */
  close(): void;
}

/** @throws {TypeError} if it isn't a transport */
export function assertTransport(value: object): asserts value is Transport {
  if (
    ['send', 'keepWarm', 'closeUnused', 'close'].every(
      (name) => typeof Reflect.get(value, name) === 'function',
    )
  )
    return;
  throw new TypeError('transport.create must return a transport');
}

/** Bounds interim answers such as `103 Early Hints`, which a provider could send without end. */
export const MAX_INTERIM_ANSWERS = 32;

export function tooManyInterim(): UpstreamError {
  return new UpstreamError(
    'upstream_invalid_response',
    `The model's provider sent more than ${MAX_INTERIM_ANSWERS} interim answers (1xx).`,
  );
}

export function switchedProtocols(): UpstreamError {
  return new UpstreamError('upstream_invalid_response', "The model's provider answered with status 101.");
}

/** An error with a code as Node's HTTP client has them. */
export function connectionError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
