import { type ListedModel, listedIds, readListedModels } from '../../catalog/provider-model-list.ts';
import { asError } from '../../platform/as-error.ts';
import { parseJson } from '../../catalog/json-value.ts';
import type { Provider } from '../../catalog/provider.ts';
import { Agents } from '../../upstream/transport/agents.ts';
import { fetchModels } from '../../upstream/list-models.ts';

/** Result of a request for a provider's model list. */
export type ListResult =
  | {
      readonly state: 'ok';
      readonly ids: ReadonlySet<string>;
      /** Text models, with their details. */
      readonly listed: readonly ListedModel[];
    }
  /** The provider has no list; that is no problem. */
  | { readonly state: 'none' }
  | { readonly state: 'failed'; readonly problem: string };

/** Requests a provider's model list with one of its keys. Never rejects; takes at most `timeoutMs`. */
export async function probeModels(
  provider: Provider,
  apiKey: string | undefined,
  timeoutMs: number,
): Promise<ListResult> {
  const { modelsPath } = provider;
  if (modelsPath === undefined) return { state: 'none' };
  const [shownPath] = modelsPath.split('?');
  const agents = new Agents();
  try {
    const { status, body } = await fetchModels(agents, provider, modelsPath, apiKey, { timeoutMs });
    if (status === 404 || status === 405 || status === 501) return { state: 'none' };
    if (status === 401 || status === 403) {
      return { state: 'failed', problem: `rejects the API key (${status} to GET ${shownPath})` };
    }
    if (status !== 200) return { state: 'failed', problem: `answers ${status} to GET ${shownPath}` };
    const list = parseJson(body);
    const ids = listedIds(list);
    return ids ? { state: 'ok', ids, listed: readListedModels(list) } : { state: 'none' };
  } catch (error) {
    return { state: 'failed', problem: describeFailure(asError(error)) };
  } finally {
    agents.close();
  }
}

function describeFailure(error: Error): string {
  if (!('code' in error)) return error.message;
  return `unreachable: ${error.message || String(error.code)}`;
}
