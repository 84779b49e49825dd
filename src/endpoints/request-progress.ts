import type { Slot } from '../async/slot-list.ts';
import type { HoldTerms } from '../billing/hold.ts';
import type { Outcome, RelayedAnswer } from '../billing/charge-policy.ts';
import type { PerTarget, Target } from '../catalog/model.ts';
import {
  ProviderError,
  UpstreamAnswerError,
  UpstreamError,
  UpstreamTimeoutError,
} from '../errors/upstream-errors.ts';
import { type DetachableAnswer, DetachedRead, type DetachedReads } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError } from '../http/exchange.ts';
import { type RelayEnd, RouterClosedError } from '../http/relay-end.ts';
import type { Ending } from '../ledger/contract/ledger-store.ts';
import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import { asError } from '../platform/as-error.ts';
import { type AbandonedQuote, isReadToEnd } from '../upstream/abandoned-answers.ts';
import type { AttemptProgress, Abortable, RunningAttempt, RunningAttempts } from '../upstream/attempt.ts';
import type { AttemptReport } from '../upstream/circuit-breaker.ts';
import { errorInAnswer, isSilent } from '../upstream/provider-errors.ts';
import type { CountedRequest } from '../upstream/provider-words.ts';
import type { Conversation } from '../upstream/conversations.ts';
import type { RecentErrors } from '../upstream/recent-errors.ts';
import type { FailoverResult } from '../upstream/failover.ts';
import type { AdmittedRequest } from './admit-request.ts';

/** What a request's progress updates besides itself. */
export interface ProgressServices {
  readonly running: RunningAttempts;
  readonly detachedReads: DetachedReads;
  readonly recentErrors: Pick<RecentErrors, 'add'>;
  readonly calibrations: PerTarget<EstimateCalibration>;
}

/** What its progress needs of an admitted request. */
interface ProgressedRequest extends Pick<AdmittedRequest, 'targets' | 'conversation'> {
  readonly hold: {
    readonly terms: Pick<HoldTerms, 'requestId' | 'startedAt'> & {
      readonly caller: Pick<HoldTerms['caller'], 'account' | 'key'>;
      readonly quote: AbandonedQuote;
    };
  };
}

type AnsweredAttempt = Pick<FailoverResult, 'report' | 'failure' | 'target' | 'key' | 'counted'> & {
  readonly answer: Pick<FailoverResult['answer'], 'status' | 'secret'>;
};

/** The state of an admitted request, from its first attempt to its end: it makes the outcome that is charged.
 *
 * The order is always: `asking`, `attempting`, `dispatched`, then `rejected`, `unanswered` or
 * `answered`, then `relayed` or `failed`, and `close` last.
 */
export class RequestProgress implements AttemptProgress, DetachableAnswer {
  readonly #terms: ProgressedRequest['hold']['terms'];
  readonly #conversation: Conversation | undefined;
  readonly #client: Pick<ClientConnection, 'isDismissed'>;
  readonly #services: ProgressServices;
  readonly #active: ActiveRequest;
  // Of the outcome:
  #ending: Ending = 'failed';
  #target: Target;
  #isDispatched = false;
  #answer: RelayedAnswer | undefined;

  #running: Slot<Abortable> | undefined;
  /** Undefined unless there has been exactly one. */
  #onlyAttempt: RunningAttempt | undefined;
  #detached: DetachedRead | undefined;
  #report: AttemptReport | undefined;
  #counted: CountedRequest | undefined;
  /** The provider's key, which its error must not show. */
  #secret: string | undefined;
  #end: RelayEnd | undefined;
  #attempts = 0;
  /** Number of the attempt at the current target; undefined before one is sent. */
  #attempt: number | undefined;

  constructor(
    { hold, targets, conversation }: ProgressedRequest,
    client: Pick<ClientConnection, 'isDismissed'>,
    services: ProgressServices,
    active: ActiveRequest,
  ) {
    this.#terms = hold.terms;
    this.#conversation = conversation;
    this.#client = client;
    this.#services = services;
    this.#active = active;
    this.#target = targets[0];
  }

  /** As the request would be charged now. */
  get outcome(): Outcome {
    const ending = this.#ending;
    const target = this.#target;
    const dispatched = this.#isDispatched;
    const answer = this.#answer;
    return answer ? { ending, target, dispatched, answer } : { ending, target, dispatched };
  }

  /** Reads the answer on when the client disconnects; undefined before the first target. */
  get detached(): DetachedRead | undefined {
    return this.#detached;
  }

  asking(target: Target): DetachedRead {
    this.#active.provider = target.provider.name;
    this.#attempt = undefined;
    this.#target = target;
    this.#isDispatched = false;
    this.#detached?.end();
    this.#detached = new DetachedRead(this.#services.detachedReads, this);
    return this.#detached;
  }

  get owner(): string {
    const { account, key } = this.#terms.caller;
    return `${account} ${key}`;
  }

