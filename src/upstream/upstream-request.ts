import * as http from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import * as https from 'node:https';

import { byteLength, type BodyChunks } from '../http/body-chunks.ts';
import type { Target } from '../catalog/model.ts';
import type { AttemptTrace } from '../observability/request-trace.ts';
import type { UpstreamRequest } from './transport.ts';

/** Allow-list of the client's headers that are forwarded to providers.
 *
 * All others (the key under any name, cookies, `expect`, forwarding headers) are
 * dropped, because the request to the provider is built from scratch.
 */
export const FORWARDED_REQUEST_HEADERS: readonly string[] = ['accept', 'openai-beta', 'anthropic-beta'];

/** Names of the hop-by-hop headers listed in `connection`, in lower case. */
export function nominatedHeaders({ connection }: IncomingHttpHeaders): readonly string[] {
  return connection?.toLowerCase().split(/[\s,]+/) ?? [];
}

/** Builds the request to a target: our headers, the provider's key, the given body.
 *
 * @param apiKey - undefined for a provider without keys
 * @param trace - adds the headers of hooks
 */
export function upstreamRequest(
  { provider, model }: Target,
  clientHeaders: IncomingHttpHeaders,
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
    origin: provider.origin,
    path: provider.chatPath(model),
    headers,
    body,
    apiKey,
  };
}

/** Keep-alive connections to providers, without a limit on their number.
 *
 * httpxy's own agents silently queue requests beyond 256 sockets. An idle
 * socket is closed before a provider would close it: after `KEEP_ALIVE_MS`, or
 * the time that the provider announces, if that is shorter.
 */
export class Agents {
  readonly #byOrigin = new Map<string, http.Agent>();
  /** Avoids `URL.origin`, which builds its string on each read. */
  readonly #byUrl = new WeakMap<URL, http.Agent>();

  for(url: URL): http.Agent {
    let agent = this.#byUrl.get(url);
    if (!agent) {
      const { origin, protocol } = url;
      agent = this.#byOrigin.get(origin) ?? (protocol === 'https:' ? new HttpsAgent() : new HttpAgent());
      this.#byOrigin.set(origin, agent);
      this.#byUrl.set(url, agent);
    }
    return agent;
  }

  close(): void {
    for (const agent of this.#byOrigin.values()) agent.destroy();
  }
}

const KEEP_ALIVE_MS = 30_000;

const AGENT_OPTIONS: http.AgentOptions = {
  keepAlive: true,
  maxSockets: Infinity,
  maxFreeSockets: 1024,
  timeout: KEEP_ALIVE_MS,
  scheduling: 'lifo',
};

/** All connections of an agent go to one origin, so one constant pool name serves all requests. */
const NAME = 'origin';

class HttpAgent extends http.Agent {
  constructor() {
    super(AGENT_OPTIONS);
  }

  override getName(): string {
    return NAME;
  }
}

class HttpsAgent extends https.Agent {
  constructor() {
    super(AGENT_OPTIONS);
  }

  override getName(): string {
    return NAME;
  }
}
