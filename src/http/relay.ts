import type { IncomingHttpHeaders } from 'node:http';

import { Timeout } from '../async/timeout.ts';
import type { RouterError } from '../errors/router-error.ts';
import { asError } from '../platform/as-error.ts';
import type { UsageEventFilter } from '../metering/usage-event-filter.ts';
import type { UsageMeter } from '../metering/usage-meter.ts';
import type { AnswerBody, BodyReader } from './answer-body.ts';
import type { AnswerEditor } from './answer-editor.ts';
import type { DetachedRead } from './detached-reads.ts';
import type { ClientConnection, ClientResponse, DisconnectListener, Exchange } from './exchange.ts';
import { appendChunks, concatChunks } from './body-chunks.ts';
import { leaveTogether } from './leave-together.ts';
import { interruptedEnd, type RelayEnd, withheldEnd } from './relay-end.ts';
import { SecretRedactor } from './secret-redactor.ts';
import { Stalls } from './stalls.ts';
import { StreamHeartbeat } from './stream-heartbeat.ts';
import { MAX_PART_BYTES, type TurnReader, Turns } from './turns.ts';
import { writeChunk } from './write-chunk.ts';

/** A provider's answer on its way to the client. */
export interface ProviderAnswer {
  readonly status: number;
  /** Headers that may be sent to the client. */
  readonly headers: Readonly<Record<string, string>>;
  /** All headers that the provider sent, for the router only. */
  readonly received: IncomingHttpHeaders;
  /** The answer's bytes, decompressed. Destroying it closes the connection to the provider. */
  readonly body: AnswerBody;
  /** Restarts the idle timeout when bytes arrive, or pauses it while the client doesn't read. */
  readonly idleTimeout: { touch(): void; pause(): void };
  /** The provider's key, if the body may still show it: asterisks replace it in an error. */
  readonly secret?: string | undefined;
}

/** Stops delivery at the amount that the hold covers. */
export interface DeliveryGate {
  /** Whether everything that the meter has seen may be sent to the client. Called after each chunk. */
  canSend(): boolean;
  /** Resolves once sending is allowed, or with the error for the client if it never will be. */
  waitUntilAllowed(): Promise<RouterError | undefined>;
}

/** The components that process an answer while it is relayed. */
export interface RelayOptions {
  /** Sees every byte. */
  readonly meter: UsageMeter;
  /** For streams to which the router added `include_usage`: removes the usage event again. */
  readonly filter: UsageEventFilter | undefined;
  /** Edits the bytes after the filter. */
  readonly editor: AnswerEditor | undefined;
  readonly gate: DeliveryGate | undefined;
  /** For answers that are billed in full even if the client disconnects. */
  readonly detached: DetachedRead | undefined;
  /** A stream that ends with neither a `finish_reason` nor `[DONE]` was cut. */
  readonly requiresTermination: boolean;
  /** Longest silence of an event stream before a heartbeat comment, in ms; undefined: no heartbeats. */
  readonly heartbeatMs: number | undefined;
}

/** How long to wait for the rest of a finished stream (its usage, its end) after the client has disconnected. */
const LINGER_MS = 1000;

/**
 * Relays an answer's bytes to the client as they arrive, with back-pressure, and passes each chunk to the meter.
 *
 * Returns or resolves when the answer is over, for any reason; never rejects. A truncated answer doesn't look finished,
 * even if its connection ended cleanly: between two events of a stream the client gets an error event and a close
 * without `[DONE]`, anywhere else its connection is reset. Only a document that is cut within its `content-length` can't
 * be taken back: `onError` tells of it. An answer that arrived whole with its head is sent in one write.
 */
export function relay(
  exchange: Exchange,
  client: ClientConnection,
  answer: ProviderAnswer,
  options: RelayOptions,
): RelayEnd | Promise<RelayEnd> {
  return new Relay(exchange, client, answer, options).run(answer.headers, exchange);
}

class Relay implements BodyReader, TurnReader, DisconnectListener {
  readonly #response: ClientResponse;
  readonly #client: ClientConnection;
  // Of the answer, whose headers are not needed once they are sent:
  readonly #status: number;
  readonly #body: AnswerBody;
  readonly #idleTimeout: ProviderAnswer['idleTimeout'];
  readonly #secret: string | undefined;
  readonly #isEventStream: boolean;

