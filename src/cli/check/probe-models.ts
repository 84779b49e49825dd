import { type ListedModel, listedIds, readListedModels } from '../../catalog/provider-model-list.ts';
import { parseJson } from '../../catalog/json-value.ts';
import type { Provider } from '../../catalog/provider.ts';
import { askForModels } from '../../upstream/list-models.ts';

/** What a provider said when it was asked for its models. */
export type ListResult =
  | {
      readonly state: 'ok';
      readonly ids: ReadonlySet<string>;
      /** Those that write text, with what else is said of them. */
      readonly listed: readonly ListedModel[];
    }
  /** It has no list, which is no fault. */
  | { readonly state: 'none' }
  | { readonly state: 'failed'; readonly problem: string };

/** Asks a provider for its models with one of its keys. Never rejects, and takes no longer than it is given. */
export async function probeModels(
  provider: Provider,
  apiKey: string | undefined,
  timeoutMs: number,
): Promise<ListResult> {
  const { modelsPath } = provider;
  if (modelsPath === undefined) return { state: 'none' };
  const [shownPath] = modelsPath.split('?');
  try {
    const { status, body } = await askForModels(provider, modelsPath, apiKey, { timeoutMs });
    if (status === 404 || status === 405 || status === 501) return { state: 'none' };
    if (status === 401 || status === 403) {
      return { state: 'failed', problem: `it refuses the key (${status} to GET ${shownPath})` };
    }
    if (status !== 200) return { state: 'failed', problem: `it answers ${status} to GET ${shownPath}` };
    const list = parseJson(body);
    const ids = listedIds(list);
    return ids ? { state: 'ok', ids, listed: readListedModels(list) } : { state: 'none' };
  } catch (error) {
    return { state: 'failed', problem: describeFailure(error) };
  }
}

/** What `fetch` itself says is only that it failed. */
function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return `it can't be reached: ${cause.message || String(Reflect.get(cause, 'code'))}`;
}
