import { type Answer, isLater } from '../async/answer.ts';
import { backoff } from '../async/backoff.ts';
import { Timeout } from '../async/timeout.ts';
import {
  UpstreamAnswerError,
  UpstreamAtCapacityError,
  UpstreamError,
  UpstreamTimeoutError,
} from '../errors/upstream-errors.ts';
import { asError } from '../platform/as-error.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError } from '../http/exchange.ts';
import { ChunkCollector, concatChunks } from '../http/body-chunks.ts';
import type { ProviderAnswer } from '../http/relay.ts';
import type { Target } from '../catalog/model.ts';
import type { Retries } from '../options/resolve-options.ts';
import { mayBeTooLong, providerError, saysTooLong } from './provider-errors.ts';
import { afterFirstEvent } from './first-event.ts';
import type { AttemptProgress } from './attempt.ts';
import type { AttemptReport, CircuitBreakers } from './circuit-breaker.ts';
import { peek } from './peek.ts';
import type { ProviderClient, ProviderRequest, SendResult } from './provider-client.ts';
import type { RecentErrors } from './recent-errors.ts';
import { retryAfterMs } from './rate-limits.ts';

/** The answer for the client, and its target. */
export interface FailoverResult extends SendResult {
  readonly target: Target;
  /** The caller reports here if the answer breaks off, and when it is over. */
  readonly report: AttemptReport;
  /** The answer is an error of the provider that its operator can mend. */
  readonly failure?: UpstreamAnswerError;
}

/** A request and its targets. */
export interface FailoverRequest {
  /** In the order of trying. */
  readonly targets: readonly [Target, ...Target[]];
  readonly request: ProviderRequest;
  readonly progress: AttemptProgress;
}

/** Statuses after which the same request may succeed at another target, or later. */
function isFailure(status: number): boolean {
  return (
    status === 408 || status === 409 || status === 425 || status === 429 || status === 498 || status >= 500
  );
}

/** Statuses that count as a failure of the target: overloaded or broken. A client could provoke the others by its request. */
function isTargetsFault(status: number): boolean {
  return status === 429 || status === 498 || status >= 500;
}

/** Whether the operator can mend the error. A client can provoke other statuses. */
function isOperators({ usesByok, healthKey, model }: Target, status: number): boolean {
  return usesByok ? status >= 500 : isFailure(status) || (status === 404 && healthKey === model);
}

/** Retry budget: retries of the same target are at most this share of all requests, plus `MAX_BUDGET`. */
const BUDGET_SHARE = 0.2;
const MAX_BUDGET = 50;
/** Backoff before the same target is asked again, if it sent no `retry-after`. */
const RETRY = { firstMs: 250, jitter: 0.25 };
/** How long a discarded answer may take to end, so that its connection can be reused. */
const DISCARD_MS = 1000;
/** How much of it is kept, for the operator. */
const MAX_ERROR_BYTES = 4096;

/** Tries one target after another until there is an answer for the client.
 *
 * The next target is tried only while nothing has reached the client: after a
 * failure to connect or to answer in time, a status that doesn't blame the
 * request, an error in place of an answer's first event, or a prompt that is
 * too long for this target. The last target that has room may be retried, and the
 * client gets its last answer.
 */
export class Failover {
  readonly #provider: ProviderClient;
  readonly #breakers: CircuitBreakers;
  readonly #errors: RecentErrors;
  readonly #retries: Retries | undefined;
  readonly #random: () => number;
  #budget = MAX_BUDGET;

  constructor(
    provider: ProviderClient,
    breakers: CircuitBreakers,
    errors: RecentErrors,
    retries: Retries | undefined,
    random: () => number = Math.random,
  ) {
    this.#provider = provider;
    this.#breakers = breakers;
    this.#errors = errors;
    this.#retries = retries;
    this.#random = random;
  }

