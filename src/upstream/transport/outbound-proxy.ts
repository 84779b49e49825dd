import * as http from 'node:http';
import * as https from 'node:https';
import { isIP, type Socket } from 'node:net';
import * as tls from 'node:tls';

import type { Connection } from '../../catalog/connection.ts';
import { decodeOnce, hostOf, portOf } from '../../http/url.ts';
import { asError } from '../../platform/as-error.ts';
import { laterLookup } from './later-lookup.ts';
import { isExempt } from './no-proxy.ts';

/** The outbound proxy failed. Its message is for the operator; it contains no password. */
class OutboundProxyError extends Error {
  /** As a system error has one, because clients are shown no more. */
  readonly code = 'EPROXY';
}

/** The outbound proxy for new connections; undefined if they go straight to the provider.
 *
 * @throws {OutboundProxyError} if the environment names no usable one
 */
export function outboundProxy(
  { origin, proxy }: Connection,
  env: NodeJS.ProcessEnv = process.env,
): URL | undefined {
  if (proxy === undefined) return undefined;
  return proxy === 'environment' ? fromEnvironment(origin, env) : new URL(proxy);
}

/** As curl: a name in lower case goes first, an empty value is none, and a URL may lack its scheme. */
function fromEnvironment(origin: URL, env: NodeJS.ProcessEnv): URL | undefined {
  const read = (name: string): string => env[name] || env[name.toUpperCase()] || '';
  const name = origin.protocol === 'https:' ? 'https_proxy' : 'http_proxy';
  const value = read(name) || read('all_proxy');
  if (value === '' || isExempt(origin, read('no_proxy'))) return undefined;
  const url = URL.parse(value.includes('://') ? value : `http://${value}`);
  if (url && (url.protocol === 'http:' || url.protocol === 'https:')) return url;
  throw new OutboundProxyError(
    `The URL in ${name.toUpperCase()} or ALL_PROXY must begin with http: or https:.`,
  );
}

/** Opens a connection through a proxy, with `CONNECT`. The provider's TLS is still to come.
 *
 * @param background - the attempt doesn't keep the process alive
 * @throws {OutboundProxyError} or the reason of `signal`, once that is aborted
 */
export function openTunnel(
  proxy: URL,
  { origin, tls: certificates, localAddress, lookup }: Connection,
  { signal, background }: { readonly signal: AbortSignal; readonly background: boolean },
): Promise<Socket> {
  const target = `${origin.hostname}:${portOf(origin)}`;
  const { request } = proxy.protocol === 'https:' ? https : http;
  const host = hostOf(proxy);
  return new Promise((resolve, reject) => {
    const connect = request({
      method: 'CONNECT',
      host,
      port: portOf(proxy),
      // Of the proxy's own certificate: Node would take the name in the header `host`, which is the provider's.
      servername: isIP(host) === 0 ? host : '',
      path: target,
      headers: { host: target, ...authorization(proxy) },
      agent: false,
      signal,
      ...(localAddress !== undefined && { localAddress }),
      ...(lookup && { lookup: laterLookup(lookup) }),
      // Its certificate may be a public one, while that of the provider is private.
      ...(certificates?.ca && { ca: [...publicAuthorities(), ...certificates.ca] }),
    });
    if (background) {
      connect.once('socket', (socket) => {
        unrefWhileConnecting(socket);
      });
    }
    connect.once('connect', ({ statusCode = 0 }, socket, head) => {
      if (statusCode >= 200 && statusCode < 300) {
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
        return;
      }
      socket.destroy();
      reject(new OutboundProxyError(`${nameOf(proxy)} answered CONNECT ${target} with status ${statusCode}`));
    });
    connect.once('error', (error) => {
      if (signal.aborted) reject(asError(signal.reason));
      else
        reject(
          new OutboundProxyError(`${nameOf(proxy)} opened no connection to ${target}: ${error.message}`),
        );
    });
    connect.end();
  });
}

function authorization({ username, password }: URL): http.OutgoingHttpHeaders {
  if (username === '' && password === '') return {};
  const credentials = `${decodeOnce(username)}:${decodeOnce(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
}

/** With those of `NODE_EXTRA_CA_CERTS`, where the runtime can list them. */
function publicAuthorities(): readonly string[] {
  const { getCACertificates }: Partial<typeof tls> = tls;
  return getCACertificates?.() ?? tls.rootCertificates;
}

function nameOf({ protocol, host }: URL): string {
  return `The outbound proxy ${protocol}//${host}`;
}

/** A socket tries several addresses, each with a handle of its own. */
export function unrefWhileConnecting(socket: Socket): void {
  socket.unref();
  socket.on('connectionAttempt', () => {
    socket.unref();
  });
}
