import { UpstreamError, UpstreamTimeoutError, withoutBytes } from '../errors/errors.ts';

/** How the relay of an answer ended. */
export interface RelayEnd {
  readonly ending:
    | 'finished'
    | 'client_gone'
    | 'upstream_cut'
    | 'timeout'
    | 'closed'
    | 'credits_exhausted'
    | 'failed';
  /** Why, where the provider or the router is to blame. */
  readonly error?: Error;
  /** The client left before output came, whatever was read since; undefined if it did not leave. */
  readonly leftBeforeOutput?: boolean | undefined;
  /** The meter saw a piece that did not go on. */
  readonly withheld: boolean;
  /** When the first byte of its body came, by `performance.now()`; undefined if none did. */
  readonly firstByteAt: number | undefined;
  /** It waited for its client to read: as it ended, for ten seconds at a time, or for more than half of its time. */
  readonly stalled: boolean;
}

/** The router is closing and waits no longer. */
export class RouterClosedError extends Error {
  override readonly name = 'RouterClosedError';

  constructor() {
    super('The router was closed');
  }
}

/** How an answer ended that broke, and what its client is shown of that. */
export function brokenEnd(error: Error | undefined): {
  readonly ending: RelayEnd['ending'];
  readonly error: Error;
  readonly shown: Error;
} {
  if (error instanceof UpstreamTimeoutError) return { ending: 'timeout', error, shown: error };
  if (error instanceof RouterClosedError) {
    const shown = new UpstreamError(
      'upstream_cut',
      'This server was shut down before the answer was complete.',
    );
    return { ending: 'closed', error, shown };
  }
  const cut = new UpstreamError(
    'upstream_cut',
    'The provider closed the connection before its answer was complete.',
  );
  if (error) Object.assign(cut, { cause: withoutBytes(error) });
  return { ending: 'upstream_cut', error: cut, shown: cut };
}
