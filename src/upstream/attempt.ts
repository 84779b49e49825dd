import { asError, withoutAnswerBytes } from '../platform/as-error.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import { RouterError } from '../errors/router-error.ts';
import { ByokKeyRejectedError, UpstreamError } from '../errors/upstream-errors.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError, type DisconnectListener } from '../http/exchange.ts';
import type { ProviderAnswer } from '../http/relay.ts';
import type { AttemptTrace } from '../observability/request-trace.ts';
import type { Timeouts } from '../options/resolve-options.ts';
import { AttemptTimeouts } from './attempt-timeouts.ts';
import { peek } from './peek.ts';
import { providerError, saysContentRefused, saysKeyRefused } from './provider-errors.ts';
import { toAnswer } from './provider-answer.ts';
import type { AnswerHead, Sending, SendListener, Transport, UpstreamRequest } from './transport/transport.ts';
import type { Target } from '../catalog/model.ts';
import { Batch } from '../async/batch.ts';
import type { TimerWheel } from '../async/timer-wheel.ts';
import { SlotList, type Slot } from '../async/slot-list.ts';
import { RouterClosedError } from '../http/relay-end.ts';

export interface AttemptTerms {
  readonly transport: Transport;
  readonly timeouts: Timeouts;
  readonly wheel: TimerWheel;
  /** Arrival time of the client's request, from `performance.now()`: all sendings share the total. */
  readonly startedAt: number;
  readonly client: ClientConnection;
  /** Reads the answer on when the client disconnects. */
  readonly detached: DetachedRead;
  /** The request carries the client's own key, so that the client gets the provider's errors about it. */
  readonly usesByok: boolean;
  readonly progress: AttemptProgress;
}

/** Receives the steps of a request while its targets are tried. */
export interface AttemptProgress {
  /** A target is tried next. Returns the detached read of its answer, for a client that disconnects. */
  asking(target: Target): DetachedRead;
  /** An attempt was started; `running` can abort it until the last byte of its answer. */
  attempting(running: RunningAttempt): void;
  /** The request head was written to a connected socket: the provider may bill the request. */
  dispatched(): void;
  /** The provider rejected it: nothing is owed. */
  rejected(): void;
  /** There is no answer for the client, though a head may have arrived: nothing is owed. */
  unanswered(error: Error): void;
}

export interface Abortable {
  abort(reason: Error): void;
}

export interface RunningAttempt extends Abortable {
  /** The request's bytes have left: this attempt doesn't need them any more. */
  readonly isWritten: boolean;
}

/**
 * A reused connection that dies later than this after the write was not being closed at the time: if it was, the reset comes back within a
 * round trip, which is shorter than this around the world, also if a packet is lost. A provider that had the request for longer may have
 * billed it.
 */
const STALE_WITHIN_MS = 500;

/** Takes what an attempt comes to: one of the two is called, once. `Promise.withResolvers()` makes one. */
export interface AnswerTaker {
  resolve(answer: ProviderAnswer): void;
  /**
   * @param error - a ClientDisconnectedError if the client leaves first, and the answer is not read on;
   *   an UpstreamError or UpstreamTimeoutError if there is no answer for the client
   */
  reject(error: unknown): void;
}

/** Sends a request to its provider and waits for the head of an answer for the client.
 *
 * A reused connection that dies before the first byte of an answer was probably being
 * closed by the provider during the write: the request is retried once, on a new connection.
 * So is one that the provider refused to process, as HTTP/2 can say.
 */
export function attempt(
  request: UpstreamRequest,
  terms: AttemptTerms,
  trace: AttemptTrace | undefined,
  answer: AnswerTaker,
): void {
  try {
    new Attempt({ request, terms, trace, answer }).send();
  } catch (error) {
    answer.reject(error);
  }
}

/** An attempt that has no answer yet. */
interface Unanswered {
  readonly request: UpstreamRequest;
  readonly terms: AttemptTerms;
  readonly trace: AttemptTrace | undefined;
  readonly answer: AnswerTaker;
}

