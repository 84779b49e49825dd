import { Timeout } from '../async/timeout.ts';
import { joined, PieceCollector } from '../http/pieces.ts';
import type { Json } from '../models/json-value.ts';
import { type ListedModel, readListedModels } from '../models/listed-models.ts';
import type { Provider } from '../models/providers.ts';
import type { ProviderKeys } from './provider-keys.ts';
import { saysKeyRefused } from './refused-key.ts';

/** A list of models may be so long; OpenRouter's has less than one megabyte. */
const MOST_BYTES = 16 * 1024 * 1024;
const LONGEST_MS = 30_000;

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
  const late = new AbortController();
  const timeout = new Timeout(LONGEST_MS, () => {
    late.abort(new Error(`it gave no list of models in ${LONGEST_MS} ms`));
  });
  try {
    return await ask(provider, keys, AbortSignal.any([signal, late.signal]));
  } finally {
    timeout.clear();
  }
}

async function ask(
  provider: Provider,
  keys: ProviderKeys,
  signal: AbortSignal,
): Promise<readonly ListedModel[]> {
  const turn = keys.turn(provider);
  let failure = new Error('it was not asked');
  for (const key of turn.length > 0 ? turn : [undefined]) {
    const apiKey = await key?.read();
    const request = {
      headers: {
        ...provider.headers,
        accept: 'application/json',
        ...(apiKey !== undefined && { [provider.authHeader]: provider.authPrefix + apiKey }),
      },
      // A redirect would take the key elsewhere, and a framework's fetch may cache.
      redirect: 'error' as const,
      cache: 'no-store',
      signal,
    };
    const response = await fetch(new URL(provider.modelsPath, provider.origin), request);
    if (response.ok) return readListedModels(parse(await readBounded(response)));
    failure = new Error(`it answered with status ${response.status}`);
    if (!(await isKeysFault(response))) break;
    key?.setAside();
  }
  throw failure;
}

/** Whether another key may get an answer. */
async function isKeysFault(response: Response): Promise<boolean> {
  if (response.status === 400) return saysKeyRefused(await readBounded(response));
  await response.body?.cancel();
  return [401, 402, 403, 429].includes(response.status);
}

async function readBounded({ body }: Response): Promise<string> {
  const pieces = new PieceCollector();
  for await (const piece of body ?? []) {
    pieces.add(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
    if (pieces.length > MOST_BYTES) throw new Error(`its answer is longer than ${MOST_BYTES} bytes`);
  }
  return joined(pieces.take()).toString();
}

function parse(text: string): Json {
  let json: Json;
  try {
    json = JSON.parse(text);
  } catch {
    // The parser's own message would show a piece of it.
  }
  if (json === undefined) throw new Error('its answer is not JSON');
  return json;
}
