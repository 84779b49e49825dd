import type { IncomingMessage } from 'node:http';

import { optionError } from '../../options/resolve-options.ts';

/**
 * The accepted `Host` names of a server, against DNS rebinding.
 *
 * Ignores case, the port and one trailing dot; compares IPv6 addresses in their canonical form.
 */
export class HostNames {
  readonly #names: ReadonlySet<string>;

  /** @throws {TypeError} naming the option, for an invalid host name */
  constructor(names: readonly string[], option: string) {
    if (!Array.isArray(names) || names.length === 0) throw optionError(option, 'a list of host names', names);
    this.#names = new Set(
      names.map((name: unknown) => {
        const isAddress = typeof name === 'string' && /^[\da-f]*:[\da-f:.]*$/i.test(name);
        const hostName = typeof name === 'string' ? canonicalName(isAddress ? `[${name}]` : name) : undefined;
        if (hostName === undefined || (!isAddress && /:\d*$/.test(String(name)))) {
          throw optionError(option, 'host names without ports, such as "gateway.example.com" or "::1"', name);
        }
        return hostName;
      }),
    );
  }

  /** Whether a request has a `Host` header, and every one of them is accepted. */
  allow({ headersDistinct: { host = [] } }: IncomingMessage): boolean {
    return host.length > 0 && host.every((each) => this.#names.has(canonicalName(each) ?? ''));
  }
}

/** The host name of a `Host` header, in canonical form; undefined if the header is invalid. */
function canonicalName(host: string): string | undefined {
  if (!/^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d*)?$/i.test(host)) return undefined;
  try {
    const { hostname } = new URL(`http://${host}`);
    return hostname.replace(/\.$/, '') || undefined;
  } catch {
    return undefined;
  }
}
