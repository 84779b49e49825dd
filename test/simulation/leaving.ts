import type { Leave, Step } from './provider.ts';

/** A client that disconnects in a planned step of its request. */
export class Leaving {
  readonly leaving: Promise<'left'>;
  readonly #leave: Leave | undefined;
  readonly #resolve: (left: 'left') => void;
  left = false;
  #timer: NodeJS.Timeout | undefined;
  #tell: (() => void) | undefined;

  constructor(leave: Leave | undefined) {
    this.#leave = leave;
    const { promise, resolve } = Promise.withResolvers<'left'>();
    this.leaving = promise;
    this.#resolve = resolve;
    this.#begin('admit');
  }

  /** Waits in a step of the request; returns whether the client disconnected meanwhile. */
  during(step: Step, ms: number): Promise<boolean> {
    this.#begin(step);
    if (this.left || ms <= 0) return Promise.resolve(this.left);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#tell = undefined;
        resolve(this.left);
      }, ms);
      this.#tell = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  forget(): void {
    clearTimeout(this.#timer);
  }

  #begin(step: Step): void {
    if (this.#leave?.step !== step) return;
    this.#timer ??= setTimeout(() => {
      this.left = true;
      this.#resolve('left');
      this.#tell?.();
    }, this.#leave.afterMs);
  }
}
