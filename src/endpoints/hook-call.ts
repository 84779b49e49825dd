import { type Answer, andThen, isLater } from '../async/answer.ts';
import { withTimeout } from '../async/timeout.ts';
import { unlessAborted } from '../async/unless-aborted.ts';
import { RouterError } from '../errors/router-error.ts';
import { type ClientConnection, ClientDisconnectedError, type Exchange } from '../http/exchange.ts';
import type { Caller } from '../keys/caller.ts';
import type { CountedAs } from '../keys/dimensions.ts';
import { loggableFailure } from '../keys/host-caller.ts';
import { tagOf } from '../ledger/contract/usage.ts';
import type { HookEnded } from '../observability/hooks.ts';
import type { RequestTrace } from '../observability/request-trace.ts';
import type { HookCaller, HookFailurePolicy } from '../options/request-hooks.ts';
import type { RunningAttempts } from '../upstream/attempt.ts';

/** A call of the app's `route` or `guard`. */
export interface HookCall<Result> {
  readonly hook: HookEnded['hook'];
  readonly settings: { readonly timeoutMs: number; readonly onError: HookFailurePolicy };
  readonly run: (signal: AbortSignal) => unknown;
  /** Returns what the answer means. @throws {RouterError} for the client, or a TypeError for an invalid answer */
  readonly judge: (answer: unknown) => Answer<Result | undefined>;
  /** Makes the error for the client if the call failed. */
  readonly failure: (cause: Error) => RouterError;
  /** Aborted by the caller to end the call. Default: the call's own. */
  readonly controller?: AbortController;
}

/** The request that a hook is called for. */
export interface HookContext {
  readonly exchange: Exchange;
  readonly client: ClientConnection;
  readonly running: RunningAttempts;
  readonly trace: RequestTrace | undefined;
  /** Called with a failure that the policy passes. */
  readonly onError: (error: Error) => void;
}

/** The answer is invalid, but means to refuse: it never passes. */
export class InvalidRefusalError extends TypeError {
  override readonly name = 'InvalidRefusalError';
}

class HookTimeoutError extends Error {
  override readonly name = 'HookTimeoutError';
}

/**
 * Calls `route` or `guard`: bounded in time, aborted when the client disconnects or the router is closed, and recorded.
 *
 * An answer that is here at once needs no promise. What fails is refused or passed, by the hook's policy; a RouterError that
 * the hook throws is for the client.
 *
 * @returns undefined if the request stays as it is
 * @throws {RouterError} for the client; at once, or by rejecting
 * @throws {ClientDisconnectedError} if the client leaves first
 */
export function callHook<Result>(
  { hook, settings, run, judge, failure, controller = new AbortController() }: HookCall<Result>,
  context: HookContext,
): Answer<Result | undefined> {
  const { exchange, client, trace, onError } = context;
  const { signal } = controller;
  const startedAt = Date.now();
  const since = performance.now();
  let isRecorded = false;
  const ended = (result: HookEnded['result']): void => {
    if (!isRecorded) trace?.hookEnded({ hook, startedAt, durationMs: performance.now() - since, result });
    isRecorded = true;
  };
  const passed = (result: Result | undefined): Result | undefined => {
    ended(result === undefined ? 'passed' : 'changed');
    return result;
  };
  const failed = (thrown: unknown): undefined => {
    const wasAborted = signal.aborted && !(thrown instanceof HookTimeoutError);
    if (wasAborted || thrown instanceof RouterError) {
      ended(wasAborted ? 'aborted' : 'refused');
      throw wasAborted ? signal.reason : thrown;
    }
    ended('failed');
    const error = failure(loggableFailure(thrown, exchange.headers));
    if (settings.onError === 'refuse' || thrown instanceof InvalidRefusalError) throw error;
    onError(error);
  };
  client.throwIfDisconnected();
  // Recorded at once: the request may be over before the call has noticed.
  signal.addEventListener('abort', () => {
    if (!(signal.reason instanceof HookTimeoutError)) ended('aborted');
  });
  let judged: Answer<Result | undefined>;
  try {
    const answer = run(signal);
    const bounded = isLater(answer)
      ? answerInTime(answer, hook, settings.timeoutMs, controller, context)
      : answer;
    judged = andThen(bounded, judge);
  } catch (thrown) {
    return failed(thrown);
  }
  return isLater(judged) ? judged.then(passed, failed) : passed(judged);
}

/** @throws the reason for which the call was aborted, which the hook may have answered in any way */
async function answerInTime(
  answer: Promise<unknown>,
  hook: string,
  timeoutMs: number,
  controller: AbortController,
  { exchange: { response }, client, running }: HookContext,
): Promise<unknown> {
  const { signal } = controller;
  const onClose = (): void => {
    controller.abort(new ClientDisconnectedError());
  };
  const onTimeout = (): never => {
    const error = new HookTimeoutError(`The ${hook} hook returned nothing within ${timeoutMs} ms.`);
    controller.abort(error);
    throw error;
  };
  const slot = running.add(controller);
  response.on('close', onClose);
  // It may have left while the hook was called.
  if (client.isDisconnected) onClose();
  try {
    const given = await withTimeout(unlessAborted(answer, signal), timeoutMs, onTimeout);
    signal.throwIfAborted();
    return given;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    running.delete(slot);
    response.off('close', onClose);
  }
}

/** The caller as the hooks see it. */
export function hookCaller({ account, key }: Caller, { endUser, dimensions = {} }: CountedAs): HookCaller {
  const tags: [name: string, value: string][] = [];
  for (const [dimension, value] of Object.entries(dimensions)) {
    const name = tagOf(dimension);
    if (name !== undefined) tags.push([name, value]);
  }
  return { account, key, ...(endUser !== undefined && { user: endUser }), tags: Object.fromEntries(tags) };
}
