import { type Answer, isLater } from '../async/answer.ts';
import { ClientDisconnectedError } from '../http/exchange.ts';
import type { BodyLimits } from '../http/read-body.ts';
import { RouterClosedError } from '../http/relay-end.ts';
import type { ProviderAnswer } from '../http/relay.ts';
import { sendError, toRouterError } from '../http/respond.ts';
import type { GuardSettings } from '../options/resolve-request-hooks.ts';
import { type GuardedRequest, guardRequest } from './guard-request.ts';
import type { HookContext } from './hook-call.ts';

/**
 * The app's guard, while the request is at its provider.
 *
 * It holds the answer back until it has passed. If it refuses, the client gets the refusal at once and counts as
 * disconnected, so that the call is aborted, or read to its usage, and charged as that of any client that leaves.
 */
export class ParallelGuard {
  readonly #context: HookContext;
  readonly #controller = new AbortController();
  /** Resolves once the guard has passed, or the client has its refusal; undefined if it has passed at once. */
  #verdict: Promise<void> | undefined;
  #isOver = false;
  #closed: RouterClosedError | undefined;

  constructor(request: GuardedRequest, guard: GuardSettings, limits: BodyLimits, context: HookContext) {
    this.#context = context;
    let checked: Answer<unknown>;
    try {
      checked = guardRequest(request, guard, limits, context, this.#controller);
    } catch (thrown) {
      // Nothing is sent then: to the provider's side, the client has left.
      this.#refuse(thrown);
      return;
    }
    if (!isLater(checked)) return;
    this.#verdict = checked.then(
      () => {
        this.#verdict = undefined;
      },
      (thrown: unknown) => {
        this.#refuse(thrown);
      },
    );
  }

  /** Resolves once the answer may be relayed: to a client that is there, or to one that was refused, which gets nothing of it.
   *
   * @throws {RouterClosedError} if the router was closed first
   */
  async allows({ idleTimeout }: ProviderAnswer): Promise<void> {
    if (!this.#verdict) return;
    // The provider is not read meanwhile.
    idleTimeout.pause();
    await this.#verdict;
    if (this.#closed) throw this.#closed;
    idleTimeout.touch();
  }

  /** The request is over: what the guard answers now doesn't matter. */
  stop(): void {
    this.#isOver = true;
    this.#controller.abort(new Error('The request is over'));
  }

  #refuse(thrown: unknown): void {
    if (this.#isOver || thrown instanceof ClientDisconnectedError) return;
    if (thrown instanceof RouterClosedError) {
      this.#closed = thrown;
      return;
    }
    const { exchange, client, trace, onError } = this.#context;
    const error = toRouterError(thrown);
    trace?.refused(error);
    if (error.status >= 500) onError(error);
    sendError(exchange, error);
    client.dismiss();
  }
}