  readonly #options: RelayOptions;
  #end: RelayEnd | undefined;
  #resolve: ((end: RelayEnd) => void) | undefined;
  #flushing: NodeJS.Immediate | undefined;
  #heartbeat: StreamHeartbeat | undefined;
  #linger: Timeout | undefined;
  #onDrain: (() => void) | undefined;
  #stalls: Stalls | undefined;
  #redactor: SecretRedactor | undefined;
  /** The connection to the client is reset in the next turn of the event loop. */
  #isResetting = false;
  /** When the first byte of the body arrived. */
  #firstByteAt: number | undefined;
  /** The client disconnected, and the rest is only metered: the usage of a finished answer, or everything to its end. */
  #afterDisconnect: 'awaiting-usage' | 'reading-to-end' | undefined;
  /** Of an answer that did not arrive whole. */
  #turns: Turns | undefined;
  /** Bytes that were inspected in this turn and are ready to be sent. */
  #ready: Buffer | readonly Buffer[] | undefined;
  /** The client has the beginning of an event. */
  #sentPart = false;
  /** Bytes that the delivery gate holds back. */
  #withheld: Buffer | readonly Buffer[] | undefined;

  constructor(exchange: Exchange, client: ClientConnection, answer: ProviderAnswer, options: RelayOptions) {
    this.#response = exchange.response;
    this.#client = client;
    this.#status = answer.status;
    this.#body = answer.body;
    this.#idleTimeout = answer.idleTimeout;
    this.#secret = answer.secret;
    this.#isEventStream = isEventStream(answer.headers);
    this.#options = options;
  }

