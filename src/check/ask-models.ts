import { withTimeout } from '../async/timeout.ts';
import type { Json } from '../models/json-value.ts';
import { type ListedModel, readListedModels } from '../models/listed-models.ts';
import type { Provider } from '../models/providers.ts';

/** What a provider said when it was asked for its models. */
export type ModelsAnswer =
  | {
      readonly state: 'ok';
      readonly ids: ReadonlySet<string>;
      /** Those that write text, with what else is said of them. */
      readonly listed: readonly ListedModel[];
      readonly ms: number;
    }
  /** It has no list, which is no fault. */
  | { readonly state: 'none'; readonly ms: number }
  | { readonly state: 'failed'; readonly problem: string };

/** Longer lists than any that there is. */
const MAX_BYTES = 16 * 1024 * 1024;

/** Asks a provider for its models with one of its keys. Never rejects, and takes no longer than it is given. */
export async function askModels(
  provider: Provider,
  apiKey: string | undefined,
  timeoutMs: number,
): Promise<ModelsAnswer> {
  const url = modelsUrl(provider);
  const startedAt = performance.now();
  const ms = (): number => Math.round(performance.now() - startedAt);
  if (!url) return { state: 'none', ms: 0 };
  const headers = {
    accept: 'application/json',
    'user-agent': 'chat-completions-router',
    ...provider.headers,
    ...(apiKey !== undefined && { [provider.authHeader]: provider.authPrefix + apiKey }),
  };
  const controller = new AbortController();
  try {
    const asked = fetch(url, { headers, redirect: 'manual', signal: controller.signal }).then(read);
    asked.catch(() => {});
    const answer = await withTimeout(asked, timeoutMs, () => undefined);
    if (!answer) return { state: 'failed', problem: `it gave no list of models in ${timeoutMs} ms` };
    const { status, text } = answer;
    if (status === 404 || status === 405 || status === 501) return { state: 'none', ms: ms() };
    if (status === 401 || status === 403) {
      return { state: 'failed', problem: `it refuses the key (${status} to GET ${url.pathname})` };
    }
    if (status !== 200) return { state: 'failed', problem: `it answers ${status} to GET ${url.pathname}` };
    const models = modelsOf(text);
    return models ? { state: 'ok', ...models, ms: ms() } : { state: 'none', ms: ms() };
  } catch (error) {
    return { state: 'failed', problem: `it can't be reached: ${causeOf(error)}` };
  } finally {
    controller.abort();
  }
}

/** Beside its chat completions; where each model has a path of its own, there is no list. */
function modelsUrl({ origin, chatPath }: Provider): URL | undefined {
  const [path, query = ''] = chatPath('m').split('?');
  if (chatPath('m') !== chatPath('n') || path === undefined) return undefined;
  const url = new URL(path.replace(/\/chat\/completions$/, '/models'), origin);
  url.search = query;
  return url;
}

async function read(response: Response): Promise<{ readonly status: number; readonly text: string }> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    if (text.length < MAX_BYTES) text += decoder.decode(chunk, { stream: true });
  }
  return { status: response.status, text };
}

/** `{ data: [{ id }] }`, or a bare list of them, as some have it. */
function modelsOf(
  text: string,
): { readonly ids: ReadonlySet<string>; readonly listed: readonly ListedModel[] } | undefined {
  let parsed: Json;
  try {
    parsed = JSON.parse(text);
  } catch {
    return undefined;
  }
  const list: unknown = Array.isArray(parsed) ? parsed : Reflect.get(Object(parsed), 'data');
  if (!Array.isArray(list)) return undefined;
  const ids = list
    .map((each: unknown): unknown => Reflect.get(Object(each), 'id'))
    .filter((id) => typeof id === 'string');
  return { ids: new Set(ids), listed: readListedModels(parsed) };
}

/** What `fetch` itself says is only that it failed. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  if (!(cause instanceof Error)) return String(cause);
  const code: unknown = Reflect.get(cause, 'code');
  return cause.message || String(code);
}