  /**
   * @throws {ClientDisconnectedError} if the client leaves first
   * @throws {UpstreamError} or UpstreamTimeoutError if no target had an answer for the client
   * @throws {UpstreamAtCapacityError} if the last one had no room
   */
  async firstAnswer({ targets, request, progress }: FailoverRequest): Promise<FailoverResult> {
    const { client } = request;
    this.#budget = Math.min(MAX_BUDGET, this.#budget + BUDGET_SHARE);
    let next: Target | undefined = targets[0];
    for (let n = 1; n <= targets.length; n++) {
      const target = targets[n - 1];
      if (!target || target !== next) continue;
      for (let tries = 0; ; tries++) {
        client.throwIfDisconnected();
        const isLast = this.#isLast(targets, n);
        const report = this.#breakers.of(target).startAttempt(Date.now(), request.account);
        const attempt = { target, isLast, report, detached: progress.asking(target) };
        let tried: AttemptResult;
        try {
          const sent = await this.#provider.send(target, request, progress, attempt.detached);
          const judged = this.#judge(sent, attempt, request);
          tried = isLater(judged) ? await judged : judged;
        } catch (error) {
          tried = this.#failed(error, attempt, request, progress);
        }
        const isFinal = tried.result !== undefined && !tried.refused;
        // An operator may have ejected the others meanwhile, or they are full.
        next = isFinal ? undefined : this.#nextAfter(targets, n, request);
        const waitMs = next || isFinal ? undefined : this.#pauseBefore(tried, tries, request);
        if (!next && waitMs === undefined) {
          if (!tried.result) throw tried.error;
          const { answer } = tried.result;
          return isOperators(target, answer.status)
            ? await this.#withFailure(tried.result, request)
            : tried.result;
        }
        if (tried.result) this.#discard(tried.result, request);
        if (waitMs === undefined) break;
        await pause(waitMs, client);
      }
    }
    throw new TypeError('The model has no targets');
  }

  /** Whether no target is asked after the first `n`. */
  #isLast(targets: readonly Target[], n: number): boolean {
    if (this.#retries === undefined || n === targets.length) return true;
    return targets.slice(n).every((each) => this.#isEjectedByHand(each));
  }

  /** The target to ask after the first `n`: one that has room, which is reserved then. */
  #nextAfter(targets: readonly Target[], n: number, { room }: ProviderRequest): Target | undefined {
    if (this.#isLast(targets, n)) return undefined;
    const others = targets.slice(n).filter((each) => !this.#isEjectedByHand(each));
    return room ? room.reserveAgain(others) : others[0];
  }

  #isEjectedByHand(target: Target): boolean {
    return this.#breakers.byHand.of(target, Date.now()) !== undefined;
  }

  /** What is to become of an answer. */
  #judge(sent: SendResult, attempt: TriedTarget, request: ProviderRequest): Answer<AttemptResult> {
    const { target, isLast, report } = attempt;
    const { asksUsage, key, counted, answer } = sent;
    const { status } = answer;
    if (isFailure(status) || (!isLast && status === 404)) {
      const waitMs = retryAfterMs(answer.headers);
      // A rate limit on a client's own key must not eject the target for others.
      if (isTargetsFault(status) && !(target.usesByok && status === 429)) report.failed(Date.now(), waitMs);
      return { result: { ...sent, target, report }, refused: true, retryAfterMs: waitMs };
    }
    if (!isLast && (status < 300 || mayBeTooLong(status))) return this.#readBeginning(sent, attempt, request);
    report.answered(Date.now());
    return { result: { answer, asksUsage, key, counted, target, report } };
  }

