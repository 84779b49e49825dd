import type { Hooks, RequestStarted, ResponseEnded } from '../../src/index.ts';

/** What hooks were told of requests, in order. */
export interface Told {
  readonly hooks: Hooks;
  readonly started: RequestStarted[];
  readonly ended: ResponseEnded[];
  /** Resolves with the end of the next response that is not over yet. */
  next(): Promise<ResponseEnded>;
}

export function collectTold(): Told {
  const started: RequestStarted[] = [];
  const ended: ResponseEnded[] = [];
  const waiting: ((ended: ResponseEnded) => void)[] = [];
  return {
    hooks: {
      onRequest: (event) => started.push(event),
      onResponse: (event) => {
        ended.push(event);
        waiting.shift()?.(event);
      },
    },
    started,
    ended,
    next: () => new Promise((resolve) => waiting.push(resolve)),
  };
}
