import { UpstreamTimeoutError } from '../../errors/upstream-errors.ts';
import type { Dialer } from './dialer.ts';

/** The error for a request that is aborted while it waits for a connection: the limit is to blame if all are in use, and one at least stands.
 *
 * @param others - the number of other requests that wait
 */
export function waitEnded(
  reason: Error,
  { connection, hasRoom, isConnected }: Pick<Dialer, 'connection' | 'hasRoom' | 'isConnected'>,
  others: number,
): Error {
  if (!(reason instanceof UpstreamTimeoutError) || reason.timeout !== 'connect') return reason;
  if (hasRoom || !isConnected) return reason;
  const { maxConnections, origin, connectMs } = connection;
  const cause = new Error(
    `${origin.origin}: all maxConnections (${maxConnections}) are in use, and ${others} other requests wait`,
  );
  return Object.assign(new UpstreamTimeoutError('wait', connectMs), { cause });
}

/** Takes a request that is aborted before it was sent out of those that wait. Returns the error for it. */
export type Withdraw<Request> = (request: Request, reason: Error) => Error;
