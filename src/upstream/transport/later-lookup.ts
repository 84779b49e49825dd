import type { LookupFunction } from 'node:net';

/** A `lookup` that never calls back before it has returned: Node breaks where a TLS socket fails while it is being made. */
export function laterLookup(lookup: LookupFunction): LookupFunction {
  return (host, options, callback) => {
    lookup(host, options, (...found) => {
      process.nextTick(callback, ...found);
    });
  };
}
