import type { IncomingHttpHeaders } from 'node:http';

import { UpstreamError } from '../errors.ts';
import type { Target } from '../models/catalog.ts';
import type { Provider } from '../models/providers.ts';
import type { Agents } from './agents.ts';
import type { UpstreamRequest } from './send.ts';

/**
 * The client's headers that a provider gets to see, all of them.
 *
 * An allow-list: whatever else a client sends (its key under any name, cookies,
 * `expect`, forwarding headers) ends here, because the request to the provider
 * is written anew and not edited.
 */
export const FORWARDED_REQUEST_HEADERS: readonly string[] = ['accept', 'openai-beta', 'anthropic-beta'];

/**
 * Writes the request that goes to a target: our headers, the provider's key, the given bytes.
 *
 * @throws {UpstreamError} if the provider's key can't be had
 */
export async function upstreamRequest(
  target: Target,
  clientHeaders: IncomingHttpHeaders,
  body: Buffer,
  agents: Agents,
): Promise<UpstreamRequest> {
  const { provider } = target;
  const headers: Record<string, string> = {
    host: provider.origin.host,
    'user-agent': 'chat-completions-router',
    'content-type': 'application/json',
    'content-length': String(body.length),
    'accept-encoding': 'identity',
  };
  for (const name of FORWARDED_REQUEST_HEADERS) {
    const value = clientHeaders[name];
    if (typeof value === 'string') headers[name] = value;
  }
  Object.assign(headers, provider.headers);
  if (provider.apiKey) {
    headers[provider.authHeader] = provider.authPrefix + (await readApiKey(provider));
  }
  return {
    origin: provider.origin,
    path: provider.chatPath,
    headers,
    body,
    agent: agents.for(provider.origin),
  };
}

/** A key that is missing, late or broken fails this request; it is never shown, not even to the host's log. */
async function readApiKey({ name, apiKey, timeouts }: Provider): Promise<string> {
  let key: string | undefined;
  try {
    const read = apiKey?.();
    key = read instanceof Promise ? await inTime(read, timeouts.connectMs) : read;
  } catch (cause) {
    throw Object.assign(missingKey(name), { cause });
  }
  if (typeof key !== 'string' || !/^[\u0021-\u007e]+$/.test(key)) throw missingKey(name);
  return key;
}

async function inTime<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`apiKey did not resolve in ${ms} ms`));
    }, ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The host is told which provider it is; the client is not. */
function missingKey(provider: string): UpstreamError {
  const error = new UpstreamError(
    'upstream_refused_credentials',
    "The model's provider is not set up here: its API key is missing.",
  );
  return Object.assign(error, { provider });
}
