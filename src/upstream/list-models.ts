import { once } from 'node:events';
import * as http from 'node:http';
import type { IncomingMessage } from 'node:http';
import * as https from 'node:https';
import type { Readable } from 'node:stream';

import { Timeout } from '../async/timeout.ts';
import { asError } from '../platform/as-error.ts';
import { bodyOfStream, streamOf } from '../http/answer-body.ts';
import { concatChunks, ChunkCollector } from '../http/body-chunks.ts';
import { parseJson } from '../catalog/json-value.ts';
import { type ListedModel, readListedModels } from '../catalog/provider-model-list.ts';
import type { Provider } from '../catalog/provider.ts';
import type { Agents } from './transport/agents.ts';
import { decoded } from './provider-answer.ts';
import { saysKeyRefused } from './provider-errors.ts';
import type { ProviderKeys } from './provider-keys.ts';

/** A provider's response to `GET /models`. */
export interface ModelsResponse {
  readonly status: number;
  readonly body: string;
}

/** Longest list that is read; OpenRouter's has less than one megabyte. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_MS = 30_000;

/** Requests a provider's list of models with one key. A redirect is returned and not followed, as that would send the key elsewhere.
 *
 * @throws {Error} with the reason why there is no response, and nothing of its content
 */
export async function fetchModels(
  agents: Agents,
  { origin, connection, headers, authHeader, authPrefix }: Provider,
  path: string,
  apiKey: string | undefined,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<ModelsResponse> {
  const deadline = new AbortController();
  const timeout = new Timeout(timeoutMs, () => {
    deadline.abort(new Error(`no list of models within ${timeoutMs} ms`));
  });
  const { get } = origin.protocol === 'https:' ? https : http;
  const request = get(new URL(path, origin), {
    agent: agents.for(connection),
    headers: {
      'user-agent': 'chat-completions-router',
      ...headers,
      accept: 'application/json',
      'accept-encoding': 'identity',
      ...(apiKey !== undefined && { [authHeader]: authPrefix + apiKey }),
    },
  });
  const ended = signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal;
  const abort = (): void => {
    request.destroy(asError(ended.reason));
  };
  ended.addEventListener('abort', abort);
  request.on('error', () => {});
  try {
    const [message]: IncomingMessage[] = await once(request, 'response', { signal: ended });
    if (!message) throw new Error('it did not answer');
    const { statusCode = 0, headers: received } = message;
    const head = { statusCode, headers: received, body: bodyOfStream(message) };
    return { status: statusCode, body: await readBounded(streamOf(decoded(head))) };
  } catch (error) {
    request.destroy();
    throw ended.aborted ? asError(ended.reason) : error;
  } finally {
    timeout.clear();
    ended.removeEventListener('abort', abort);
  }
}

/** Lists a provider's models, trying its keys in turn.
 *
 * @throws {Error} with what was wrong with the response, and nothing of its content
 */
export async function listModels(
  agents: Agents,
  provider: Provider,
  keys: ProviderKeys,
  signal: AbortSignal,
): Promise<readonly ListedModel[]> {
  const { modelsPath } = provider;
  if (modelsPath === undefined) throw new Error('its base URL contains {model}');
  const candidates = keys.keysFor(provider);
  let failure = new Error('it was not asked');
  for (const key of candidates.length > 0 ? candidates : [undefined]) {
    const terms = { timeoutMs: MAX_MS, signal };
    const { status, body } = await fetchModels(agents, provider, modelsPath, await key?.read(), terms);
    if (status >= 200 && status < 300) return readList(body);
    failure = new Error(`it answered with status ${status}`);
    if (!isKeyError(status, body)) break;
    key?.eject();
  }
  throw failure;
}

function readList(body: string): readonly ListedModel[] {
  const list = parseJson(body);
  if (list === undefined) throw new Error('its answer is not JSON');
  return readListedModels(list);
}

/** Whether another key may succeed. */
function isKeyError(status: number, body: string): boolean {
  return status === 400 ? saysKeyRefused(body) : [401, 402, 403, 429].includes(status);
}

async function readBounded(body: Readable): Promise<string> {
  const chunks = new ChunkCollector();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.add(chunk);
    if (chunks.length > MAX_BYTES) throw new Error(`its answer is longer than ${MAX_BYTES} bytes`);
  }
  return concatChunks(chunks.take()).toString();
}
