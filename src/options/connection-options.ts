import type { LookupFunction } from 'node:net';

/** How the connections to a provider are made. */
export interface ConnectionOptions {
  /**
   * The outbound proxy, `http://user:password@host:port` or with `https:`. Connections go through it by `CONNECT`, so that it
   * sees no keys and no content of a provider with `https:`. `'environment'`: as `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and
   * `NO_PROXY` say when a connection is opened. `false`: none.
   *
   * @default the router's
   */
  readonly proxy?: OutboundProxyOption;
  /** Certificates for TLS. */
  readonly tls?: TlsOptions;
  /** The local IP address that connections are made from. */
  readonly localAddress?: string;
  /** Resolves host names, in place of `dns.lookup`. */
  readonly lookup?: LookupFunction;
  /**
   * Most connections to the provider at a time. A request beyond them waits until one is free; the wait is a part of
   * `timeouts.connectMs`.
   *
   * @default Infinity
   */
  readonly maxConnections?: number;
  /**
   * How many unused connections are kept open, from the first request or `ready()` on, so that a request after a pause waits
   * for no TCP and TLS handshake. One that is used or closed is replaced.
   *
   * @default 0
   */
  readonly keepWarm?: number;
}

export type OutboundProxyOption = string | false;

/** Certificates, as PEM text or its bytes. In a config file of the command, the path of a PEM file is allowed, too. */
export interface TlsOptions {
  /** Certificate authorities to trust in place of Node's list, such as a private one. */
  readonly ca?: Pem | readonly Pem[];
  /** The client certificate, with its chain, for providers that require one (mTLS). Requires `key`. */
  readonly cert?: Pem;
  /** The private key of `cert`. */
  readonly key?: Pem;
  /** The passphrase of `key`. */
  readonly passphrase?: string;
  /** The name in the provider's certificate, also sent as SNI. @default the host of the base URL */
  readonly servername?: string;
}

export type Pem = string | Uint8Array;
