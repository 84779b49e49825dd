import { Timeout } from '../async/timeout.ts';
import { asError } from '../platform/as-error.ts';
import { concatChunks, ChunkCollector } from '../http/body-chunks.ts';
import { parseJson } from '../catalog/json-value.ts';
import { type ListedModel, readListedModels } from '../catalog/provider-model-list.ts';
import type { Provider } from '../catalog/provider.ts';
import { saysKeyRefused } from './provider-errors.ts';
import type { ProviderKeys } from './provider-keys.ts';

/** What a provider answered to `GET /models`. */
export interface ModelsResponse {
  readonly status: number;
  readonly body: string;
}

/** A list of models may be so long; OpenRouter's has less than one megabyte. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_MS = 30_000;

/**
 * Asks a provider for its models with one of its keys. A redirect, which would take the key elsewhere, is an answer as others are.
 *
 * @throws {Error} that says why there is no answer, without anything of it
 */
export async function fetchModels(
  { origin, headers, authHeader, authPrefix }: Provider,
  path: string,
  apiKey: string | undefined,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Promise<ModelsResponse> {
  const late = new AbortController();
  const timeout = new Timeout(timeoutMs, () => {
    late.abort(new Error(`it gave no list of models in ${timeoutMs} ms`));
  });
  const request = {
    headers: {
      'user-agent': 'chat-completions-router',
      ...headers,
      accept: 'application/json',
      ...(apiKey !== undefined && { [authHeader]: authPrefix + apiKey }),
    },
    redirect: 'manual' as const,
    // A framework's fetch may keep answers.
    cache: 'no-store',
    signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
  };
  try {
    const response = await fetch(new URL(path, origin), request);
    return { status: response.status, body: await readBounded(response) };
  } catch (error) {
    throw late.signal.aborted ? asError(late.signal.reason) : error;
  } finally {
    timeout.clear();
  }
}

/**
 * Asks a provider for its models, with its keys in turn.
 *
 * @throws {Error} that says what was wrong with the answer, without anything of it
 */
export async function listModels(
  provider: Provider,
  keys: ProviderKeys,
  signal: AbortSignal,
): Promise<readonly ListedModel[]> {
  const { modelsPath } = provider;
  if (modelsPath === undefined) throw new Error('each of its models has an address of its own');
  const turn = keys.keysFor(provider);
  let failure = new Error('it was not asked');
  for (const key of turn.length > 0 ? turn : [undefined]) {
    const terms = { timeoutMs: MAX_MS, signal };
    const { status, body } = await fetchModels(provider, modelsPath, await key?.read(), terms);
    if (status >= 200 && status < 300) return readList(body);
    failure = new Error(`it answered with status ${status}`);
    if (!isKeysFault(status, body)) break;
    key?.eject();
  }
  throw failure;
}

function readList(body: string): readonly ListedModel[] {
  const list = parseJson(body);
  if (list === undefined) throw new Error('its answer is not JSON');
  return readListedModels(list);
}

/** Whether another key may get an answer. */
function isKeysFault(status: number, body: string): boolean {
  return status === 400 ? saysKeyRefused(body) : [401, 402, 403, 429].includes(status);
}

async function readBounded({ body }: Response): Promise<string> {
  const pieces = new ChunkCollector();
  for await (const piece of body ?? []) {
    pieces.add(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
    if (pieces.length > MAX_BYTES) throw new Error(`its answer is longer than ${MAX_BYTES} bytes`);
  }
  return concatChunks(pieces.take()).toString();
}
