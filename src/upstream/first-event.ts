import { Timeout } from '../async/timeout.ts';
import { withoutAnswerBytes } from '../platform/as-error.ts';
import { UpstreamError, UpstreamTimeoutError } from '../errors/upstream-errors.ts';
import { bodyOfChunks, type BodyReader } from '../http/answer-body.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError, type DisconnectListener } from '../http/exchange.ts';
import { isEventStream, type ProviderAnswer } from '../http/relay.ts';
import { concatChunks, ChunkCollector } from '../http/body-chunks.ts';
import { RouterClosedError } from '../http/relay-end.ts';
import { errorInAnswer } from './provider-errors.ts';
import { Turns } from '../http/turns.ts';
import { type EventEndListener, UsageMeter } from '../metering/usage-meter.ts';

/** Most bytes held back while waiting. */
const MAX_BYTES = 65_536;

export interface FirstEventTerms {
  /** How long the client waits for the event, in ms; then the answer is used as it is. */
  readonly waitMs: number;
  /** How long the provider may take, in ms; then the attempt has failed. */
  readonly firstByteMs: number;
  /** Reads the answer on if the client disconnects, for providers that bill it anyway. */
  readonly detached: DetachedRead | undefined;
}

/**
 * Waits for the first event of a stream, or for a short JSON body, and puts it back.
 *
 * Until then nothing of the answer has reached the client, so that an error in
 * its place is like an answer that never came.
 *
 * @throws {UpstreamError} if the answer is an error, or broke off
 * @throws {UpstreamTimeoutError} if the provider's time ran out
 */
export function afterFirstEvent(
  answer: ProviderAnswer,
  client: ClientConnection,
  terms: FirstEventTerms,
): Promise<ProviderAnswer> {
  return new Promise((resolve, reject) => {
    new FirstEventWait(answer, client, terms, resolve, reject).start();
  });
}

/** Ends by one of `#pass`, `#passWhole` and `#fail`, once. */
class FirstEventWait implements BodyReader, DisconnectListener, EventEndListener {
  readonly #answer: ProviderAnswer;
  readonly #client: ClientConnection;
  readonly #terms: FirstEventTerms;
  readonly #resolve: (answer: ProviderAnswer) => void;
  readonly #reject: (error: Error) => void;
  readonly #meter = new UsageMeter();
  readonly #chunks = new ChunkCollector();
  readonly #turns: Turns;
  readonly #timeout: Timeout;
  #hasEvent = false;
  #isEnded = false;
  #isOver = false;

  constructor(
    answer: ProviderAnswer,
    client: ClientConnection,
    terms: FirstEventTerms,
    resolve: (answer: ProviderAnswer) => void,
    reject: (error: Error) => void,
  ) {
    this.#answer = answer;
    this.#client = client;
    this.#terms = terms;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#meter.listener = this;
    this.#turns = new Turns(answer.body, {
      inspect: (part) => {
        this.#meter.write(part);
      },
      forward: () => {
        this.#check();
      },
      canContinue: () => true,
    });
    this.#timeout = new Timeout(Math.min(terms.waitMs, terms.firstByteMs), () => {
      this.#onTimeout();
    });
  }

  start(): void {
    this.#client.onDisconnect(this);
    if (!this.#isOver) this.#answer.body.read(this);
  }

  onEvent(): void {
    this.#hasEvent = true;
  }

  #stop(): void {
    this.#isOver = true;
    this.#timeout.clear();
    this.#turns.stop();
    this.#client.onDisconnect(undefined);
  }

  onDisconnect(): void {
    const abort = (reason: Error): void => {
      this.#fail(reason);
    };
    if (!this.#terms.detached?.begin(abort)) abort(new ClientDisconnectedError());
  }

  /** Puts back what was read, and hands the answer on. */
  #pass(): void {
    if (this.#isEnded) {
      this.#passWhole();
      return;
    }
    this.#stop();
    this.#answer.body.unread(concatChunks(this.#chunks.take()));
    this.#resolve(this.#answer);
  }

  #passWhole(): void {
    this.#stop();
    this.#resolve({ ...this.#answer, body: bodyOfChunks(this.#chunks.take()) });
  }

  #fail(error: Error): void {
    const { body } = this.#answer;
    this.#stop();
    body.unread();
    body.destroy();
    this.#reject(error);
  }

  #onTimeout(): void {
    const { waitMs, firstByteMs } = this.#terms;
    if (firstByteMs < waitMs) this.#fail(new UpstreamTimeoutError('first_byte', firstByteMs));
    else this.#pass();
  }

  onData(chunk: Buffer): void {
    this.#answer.idleTimeout.touch();
    this.#chunks.add(chunk);
    this.#turns.take(chunk);
  }

  /** Decides only once every byte so far was metered: an error may follow an event. */
  #check(): void {
    if (this.#turns.isBehind || this.#isEnded) return;
    if (this.#meter.failed) this.#fail(this.#errorInside());
    else if (this.#hasEvent || this.#chunks.length > MAX_BYTES) this.#pass();
  }

  onEnd(): void {
    this.#isEnded = true;
    this.#turns.end(() => {
      this.#checkWhole();
    });
  }

  #checkWhole(): void {
    const meter = this.#meter;
    meter.end();
    const isEmptyStream = !this.#hasEvent && !meter.finished && isEventStream(this.#answer.headers);
    if (meter.failed) this.#fail(this.#errorInside());
    else if (meter.unfinishedJson || isEmptyStream) this.#fail(brokenBefore(undefined));
    else this.#passWhole();
  }

  /** What the provider said is its cause. */
  #errorInside(): UpstreamError {
    const text = concatChunks(this.#chunks.take()).toString();
    const error = new UpstreamError(
      'upstream_invalid_response',
      "The model's provider answered with an error in place of a completion.",
    );
    const { status, secret } = this.#answer;
    return Object.assign(error, { cause: errorInAnswer(status, text, secret) });
  }

  onBroken(error: Error | undefined): void {
    this.#fail(isAbortReason(error) ? error : brokenBefore(error));
  }
}

/** Whether the router aborted the body itself, for this reason. */
function isAbortReason(error: Error | undefined): error is Error {
  return (
    error instanceof UpstreamTimeoutError ||
    error instanceof ClientDisconnectedError ||
    error instanceof RouterClosedError
  );
}

function brokenBefore(cause: Error | undefined): UpstreamError {
  const error = new UpstreamError(
    'upstream_unreachable',
    "The model's provider closed the connection before its answer began.",
  );
  return cause ? Object.assign(error, { cause: withoutAnswerBytes(cause) }) : error;
}
