import type { Slot } from '../async/slot-list.ts';
import type { Outcome, RelayedAnswer } from '../billing/charge-policy.ts';
import type { Target } from '../catalog/model.ts';
import { UpstreamError, UpstreamTimeoutError } from '../errors/errors.ts';
import { DetachedRead, type DetachedReads } from '../http/detached-reads.ts';
import { ClientDisconnectedError } from '../http/exchange.ts';
import { type RelayEnd, RouterClosedError } from '../http/relay-end.ts';
import type { Ending } from '../ledger/contract/ledger-store.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import { asError } from '../platform/as-error.ts';
import type { AttemptProgress } from '../upstream/attempt-progress.ts';
import type { AttemptReport } from '../upstream/circuit-breaker.ts';
import type { Abortable, RunningAttempts } from '../upstream/running-attempts.ts';

/** What a request's progress is recorded in, beside itself. */
export interface ProgressServices {
  readonly running: RunningAttempts;
  readonly detachedReads: DetachedReads;
  /** Whether an answer is read to its end after its client disconnected. */
  readonly isReadToEnd: (target: Target) => boolean;
}

/** Whose request it is, and where it goes first. */
export interface ProgressTerms {
  readonly firstTarget: Target;
  /** Of the caller: detached reads are counted per key. */
  readonly owner: string;
  /** When it arrived, by `performance.now()`. */
  readonly startedAt: number;
}

/**
 * What became of an admitted request, from its first attempt to its end: the outcome that its charge is made of.
 *
 * Every way through has the same order: `asking`, `attempting`, `dispatched`, then `rejected`, `unanswered` or
 * `answered`, then `relayed` or `failed`, and `close` last.
 */
export class RequestProgress implements AttemptProgress {
  readonly #terms: ProgressTerms;
  readonly #services: ProgressServices;
  readonly #active: ActiveRequest;
  #outcome: Outcome;
  #running: Slot<Abortable> | undefined;
  #detached: DetachedRead | undefined;
  #report: AttemptReport | undefined;
  #end: RelayEnd | undefined;
  #attempts = 0;
  /** Number of the attempt at the target that is being asked; undefined while nothing was sent to it. */
  #attempt: number | undefined;

  constructor(terms: ProgressTerms, services: ProgressServices, active: ActiveRequest) {
    this.#terms = terms;
    this.#services = services;
    this.#active = active;
    this.#outcome = { ending: 'failed', target: terms.firstTarget, dispatched: false };
  }

  get outcome(): Outcome {
    return this.#outcome;
  }

  /** What becomes of the answer when the client disconnects; undefined before a target was asked. */
  get detached(): DetachedRead | undefined {
    return this.#detached;
  }

  asking(target: Target): DetachedRead {
    const { detachedReads, isReadToEnd } = this.#services;
    this.#active.provider = target.provider.name;
    this.#attempt = undefined;
    this.#outcome = { ending: 'failed', target, dispatched: false };
    this.#detached?.end();
    this.#detached = new DetachedRead(detachedReads, this.#terms.owner, () => isReadToEnd(target));
    return this.#detached;
  }

  attempting(running: Abortable): void {
    this.#attempt = this.#attempts += 1;
    this.#forgetRunning();
    this.#running = this.#services.running.add(running);
  }

  dispatched(): void {
    this.#outcome = { ...this.#outcome, dispatched: true };
  }

  rejected(): void {
    this.#outcome = { ...this.#outcome, dispatched: false };
  }

  unanswered(error: Error): void {
    this.#outcome = { ...this.#outcome, dispatched: false };
    if (isProvidersFault(error)) this.#active.trace?.attemptFailed(error);
  }

  /** A target has an answer that the client gets. */
  answered(report: AttemptReport): void {
    this.#report = report;
  }

  /** The answer went to the client, whole or in part. */
  relayed(end: RelayEnd, answer: RelayedAnswer): void {
    const { target } = this.#outcome;
    this.#end = end;
    this.#outcome = { ending: end.ending, target, dispatched: true, answer };
    this.#blame(end.error);
    if (end.ending === 'upstream_cut' || end.ending === 'timeout') this.#report?.broke(Date.now());
  }

  /** It ended without an answer. Aborts the attempt that runs: no paid call goes on for a request that is over. */
  failed(error: unknown): void {
    this.#blame(error);
    this.#outcome = { ...this.#outcome, ending: endingOfError(error) };
    this.#running?.value.abort(asError(error));
  }

  /** It is over: gives back what it occupied, and says what it came to. */
  close(): Outcome {
    this.#report?.over();
    this.#forgetRunning();
    this.#detached?.end();
    this.#active.trace?.ended(this.#outcome, this.#terms.startedAt, this.#end);
    return this.#outcome;
  }

  #forgetRunning(): void {
    if (this.#running) this.#services.running.delete(this.#running);
    this.#running = undefined;
  }

  /** Records in a provider's failure which provider it was, for `onError`. */
  #blame(error: unknown): void {
    if (!isProvidersFault(error)) return;
    const { provider, model } = this.#outcome.target;
    const attempt = this.#attempt;
    Object.assign(error, { provider: provider.name, model, ...(attempt !== undefined && { attempt }) });
  }
}

function isProvidersFault(error: unknown): error is UpstreamError | UpstreamTimeoutError {
  return error instanceof UpstreamError || error instanceof UpstreamTimeoutError;
}

function endingOfError(error: unknown): Ending {
  if (error instanceof ClientDisconnectedError) return 'client_gone';
  if (error instanceof UpstreamTimeoutError) return 'timeout';
  if (error instanceof RouterClosedError) return 'closed';
  return 'upstream_error';
}