  run(answered: HeaderMap, exchange: Exchange): RelayEnd | Promise<RelayEnd> {
    if (!this.#client.isDisconnected) {
      const head = this.#headFor(answered, exchange);
      this.#response.writeHead(this.#status, head);
      const whole = this.#body.takeWhole(head['content-length'], MAX_PART_BYTES);
      if (whole) this.#forwardWhole(whole);
    }
    if (this.#end && !this.#isResetting) return this.#end;
    return new Promise((resolve) => {
      this.#resolve = resolve;
      if (!this.#end) this.#listen();
    });
  }

  /** The provider's headers, overlaid with the router's. An event stream must not be cached, buffered or compressed in transit. */
  #headFor(answered: HeaderMap, exchange: Exchange): HeaderMap {
    const { id, corsHeaders, rateLimitHeaders, waitHeaders } = exchange;
    const { filter, editor } = this.#options;
    const headers: Record<string, string> = {
      ...answered,
      'x-request-id': id,
      ...corsHeaders,
      ...rateLimitHeaders,
      ...waitHeaders,
    };
    if (this.#isEventStream) {
      headers['cache-control'] = 'no-cache, no-transform';
      headers['x-accel-buffering'] = 'no';
    }
    if (this.#isEventStream || filter || editor) delete headers['content-length'];
    return headers;
  }

  #listen(): void {
    const { heartbeatMs } = this.#options;
    this.#turns = new Turns(this.#body, this);
    // The head is sent with the first chunk if that is already here, else alone.
    this.#flushing = setImmediate(() => {
      this.#flushing = undefined;
      this.#response.flushHeaders();
    });
    if (heartbeatMs !== undefined && this.#isEventStream) {
      this.#heartbeat = new StreamHeartbeat(
        heartbeatMs,
        (comment) => {
          this.#sendAll(comment);
        },
        () => this.#canSendHeartbeat(),
      );
    }
    this.#client.onDisconnect(this);
    if (!this.#end) this.#body.read(this);
  }

  #finish(end: Omit<RelayEnd, 'withheld' | 'firstByteAt' | 'stalled'>): void {
    if (this.#end) return;
    this.#end = {
      ...end,
      withheld: this.#withheld !== undefined,
      firstByteAt: this.#firstByteAt,
      stalled: this.#stalls?.wasStalled(this.#firstByteAt) ?? false,
    };
    clearImmediate(this.#flushing);
    this.#turns?.stop();
    this.#heartbeat?.stop();
    this.#linger?.clear();
    if (this.#onDrain) this.#response.off('drain', this.#onDrain);
    this.#client.onDisconnect(undefined);
    this.#options.meter.end();
    if (!this.#isResetting) this.#resolve?.(this.#end);
  }

  #forwardWhole(bytes: Buffer): void {
    this.#firstByteAt = performance.now();
    this.#options.meter.write(bytes);
    try {
      const shown = this.#redactedWhole(bytes);
      if (!this.#isTruncated()) {
        this.#response.end(shown);
        this.#finish({ ending: 'finished' });
        return;
      }
      this.#response.write(shown);
    } catch (error) {
      this.#fail(asError(error));
    }
    this.#breakOff();
  }

  #send(chunk: Buffer): void {
    this.#heartbeat?.touch();
    if (writeChunk(this.#response, chunk)) return;
    if (!this.#onDrain) {
      this.#onDrain = () => {
        this.#stalls?.end();
        this.#heartbeat?.touch();
        this.#idleTimeout.touch();
        this.#turns?.resume();
      };
      this.#response.on('drain', this.#onDrain);
    }
    (this.#stalls ??= new Stalls()).begin();
    this.#heartbeat?.pause();
    this.#idleTimeout.pause();
    this.#body.pause();
  }

  /** False after `[DONE]`, where clients stop reading, and inside an event, or while one is held back. */
  #canSendHeartbeat(): boolean {
    const { meter } = this.#options;
    return this.#firstByteAt === undefined || (meter.betweenEvents && !meter.done && !this.#withheld);
  }

  #sendAll(chunks: Buffer | readonly Buffer[]): void {
    try {
      if (Buffer.isBuffer(chunks)) this.#send(chunks);
      else for (const chunk of chunks) this.#send(chunk);
    } catch (error) {
      // A framework's wrapper of the response may throw.
      this.#fail(asError(error));
    }
  }

  #fail(error: Error): void {
    this.#finish({ ending: 'failed', error });
    this.#body.destroy();
    this.#response.destroy();
  }

  onData(chunk: Buffer): void {
    if (this.#end) return;
    const isFirst = this.#firstByteAt === undefined;
    this.#firstByteAt ??= performance.now();
    // The first one leaves at once: what began in this turn is relayed in a row.
    if (!isFirst) leaveTogether(this.#response);
    this.#idleTimeout.touch();
    this.#turns?.take(isFirst && this.#heartbeat ? this.#heartbeat.followedBy(chunk) : chunk);
  }

  inspect(part: Buffer): void {
    const { filter, meter, editor } = this.#options;
    let passed: Buffer | readonly Buffer[] = part;
    if (filter) passed = filter.write(part);
    else meter.write(part);
    if (this.#afterDisconnect) return;
    if (editor) passed = editor.write(passed);
    this.#ready = this.#ready ? appendChunks(this.#ready, passed) : passed;
  }

  forward(): void {
    const { gate } = this.#options;
    const ready = this.#ready;
    this.#ready = undefined;
    if (!ready) return;
    const passed = this.#redact(ready);
    if (gate && !gate.canSend()) this.#withhold(passed, gate);
    else this.#sendPassed(passed);
  }

  canContinue(isOver: boolean): boolean {
    if (this.#end) return false;
    return this.#afterDisconnect !== undefined || !(this.#withheld || (this.#stalls?.isStalled && !isOver));
  }

  /** Sends what the filter has passed. */
  #sendPassed(chunks: Buffer | readonly Buffer[]): void {
    this.#sentPart = this.#options.filter?.endsInsideEvent === true;
    this.#sendAll(chunks);
  }

  #withhold(chunks: Buffer | readonly Buffer[], gate: DeliveryGate): void {
    this.#withheld = chunks;
    this.#idleTimeout.pause();
    this.#body.pause();
    void gate.waitUntilAllowed().then((error) => {
      if (this.#end || this.#afterDisconnect) return;
      if (error) {
        this.#terminate(error);
        this.#finish(withheldEnd(error));
        this.#body.destroy();
        return;
      }
      this.#withheld = undefined;
      this.#idleTimeout.touch();
      this.#sendPassed(chunks);
      if (!this.#stalls?.isStalled) this.#turns?.resume();
    });
  }

  onEnd(): void {
    this.#linger?.clear();
    this.#turns?.end(() => {
      this.#complete();
    });
  }

  onBroken(error: Error | undefined): void {
    this.#linger?.clear();
    const broken = (): void => {
      this.#breakOff(error);
    };
    if (this.#withheld) {
      broken();
      return;
    }
    this.#turns?.takeRest(this.#body.takeKept());
    this.#turns?.end(broken);
  }

  #complete(): void {
    if (this.#end) return;
    if (this.#afterDisconnect === 'awaiting-usage') {
      this.#finish({ ending: 'finished' });
      return;
    }
    if (this.#afterDisconnect) {
      this.#finish({ ending: 'client_gone' });
      return;
    }
    this.#sendAll(this.#flush());
    if (this.#isOver) return;
    if (this.#isTruncated()) {
      this.#breakOff();
      return;
    }
    this.#response.end();
    this.#finish({ ending: 'finished' });
  }

  /** Returns the bytes that the filter, the editor and the redactor hold back at the end of the answer. */
  #flush(): readonly Buffer[] {
    const { filter, editor, meter } = this.#options;
    let held = filter?.end() ?? [];
    if (editor) {
      meter.end();
      held = [...editor.write(held), ...editor.end()];
    }
    return [...chunksOf(this.#redact(held)), ...this.#redactedRest()];
  }

  /** Redacts the provider's key in what follows an error, and in the bytes that are sent with it. Good answers aren't searched. */
  #redact(bytes: Buffer | readonly Buffer[]): Buffer | readonly Buffer[] {
    const secret = this.#secret;
    if (secret === undefined || !(this.#redactor || this.#options.meter.mayBeError)) return bytes;
    const redactor = (this.#redactor ??= new SecretRedactor(secret));
    return chunksOf(bytes).flatMap((chunk) => redactor.write(chunk));
  }

  #redactedWhole(bytes: Buffer): Buffer {
    const redacted = this.#redact(bytes);
    return redacted === bytes ? bytes : concatChunks([...chunksOf(redacted), ...this.#redactedRest()]);
  }

  #redactedRest(): readonly Buffer[] {
    return this.#redactor?.end() ?? [];
  }

  /** A getter, because sending may have ended the relay. */
  get #isOver(): boolean {
    return this.#end !== undefined;
  }

  #breakOff(error?: Error): void {
    if (this.#end) return;
    if (this.#afterDisconnect) {
      this.#finish({ ending: 'client_gone' });
      return;
    }
    const end = interruptedEnd(error);
    this.#terminate(end.shown);
    this.#finish({ ending: end.ending, error: end.error });
  }

  /** Whether an answer whose connection ended cleanly is incomplete. */
  #isTruncated(): boolean {
    const { meter, requiresTermination } = this.#options;
    if (this.#status >= 300) return false;
    if (meter.format === 'json') return meter.unfinishedJson;
    if (meter.unfinishedEvent) return true;
    if (!requiresTermination || meter.finished || meter.failed) return false;
    const { ascii, nonAscii } = meter.delivered;
    return this.#isEventStream || ascii + nonAscii > 0;
  }

  /** Ends a truncated answer so that it doesn't look finished. */
  #terminate(shown: Error): void {
    if (this.#betweenEvents()) {
      this.#response.end(Buffer.from(`data: ${JSON.stringify(shown)}\n\n`));
    } else {
      // What was written in this turn leaves first. Until then the relay isn't over: a framework may end the response after it.
      this.#isResetting = true;
      setImmediate(() => {
        this.#response.destroy();
        if (this.#end) this.#resolve?.(this.#end);
      });
    }
  }

  #betweenEvents(): boolean {
    const { meter } = this.#options;
    if (meter.format === undefined) return this.#isEventStream;
    // With a gate there is always a filter, which passes whole events, unless they are long.
    return this.#withheld ? meter.format === 'event-stream' && !this.#sentPart : meter.betweenEvents;
  }

  onDisconnect(): void {
    const body = this.#body;
    const { meter, detached } = this.#options;
    const isUnsent = this.#firstByteAt === undefined;
    // The provider bills what has arrived, though the client was refused, or left, before it was sent.
    if (isUnsent) for (const chunk of body.takeKept()) meter.write(chunk);
    if (meter.finished) {
      // openai-node hangs up as soon as it has read [DONE]: that is a finished stream, not an abandoned one.
      if (meter.done) this.#finish({ ending: isUnsent ? 'client_gone' : 'finished' });
      // A client that disconnects after the last token still pays; wait briefly for its usage chunk.
      this.#continueReading(isUnsent ? 'reading-to-end' : 'awaiting-usage');
      this.#linger = new Timeout(LINGER_MS, () => {
        // Only one of several choices may have finished, and the others may take long.
        if (this.#end || !this.#detach(detached)) body.destroy();
      });
      return;
    }
    if (this.#detach(detached)) return;
    this.#finish({ ending: 'client_gone' });
    body.destroy();
  }

  /** Returns whether the rest is read to its end. */
  #detach(detached: DetachedRead | undefined): boolean {
    const body = this.#body;
    if (!detached?.begin((reason) => body.destroy(reason))) return false;
    this.#continueReading('reading-to-end', detached);
    return true;
  }

  #continueReading(why: 'awaiting-usage' | 'reading-to-end', queue?: DetachedRead): void {
    const body = this.#body;
    const idleTimeout = this.#idleTimeout;
    this.#afterDisconnect = why;
    clearImmediate(this.#flushing);
    // Otherwise it would read before its turn in the queue.
    this.#turns?.stop();
    this.#heartbeat?.stop();
    const read = (): void => {
      idleTimeout.touch();
      this.#turns?.resume();
    };
    if (!queue) {
      read();
      return;
    }
    idleTimeout.pause();
    body.pause();
    queue.whenItsTurn(read);
  }
}

function chunksOf(bytes: Buffer | readonly Buffer[]): readonly Buffer[] {
  return Buffer.isBuffer(bytes) ? [bytes] : bytes;
}

type HeaderMap = Readonly<Record<string, string>>;

/** Judged by the `content-type` header. */
export function isEventStream(headers: HeaderMap): boolean {
  return /^text\/event-stream\b/i.test(headers['content-type'] ?? '');
}
