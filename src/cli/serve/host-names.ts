import type { IncomingMessage } from 'node:http';

import { optionError } from '../../options/resolve-options.ts';

/**
 * The names by which a server may be asked, so that no page whose name was made to point here (DNS rebinding) can ask it.
 *
 * Case, the port and one dot at the end don't count; an IPv6 address counts however it is written.
 */
export class HostNames {
  readonly #names: ReadonlySet<string>;

  /** @throws {TypeError} naming the option, for what can be no host name */
  constructor(names: readonly string[], option: string) {
    if (!Array.isArray(names) || names.length === 0) throw optionError(option, 'a list of host names', names);
    this.#names = new Set(
      names.map((name: unknown) => {
        const isAddress = typeof name === 'string' && /^[\da-f]*:[\da-f:.]*$/i.test(name);
        const known = typeof name === 'string' ? nameIn(isAddress ? `[${name}]` : name) : undefined;
        if (known === undefined || (!isAddress && /:\d*$/.test(String(name)))) {
          throw optionError(option, 'host names without ports, as "gateway.example.com" or "::1"', name);
        }
        return known;
      }),
    );
  }

  /** Whether each `Host` header of a request is one of them, and there is one. */
  allow({ headersDistinct: { host = [] } }: IncomingMessage): boolean {
    return host.length > 0 && host.every((each) => this.#names.has(nameIn(each) ?? ''));
  }
}

/** The name in a `Host` header, in one spelling; undefined where there is none. */
function nameIn(host: string): string | undefined {
  if (!/^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d*)?$/i.test(host)) return undefined;
  try {
    const { hostname } = new URL(`http://${host}`);
    return hostname.replace(/\.$/, '') || undefined;
  } catch {
    return undefined;
  }
}
