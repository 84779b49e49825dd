import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2';

import { type BodySource, PushBody } from '../../http/answer-body.ts';
import { UpstreamTimeoutError } from '../../errors/upstream-errors.ts';
import type { Withdraw } from './connection-wait.ts';
import {
  connectionError,
  MAX_INTERIM_ANSWERS,
  type Sending,
  type SendListener,
  tooManyInterim,
  type UpstreamRequest,
} from './transport.ts';

type Head = IncomingHttpHeaders & IncomingHttpStatusHeader;

/** A session, as far as its requests need to know it. */
export interface StreamCarrier {
  readonly session: ClientHttp2Session;
  /** It stood before its next request: the provider may be closing it at this moment. */
  readonly isReused: boolean;
  /** By GOAWAY: the provider doesn't process streams with a higher ID. */
  readonly lastStreamId: number;
  /** Of the connection, so far. */
  readonly bytesRead: number;
  /** A stream is over. */
  released(end: StreamEnd): void;
}

/** How a stream ended. */
export interface StreamEnd {
  /** By us, before its end. */
  readonly isCancelled: boolean;
  /** After a timeout, in which nothing arrived on its connection. */
  readonly isSilent: boolean;
}

/** One request to a provider over HTTP/2, and the source of its answer's body. */
export class Http2Request implements Sending, BodySource {
  readonly #listener: SendListener;
  readonly #withdraw: Withdraw<Http2Request>;
  /** Released once it was sent. */
  #request: UpstreamRequest | undefined;
  #carrier: StreamCarrier | undefined;
  #stream: ClientHttp2Stream | undefined;
  #body: PushBody | undefined;
  #aborted: Error | undefined;
  #error: Error | undefined;
  #isReused = false;
  #readBefore = 0;
  #interim = 0;
  #isFailed = false;
  /** The provider has ended the stream. */
  #isEnded = false;
  #isCancelled = false;
  /** What sends it after all: the provider has no HTTP/2. */
  #other: Sending | undefined;
  #diedUnanswered = false;
  #wasRefused = false;

  constructor(request: UpstreamRequest, listener: SendListener, withdraw: Withdraw<Http2Request>) {
    this.#request = request;
    this.#listener = listener;
    this.#withdraw = withdraw;
  }

  get diedUnanswered(): boolean {
    return this.#other?.diedUnanswered ?? this.#diedUnanswered;
  }

  get wasRefused(): boolean {
    return this.#wasRefused;
  }

  get isWritten(): boolean {
    return this.#other?.isWritten ?? this.#stream?.writableFinished === true;
  }