  /** Whether the answer of the current target is read to its end when the client disconnects. */
  shouldRead(): boolean {
    const { caller, quote } = this.#terms;
    const target = this.#target;
    return isReadToEnd(target, caller.account, quote, this.#services.calibrations.of(target));
  }

  /** Nothing sends the request's bytes any more. */
  get isWritten(): boolean {
    return this.#onlyAttempt?.isWritten === true;
  }

  attempting(running: RunningAttempt): void {
    this.#attempt = this.#attempts += 1;
    this.#onlyAttempt = this.#attempts === 1 ? running : undefined;
    this.#forgetRunning();
    this.#running = this.#services.running.add(running);
  }

  dispatched(): void {
    this.#isDispatched = true;
  }

  rejected(): void {
    this.#isDispatched = false;
  }

  unanswered(error: Error): void {
    this.rejected();
    if (isProviderFailure(error)) this.#active.trace?.attemptFailed(error);
  }

  /** This target's answer goes to the client. */
  answered({ report, failure, target, key, counted, answer: { status, secret } }: AnsweredAttempt): void {
    this.#report = report;
    this.#secret = secret;
    this.#counted = counted;
    const conversation = this.#conversation;
    if (conversation && status < 300) this.#active.trace?.continued(conversation.answered(target, key));
    this.#addOrigin(failure);
  }

  /** The answer was relayed, whole or in part. Returns the failure that it ended with, or had inside. */
  relayed(end: RelayEnd, answer: RelayedAnswer): Error | undefined {
    const target = this.#target;
    const failure =
      end.error ??
      (answer.meter.failed && answer.status < 300 ? errorInside(answer, this.#secret) : undefined);
    this.#end = end;
    this.#ending = end.ending;
    this.#isDispatched = true;
    this.#answer = answer;
    this.#addOrigin(failure);
    const { meter, status, firstByteAt } = answer;
    if (firstByteAt !== undefined && status < 300) {
      // A client that reads slowly says nothing of the target's speed.
      const isMeasured = end.ending === 'finished' && !end.stalled;
      const tokens = isMeasured ? meter.reportedCompletionTokens : 0;
      const isStream = meter.format === 'event-stream';
      this.#report?.relayed(meter.firstEventAt ?? firstByteAt, isStream, tokens, meter.usage);
    }
    if (end.ending === 'upstream_cut' || end.ending === 'timeout') this.#report?.broke(Date.now());
    if (failure?.cause instanceof ProviderError) this.#active.trace?.lastAttempt?.refused(failure.cause);
    if (meter.failed) this.#report?.hadError();
    if (isProviderFailure(failure)) this.#services.recentErrors.add(target, this.#terms.requestId, failure);
    return failure;
  }

  /** The request ended without an answer. Aborts the running attempt, so that no paid call goes on. */
  failed(error: unknown): void {
    this.#addOrigin(error);
    this.#ending = endingOfError(error);
    this.#running?.value.abort(asError(error));
  }

  /** The request is over: releases its resources and returns its outcome. */
  close(): Outcome {
    // To the provider's side, the client has left.
    if (this.#client.isDismissed) this.#ending = 'refused';
    this.#report?.over();
    const { outcome } = this;
    const usage = outcome.answer?.meter.usage;
    if (usage) this.#counted?.end(usage.promptTokens + usage.completionTokens);
    this.#forgetRunning();
    this.#detached?.end();
    this.#active.trace?.ended(outcome, this.#terms.startedAt, this.#end);
    return outcome;
  }

  #forgetRunning(): void {
    if (this.#running) this.#services.running.delete(this.#running);
    this.#running = undefined;
  }

  /** Adds provider, model and attempt to a provider's error, for `onError`. */
  #addOrigin(error: unknown): void {
    if (!isProviderFailure(error)) return;
    const { provider, model } = this.#target;
    const attempt = this.#attempt;
    Object.assign(error, { provider: provider.name, model, ...(attempt !== undefined && { attempt }) });
  }
}

/** Its cause is what the provider said, if that arrived in one piece. */
function errorInside({ status, meter }: RelayedAnswer, secret: string | undefined): UpstreamError {
  const message = "The model's provider sent an error in its answer, which the client got.";
  const said = errorInAnswer(status, meter.errorText, secret);
  const error = new UpstreamError('upstream_invalid_response', message);
  return isSilent(said) ? error : Object.assign(error, { cause: said });
}

function isProviderFailure(
  error: unknown,
): error is UpstreamError | UpstreamAnswerError | UpstreamTimeoutError {
  return (
    error instanceof UpstreamError ||
    error instanceof UpstreamAnswerError ||
    error instanceof UpstreamTimeoutError
  );
}

function endingOfError(error: unknown): Ending {
  if (error instanceof ClientDisconnectedError) return 'client_gone';
  if (error instanceof UpstreamTimeoutError) return 'timeout';
  if (error instanceof RouterClosedError) return 'closed';
  return 'upstream_error';
}
