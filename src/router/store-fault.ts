import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';

import { withoutCredentials } from '../platform/without-credentials.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';

/**
 * The error of `ready()`: which store can't be used, and why.
 *
 * @param storeName - the URL of the store, without its password
 */
export function storeFault(error: unknown, storeName: string): unknown {
  if (!(error instanceof Error)) return error;
  if (!(error instanceof StoreUnavailableError)) {
    const reason = withoutCredentials(error.message);
    return new Error(`The store ${storeName} can't be used: ${reason}`, { cause: error });
  }
  const { applied, cause } = error;
  const reasons = cause instanceof Error ? reasonsOf(cause, storeName) : [NO_ANSWER];
  return new StoreUnavailableError(
    applied,
    { cause: cause ?? error },
    `The store ${storeName} can't be used: ${withoutCredentials(reasons.join(': '))}`,
  );
}

/** A server that expects TLS, or doesn't, may not answer at all. */
const NO_ANSWER =
  'it did not answer in time. Check the host, the port, and that rediss:// is used only for a server with TLS';

function reasonsOf(cause: Error, storeName: string): readonly string[] {
  // ioredis: what the node of a cluster said.
  const lastNodeError: unknown = Reflect.get(cause, 'lastNodeError');
  const inner = lastNodeError instanceof Error ? lastNodeError : fileFault(cause, storeName);
  return [cause, inner].flatMap((each) => each?.message ?? []);
}

/** Why SQLite can't open a file, which it doesn't say itself. */
function fileFault({ message }: Error, storeName: string): Error | undefined {
  const [, path] = /^sqlite:(.*)/.exec(storeName) ?? [];
  if (path === undefined || !/unable to open database file|readonly database/.test(message)) return undefined;
  return accessFault(path) ?? accessFault(dirname(path));
}

function accessFault(path: string): Error | undefined {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    return error instanceof Error && !isMissing ? error : undefined;
  }
}
