import { X509Certificate } from 'node:crypto';
import { isIP, type LookupFunction } from 'node:net';
import { createSecureContext } from 'node:tls';

import type { ConnectionOptions, Pem, TlsOptions } from '../options/connection-options.ts';
import { assertObject, optionError, positiveInteger, resolveProxy } from '../options/resolve-options.ts';

/** What a connection to a provider is made of. Two that are equal can share their connections. */
export interface Connection {
  /** Scheme, host and port. */
  readonly origin: URL;
  /** The URL of the outbound proxy, which may contain a password; `'environment'`; or undefined for none. */
  readonly proxy: string | undefined;
  readonly tls: Certificates | undefined;
  readonly localAddress: string | undefined;
  readonly lookup: LookupFunction | undefined;
  /** Infinity: no limit. */
  readonly maxConnections: number;
  /** Number of unused connections that are kept open. */
  readonly keepWarm: number;
  /** The provider whose `maxConnections` or `keepWarm` these are: no other one shares them. Undefined without either. */
  readonly owner: string | undefined;
  readonly connectMs: number;
}

/** As `TlsOptions`, all in PEM text. */
export interface Certificates {
  readonly ca?: readonly string[];
  readonly cert?: string;
  readonly key?: string;
  readonly passphrase?: string;
  readonly servername?: string;
}

export interface ConnectionDefaults {
  readonly proxy: string | undefined;
  readonly connectMs: number;
}

/** @param option - path of the provider's option, for messages, and for its own connections: `providers["azure"]`
 * @throws {TypeError} naming the invalid option, without the value of a secret
 */
export function resolveConnection(
  origin: URL,
  given: ConnectionOptions,
  { proxy, connectMs }: ConnectionDefaults,
  option: string,
): Connection {
  const { tls, localAddress, lookup, maxConnections = Infinity, keepWarm = 0 } = given;
  if (localAddress !== undefined && isIP(localAddress) === 0) {
    throw optionError(`${option}.localAddress`, 'an IP address', localAddress);
  }
  if (lookup !== undefined && typeof lookup !== 'function') {
    throw optionError(`${option}.lookup`, 'a function', lookup);
  }
  if (maxConnections !== Infinity) positiveInteger(maxConnections, `${option}.maxConnections`);
  if (!Number.isSafeInteger(keepWarm) || keepWarm < 0 || keepWarm > maxConnections) {
    const most = maxConnections === Infinity ? '' : ` up to maxConnections (${maxConnections})`;
    throw optionError(`${option}.keepWarm`, `an integer of 0 or more${most}`, keepWarm);
  }
  if (tls !== undefined && origin.protocol !== 'https:') {
    throw new TypeError(`${option}.tls needs a base URL with https:`);
  }
  return {
    origin,
    proxy: given.proxy === undefined ? proxy : resolveProxy(given.proxy, `${option}.proxy`),
    tls: tls === undefined ? undefined : resolveTls(tls, `${option}.tls`),
    localAddress,
    lookup,
    maxConnections,
    keepWarm,
    owner: maxConnections !== Infinity || keepWarm > 0 ? option : undefined,
    connectMs,
  };
}

const TLS_OPTIONS: Record<keyof TlsOptions, true> = {
  ca: true,
  cert: true,
  key: true,
  passphrase: true,
  servername: true,
};

function resolveTls(given: TlsOptions, option: string): Certificates {
  // Never show the value: it may be a private key.
  if (typeof given !== 'object') throw new TypeError(`${option} must be an object`);
  assertObject(given, option, TLS_OPTIONS);
  const { ca, cert, key, passphrase, servername } = given;
  if ((cert === undefined) !== (key === undefined)) {
    throw new TypeError(
      `${option}.${cert === undefined ? 'cert' : 'key'} is missing: cert and key belong together`,
    );
  }
  for (const [name, value] of Object.entries({ passphrase, servername })) {
    if (value !== undefined && (typeof value !== 'string' || value === '')) {
      throw new TypeError(`${option}.${name} must be a non-empty string`);
    }
  }
  const certificates = {
    ...(ca !== undefined && { ca: listOf(ca).map((each) => pemText(each, 'CERTIFICATE', `${option}.ca`)) }),
    ...(cert !== undefined && { cert: pemText(cert, 'CERTIFICATE', `${option}.cert`) }),
    ...(key !== undefined && { key: pemText(key, 'PRIVATE KEY', `${option}.key`) }),
    ...(passphrase !== undefined && { passphrase }),
    ...(servername !== undefined && { servername }),
  };
  const { ca: authorities, cert: chain, key: privateKey } = certificates;
  // As authorities, OpenSSL passes over what is no certificate.
  check(`${option}.ca`, () => authorities?.map(parseCertificates));
  check(`${option}.cert`, () => createSecureContext({ cert: chain }));
  check(`${option}.key`, () => createSecureContext({ cert: chain, key: privateKey, passphrase }));
  return certificates;
}

function listOf(given: Pem | readonly Pem[]): readonly Pem[] {
  return typeof given === 'string' || given instanceof Uint8Array ? [given] : given;
}

function pemText(given: unknown, label: string, option: string): string {
  const text = given instanceof Uint8Array ? Buffer.from(given).toString() : given;
  if (typeof text === 'string' && hasPart(text, label)) return text;
  throw new TypeError(`${option} must be PEM text with BEGIN ${label}, or the bytes of such a file`);
}

/** Whether the text has a part such as `-----BEGIN RSA PRIVATE KEY-----`, whose name ends with the label. */
function hasPart(text: string, label: string): boolean {
  const [, ...parts] = text.split('-----BEGIN ');
  return parts.some((part) => part.slice(0, part.indexOf('-----')).endsWith(label));
}

function parseCertificates(text: string): X509Certificate[] {
  const parts = text.split(/(?=-----BEGIN )/).filter((part) => part.startsWith('-----BEGIN '));
  return parts.map((part) => new X509Certificate(part));
}

/** The reason that OpenSSL gives tells what is wrong, and nothing of the content. */
function check(option: string, read: () => unknown): void {
  try {
    read();
  } catch (error) {
    const reason: unknown = error instanceof Error && 'reason' in error ? error.reason : undefined;
    throw new TypeError(`${option} can't be used${typeof reason === 'string' ? `: ${reason}` : ''}`, {
      cause: error,
    });
  }
}
