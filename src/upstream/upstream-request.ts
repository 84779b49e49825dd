import type { IncomingHttpHeaders } from 'node:http';

import { byteLength, type BodyChunks } from '../http/body-chunks.ts';
import type { Target } from '../catalog/model.ts';
import type { AttemptTrace } from '../observability/request-trace.ts';
import type { UpstreamRequest } from './transport/transport.ts';

/** Allow-list of the client's headers that are forwarded to providers.
 *
 * All others (the key under any name, cookies, `expect`, forwarding headers) are
 * dropped, because the request to the provider is built from scratch.
 */
export const FORWARDED_REQUEST_HEADERS: readonly string[] = ['accept', 'openai-beta', 'anthropic-beta'];

/** Names of the hop-by-hop headers listed in `connection`, in lower case. */
export function nominatedHeaders({ connection }: IncomingHttpHeaders): readonly string[] {
  if (connection === undefined || connection === 'keep-alive') return NO_HEADERS;
  return connection.toLowerCase().split(/[\s,]+/);
}

const NO_HEADERS: readonly string[] = [];

/** What a request to a provider takes of the client's. */
export interface ForwardedRequest {
  readonly clientHeaders: IncomingHttpHeaders;
  /** It asks for a stream. */
  readonly stream: boolean;
}

/** Builds the request to a target: our headers, the provider's key, the given body.
 *
 * @param apiKey - undefined for a provider without keys
 * @param trace - adds the headers of hooks
 */
export function upstreamRequest(
  { provider, model }: Target,
  { clientHeaders, stream }: ForwardedRequest,
  apiKey: string | undefined,
  body: BodyChunks,
  trace: AttemptTrace | undefined,
): UpstreamRequest {
  const headers: Record<string, string> = {
    host: provider.origin.host,
    'user-agent': 'chat-completions-router',
    'content-type': 'application/json',
    'content-length': String(byteLength(body)),
    'accept-encoding': 'identity',
  };
  const nominated = nominatedHeaders(clientHeaders);
  for (const name of FORWARDED_REQUEST_HEADERS) {
    const value = clientHeaders[name];
    if (typeof value === 'string' && !nominated.includes(name)) headers[name] = value;
  }
  Object.assign(headers, provider.headers);
  if (apiKey !== undefined) headers[provider.authHeader] = provider.authPrefix + apiKey;
  trace?.addHeaders(headers);
  return {
    connection: provider.connection,
    path: provider.chatPath(model),
    headers,
    body,
    apiKey,
    isStream: stream,
  };
}