class Attempt implements SendListener, RunningAttempt, DisconnectListener {
  /** Released with the answer, which keeps this object for as long as it lasts. It stays after a failure. */
  #unanswered: Unanswered | undefined;
  #timeouts: AttemptTimeouts;
  #sending: Sending | undefined;
  /** Arrived, and not yet judged. */
  #head: AnswerHead | undefined;
  /** When it was written to a connected socket, from `performance.now()`. */
  #sentAt = -Infinity;
  #isConnected = false;
  #isRetried = false;
  /** Aborted before it was sent. */
  #aborted: Error | undefined;

  constructor(unanswered: Unanswered) {
    this.#unanswered = unanswered;
    this.#timeouts = this.#startTimeouts(unanswered);
  }

  /** @throws {ClientDisconnectedError} if the client has left */
  send(): void {
    if (!this.#unanswered) throw new TypeError('The request was answered');
    const { request, terms } = this.#unanswered;
    const { transport, client, progress } = terms;
    client.throwIfDisconnected();
    this.#isConnected = false;
    progress.attempting(this);
    if (this.#aborted) {
      this.onFailed(this.#aborted);
      return;
    }
    this.#sending = transport.send(request, this);
    client.onDisconnect(this);
  }

  onDisconnect(): void {
    const abort = (reason: Error): void => {
      this.abort(reason);
    };
    // A request that was not sent costs nothing.
    const isReadOn = this.#isConnected && this.#unanswered?.terms.detached.begin(abort) === true;
    if (!isReadOn) abort(new ClientDisconnectedError());
  }

  get isWritten(): boolean {
    return this.#sending?.isWritten === true;
  }

  abort(reason: Error): void {
    if (this.#sending) this.#sending.abort(reason);
    else this.#aborted ??= reason;
  }

  onConnected(): void {
    this.#isConnected = true;
    this.#sentAt = performance.now();
    this.#timeouts.connected();
    this.#unanswered?.terms.progress.dispatched();
  }

  onHead(head: AnswerHead): void {
    this.#timeouts.answered();
    this.#unanswered?.terms.client.onDisconnect(undefined);
    this.#head = head;
    heads.add(this);
  }

  /** Judges the head that has arrived. */
  takeHead(): void {
    const head = this.#head;
    this.#head = undefined;
    if (!head || !this.#unanswered) return;
    const { request, terms, trace } = this.#unanswered;
    const { client, usesByok, progress } = terms;
    trace?.answered(head, request.apiKey);
    if (head.statusCode < 200 || head.statusCode >= 300) progress.rejected();
    try {
      const answer = toAnswer(head, this.#timeouts, request.apiKey);
      if (!mayBeAboutAccount(answer.status)) this.#resolve(answer);
      else void this.#check(answer, client, usesByok);
    } catch (error) {
      this.onFailed(asError(error));
    }
  }

  async #check(answer: ProviderAnswer, client: ClientConnection, usesByok: boolean): Promise<void> {
    try {
      this.#resolve(await checkAccountError(answer, client, usesByok));
    } catch (error) {
      this.onFailed(asError(error));
    }
  }

  onOver(): void {
    this.#timeouts.stop();
  }

  onFailed(error: Error): void {
    this.#timeouts.stop();
    this.#sending?.abort(error);
    if (!this.#unanswered) return;
    const { terms, trace, answer } = this.#unanswered;
    terms.client.onDisconnect(undefined);
    if (this.#mayRetry(error)) {
      this.#retry(this.#unanswered);
      return;
    }
    const failure = toUpstreamError(error);
    trace?.failed(failure);
    answer.reject(failure);
  }

  #resolve(answer: ProviderAnswer): void {
    this.#unanswered?.answer.resolve(answer);
    this.#unanswered = undefined;
  }

  /** Whether the provider has not processed the request, certainly or probably. Asked once. */
  #mayRetry(error: Error): boolean {
    const sending = this.#sending;
    if (!sending || this.#isRetried) return false;
    if (sending.wasRefused) return true;
    return sending.diedUnanswered && performance.now() - this.#sentAt < STALE_WITHIN_MS && isReset(error);
  }

  #retry(unanswered: Unanswered): void {
    const { request, terms } = unanswered;
    if (this.#sending?.diedUnanswered) terms.transport.closeUnused(request.connection);
    this.#isRetried = true;
    this.#sending = undefined;
    try {
      this.#timeouts = this.#startTimeouts(unanswered);
      this.send();
    } catch (error) {
      this.#timeouts.stop();
      unanswered.answer.reject(asError(error));
    }
  }

  #startTimeouts({ terms }: Unanswered): AttemptTimeouts {
    return new AttemptTimeouts(terms.timeouts, performance.now() - terms.startedAt, this, terms.wheel);
  }
}

/** The answers that have begun. */
const heads = new Batch<Attempt>((attempt) => {
  attempt.takeHead();
});

/**
 * The error for a provider's answer about the account, not the request. What the provider said is its cause, for the
 * operator alone: it names the account. The key in it is redacted.
 */
function accountRefused(status: 400 | 401 | 402 | 403, body: string, usesByok: boolean): RouterError {
  // A 400 would blame the client's request.
  if (usesByok) return new ByokKeyRejectedError(status === 400 ? 401 : status);
  const error = new UpstreamError(
    'upstream_refused_credentials',
    `The model's provider rejected this server's own credentials (${status}). The operator has been notified.`,
  );
  return Object.assign(error, { cause: providerError(status, body) });
}

function mayBeAboutAccount(status: number): boolean {
  return status >= 400 && status <= 403;
}

/**
 * Returns an answer of which the client is to blame.
 *
 * @throws {RouterError} if the provider rejects the account: some reject a key with a 400, others with a 401. A 403 may
 *   be about the content of a request: then neither key nor target is ejected.
 */
async function checkAccountError(
  answer: ProviderAnswer,
  client: ClientConnection,
  usesByok: boolean,
): Promise<ProviderAnswer> {
  const peeked = await peek(answer, client);
  const { text } = peeked;
  switch (answer.status) {
    case 400:
      if (saysKeyRefused(text)) throw accountRefused(400, text, usesByok);
      return peeked.answer;
    case 401:
    case 402:
      throw accountRefused(answer.status, text, usesByok);
    default:
      if (!saysContentRefused(text)) throw accountRefused(403, text, usesByok);
      throw new InvalidRequestError(
        'content_policy_violation',
        "The model's provider refused this request because of its content (403).",
      );
  }
}

function isReset(error: unknown): boolean {
  const code = systemCode(error);
  return code === 'ECONNRESET' || code === 'EPIPE';
}

/** The code of a Node error, e.g. `ECONNREFUSED`; abort reasons have none. */
function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function toUpstreamError(error: Error): Error {
  if (error instanceof RouterError) return error;
  const code = systemCode(error);
  // An abort reason, or Node's error about an invalid request, which is our bug.
  if (code === undefined || /^ERR_(?!SSL_|TLS_)/.test(code)) return error;
  const upstreamError = code.startsWith('HPE_')
    ? new UpstreamError('upstream_invalid_response', "The model's provider did not answer in valid HTTP.")
    : new UpstreamError(
        'upstream_unreachable',
        `The model's provider could not be reached, or closed the connection before answering (${code}).`,
      );
  return Object.assign(upstreamError, { cause: withoutAnswerBytes(error) });
}

/** The running attempts of a router. */
export class RunningAttempts {
  readonly #attempts = new SlotList<Abortable>();
  #closed = false;

  add(attempt: Abortable): Slot<Abortable> {
    if (this.#closed) attempt.abort(new RouterClosedError());
    return this.#attempts.add(attempt);
  }

  delete(slot: Slot<Abortable>): void {
    this.#attempts.delete(slot);
  }

  /** Aborts all attempts, also those that are added later. */
  close(): void {
    this.#closed = true;
    for (const attempt of this.#attempts.values()) attempt.abort(new RouterClosedError());
  }
}
