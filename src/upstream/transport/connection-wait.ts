import type { Connection } from '../../catalog/connection.ts';
import { UpstreamTimeoutError } from '../../errors/upstream-errors.ts';

/** The error for a request that is aborted while it waits for one of `maxConnections`.
 *
 * @param others - the number of other requests that wait
 */
export function waitEnded(
  reason: Error,
  { maxConnections, origin, connectMs }: Connection,
  others: number,
): Error {
  if (!(reason instanceof UpstreamTimeoutError) || reason.timeout !== 'connect') return reason;
  const cause = new Error(
    `${origin.origin}: all maxConnections (${maxConnections}) are in use, and ${others} other requests wait`,
  );
  return Object.assign(new UpstreamTimeoutError('wait', connectMs), { cause });
}

/** Takes a request that is aborted before it was sent out of those that wait. Returns the error for it. */
export type Withdraw<Request> = (request: Request, reason: Error) => Error;