  /** Reads the beginning of an answer, in place of which another target may have a better one. */
  async #readBeginning(
    sent: SendResult,
    attempt: TriedTarget,
    { client }: ProviderRequest,
  ): Promise<AttemptResult> {
    const { target, report } = attempt;
    if (mayBeTooLong(sent.answer.status)) {
      const { text, answer } = await peek(sent.answer, client);
      report.answered(Date.now());
      return { result: { ...sent, answer, target, report }, refused: saysTooLong(text) };
    }
    const answer = await this.#waitForFirstEvent(sent.answer, attempt, client);
    report.answered(Date.now());
    return { result: { ...sent, answer, target, report } };
  }

  /** The target gave no answer.
   *
   * @throws what was thrown, unless the provider failed, or had no room
   */
  #failed(
    thrown: unknown,
    { target, report }: TriedTarget,
    { requestId }: ProviderRequest,
    progress: AttemptProgress,
  ): AttemptResult {
    const error = asError(thrown);
    const isProviders = error instanceof UpstreamError || error instanceof UpstreamTimeoutError;
    const isFull = error instanceof UpstreamAtCapacityError;
    // The limit of connections is the operator's, and says nothing about the target.
    const isWait = error instanceof UpstreamTimeoutError && error.timeout === 'wait';
    if (isProviders && !isWait) report.failed(Date.now());
    report.over();
    if (isProviders) this.#errors.add(target, requestId, error);
    if (!(error instanceof ClientDisconnectedError)) progress.unanswered(error);
    if (!isProviders && !isFull) throw error;
    return { error };
  }

  #waitForFirstEvent(
    answer: ProviderAnswer,
    { target: { provider }, report: { sentAt }, detached }: TriedTarget,
    client: ClientConnection,
  ): Promise<ProviderAnswer> {
    const spentMs = performance.now() - sentAt;
    return afterFirstEvent(answer, client, {
      detached,
      waitMs: this.#retries?.firstEventWaitMs ?? 0,
      firstByteMs: Math.max(1, provider.timeouts.firstByteMs - spentMs),
    });
  }

  /** The answer for the client, an error that the operator can mend, with what the operator is to know of it. */
  async #withFailure(result: FailoverResult, request: ProviderRequest): Promise<FailoverResult> {
    const { answer, target, report } = result;
    const { client, requestId, trace } = request;
    const { status } = answer;
    const peeked = await peek(answer, client).catch((error: unknown) => {
      report.over();
      throw error;
    });
    const failure = new UpstreamAnswerError(providerError(status, peeked.text));
    trace?.lastAttempt?.refused(failure.cause);
    this.#errors.add(target, requestId, failure);
    return { ...result, answer: peeked.answer, failure };
  }

  /** Reads a discarded answer to its end, for a limited time, so that its connection can be reused. */
  #discard({ answer, report, target }: FailoverResult, { requestId, trace }: ProviderRequest): void {
    const { body, status } = answer;
    const attempt = trace?.lastAttempt;
    const chunks = new ChunkCollector();
    report.over();
    const timeout = new Timeout(DISCARD_MS, () => {
      body.destroy();
    });
    const over = (): void => {
      timeout.clear();
      const error = new UpstreamAnswerError(providerError(status, concatChunks(chunks.take()).toString()));
      attempt?.refused(error.cause);
      if (isOperators(target, status)) this.#errors.add(target, requestId, error);
    };
    const onData = (chunk: Buffer): void => {
      if (chunks.length < MAX_ERROR_BYTES) chunks.add(chunk);
    };
    body.read({ onData, onEnd: over, onBroken: over });
  }

  /** How long to wait before the last target is retried; undefined if it is not retried. */
  #pauseBefore(
    { result, retryAfterMs: requestedMs }: AttemptResult,
    tries: number,
    { room }: ProviderRequest,
  ): number | undefined {
    if (!this.#retries || !result || tries >= this.#retries.perTarget) return undefined;
    // A prompt that is too long, or an unknown model, stays so.
    if (!isFailure(result.answer.status)) return undefined;
    const waitMs = requestedMs ?? backoff(tries, { ...RETRY, random: this.#random });
    if (waitMs > this.#retries.maxWaitMs || this.#budget < 1) return undefined;
    if (room && !room.reserveAgain([result.target])) return undefined;
    this.#budget -= 1;
    return waitMs;
  }
}

/** A target that is asked. */
interface TriedTarget {
  readonly target: Target;
  /** No other is asked after it. */
  readonly isLast: boolean;
  readonly report: AttemptReport;
  readonly detached: DetachedRead;
}

/** Result of one try of a target. */
type AttemptResult =
  | {
      readonly result: FailoverResult;
      /** Another target, or this one later, may have a better answer. */
      readonly refused?: boolean;
      readonly retryAfterMs?: number | undefined;
      readonly error?: undefined;
    }
  | { readonly error: Error; readonly result?: undefined; readonly retryAfterMs?: undefined };

/** @throws {ClientDisconnectedError} as soon as the client leaves */
function pause(ms: number, client: ClientConnection): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      client.onDisconnect(undefined);
      resolve();
    }, ms);
    client.onDisconnect({
      onDisconnect: () => {
        clearTimeout(timer);
        reject(new ClientDisconnectedError());
      },
    });
  });
}
