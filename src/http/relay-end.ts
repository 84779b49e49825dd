import { withoutAnswerBytes } from '../platform/as-error.ts';
import { CreditsExhaustedError } from '../errors/credit-errors.ts';
import type { RouterError } from '../errors/router-error.ts';
import { UpstreamError, UpstreamTimeoutError } from '../errors/upstream-errors.ts';

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
  /** The cause, if the provider or the router failed. */
  readonly error?: Error;
  /** The meter has seen output that the delivery gate held back. */
  readonly withheld: boolean;
  /** When the first byte of the body arrived (`performance.now()`); undefined if none did. */
  readonly firstByteAt: number | undefined;
  /** The client read slowly: it was stalled at the end, for ten seconds at a time, or for more than half of the time. */
  readonly stalled: boolean;
}

/** The router was closed before the answer was complete. */
export class RouterClosedError extends Error {
  override readonly name = 'RouterClosedError';

  constructor() {
    super('The router was closed');
  }
}

/** How an answer ended whose delivery isn't allowed any more. */
export function withheldEnd(error: RouterError): Pick<RelayEnd, 'ending' | 'error'> {
  return error instanceof CreditsExhaustedError
    ? { ending: 'credits_exhausted' }
    : { ending: 'failed', error };
}

/** How an interrupted answer ended, and the error that the client sees. */
export function interruptedEnd(error: Error | undefined): {
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
  if (error) Object.assign(cut, { cause: withoutAnswerBytes(error) });
  return { ending: 'upstream_cut', error: cut, shown: cut };
}