  abort(reason: Error): void {
    if (this.#other) {
      this.#other.abort(reason);
      return;
    }
    this.#aborted ??= this.#request ? this.#withdraw(this, reason) : reason;
    if (this.#body) this.#body.destroy(reason);
    else {
      this.destroy();
      this.fail(reason);
    }
  }

  /** There is no answer. */
  fail(error: Error): void {
    if (this.#isFailed || this.#body) return;
    this.#isFailed = true;
    this.#request = undefined;
    const reason = this.#aborted ?? error;
    // Not before `send` has returned.
    queueMicrotask(() => {
      this.#listener.onFailed(reason);
    });
  }

  /** Has it sent by another transport. */
  handOver(send: (request: UpstreamRequest, listener: SendListener) => Sending): void {
    if (this.#request) this.#other = send(this.#request, this.#listener);
    this.#request = undefined;
  }

  /** Sends it as a stream of a session.
   *
   * @throws {Error} if it has a header that HTTP/2 can't carry
   */
  start(carrier: StreamCarrier): void {
    const request = this.#request;
    if (!request) return;
    this.#request = undefined;
    const { session } = carrier;
    const stream = session.request(headersOf(request), { endStream: false });
    this.#carrier = carrier;
    this.#isReused = carrier.isReused;
    this.#readBefore = carrier.bytesRead;
    this.#stream = stream;
    this.#watchEnd(stream);
    stream.on('response', this.#onResponse);
    stream.on('headers', this.#onInterim);
    stream.on('error', this.#onError);
    stream.on('close', this.#onClose);
    this.#listener.onConnected();
    for (const chunk of request.body.slice(0, -1)) stream.write(chunk);
    stream.end(request.body.at(-1));
  }

  // The source of the body

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  destroy(): void {
    const stream = this.#stream;
    if (!stream || stream.destroyed) return;
    this.#isCancelled = true;
    stream.close(constants.NGHTTP2_CANCEL);
    stream.destroy();
  }

  readonly #onResponse = (head: Head): void => {
    const stream = this.#stream;
    if (this.#isFailed || !stream) return;
    const { ':status': statusCode = 0, ...headers } = head;
    const body = new PushBody(this);
    this.#body = body;
    stream.on('data', (chunk: Buffer) => {
      body.push(chunk);
    });
    stream.on('end', () => {
      if (!this.#isEnded) return;
      body.end();
      this.#closeUnread(stream);
    });
    this.#listener.onHead({ statusCode, headers, body });
  };

  /** Notes whether the provider ends the stream: Node ends one that was reset with NO_ERROR in the same way, but closes it before. */
  #watchEnd(stream: ClientHttp2Stream): void {
    const push = stream.push.bind(stream);
    stream.push = (chunk: unknown, encoding) => {
      if (chunk === null && !stream.closed) this.#isEnded = true;
      return push(chunk, encoding);
    };
  }

  /** Ends the sending of a request that the provider has answered without reading it, a turn later: it may be sent by then. */
  #closeUnread(stream: ClientHttp2Stream): void {
    if (stream.writableFinished) return;
    setImmediate(() => {
      if (!stream.writableFinished) this.destroy();
    });
  }

  readonly #onInterim = (): void => {
    this.#interim += 1;
    if (this.#interim > MAX_INTERIM_ANSWERS) this.abort(tooManyInterim());
  };

  readonly #onError = (error: Error): void => {
    this.#error = error;
  };

  readonly #onClose = (): void => {
    const stream = this.#stream;
    const carrier = this.#carrier;
    if (!stream || !carrier) return;
    const error = closedBy(stream.rstCode, this.#error);
    const isSilent = carrier.bytesRead === this.#readBefore;
    if (this.#body) {
      this.#body.fail(this.#aborted ?? error);
      this.#listener.onOver();
    } else {
      const { lastStreamId } = carrier;
      const isBeyond = stream.id !== undefined && stream.id > lastStreamId;
      this.#wasRefused = isBeyond || stream.rstCode === constants.NGHTTP2_REFUSED_STREAM;
      this.#diedUnanswered = this.#isReused && isSilent;
      this.fail(error);
    }
    carrier.released({
      isCancelled: this.#isCancelled,
      isSilent: isSilent && this.#aborted instanceof UpstreamTimeoutError,
    });
  };
}

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(constants).flatMap(([name, code]) =>
    /^NGHTTP2_(NO_ERROR|[A-Z_]+_ERROR|CANCEL|REFUSED_STREAM|STREAM_CLOSED|ENHANCE_YOUR_CALM|INADEQUATE_SECURITY|HTTP_1_1_REQUIRED)$/.test(
      name,
    ) && typeof code === 'number'
      ? [[code, name.slice('NGHTTP2_'.length)]]
      : [],
  ),
);

/** Why a stream closed before its end, with a code as Node's HTTP/1.1 client has it. */
function closedBy(code: number | undefined, error: Error | undefined): Error {
  // A connection that broke has the code of its socket.
  if (error && 'code' in error && !String(error.code).startsWith('ERR_')) return error;
  return connectionError('ECONNRESET', `The HTTP/2 stream was closed with ${NAMES.get(code ?? 0) ?? code}`);
}

/** Of a connection, and not of a request. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

function headersOf({ connection, path, headers }: UpstreamRequest): OutgoingHttpHeaders {
  const sent: OutgoingHttpHeaders = {
    ':method': 'POST',
    ':scheme': 'https',
    ':authority': headers['host'] ?? connection.origin.host,
    ':path': path,
  };
  for (const name in headers) if (!HOP_BY_HOP.has(name)) sent[name] = headers[name];
  return sent;
}
