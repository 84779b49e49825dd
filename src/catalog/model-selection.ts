import { ModelNotFoundError, ModelShutDownError } from '../errors/model-errors.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ClientRouting } from '../http/client-routing.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { Catalog } from './catalog.ts';
import { keepMatching, type TargetDemands } from './matching-targets.ts';
import { isShutDown, type Model, type SelectedModels, type Target } from './model.ts';
import { dayOf } from '../ledger/contract/usage.ts';

/** What the caller may see and pays, and what targets must have. */
export interface Selection {
  /** The models that the caller may see; undefined for all. */
  readonly allowed: ModelPatterns | undefined;
  /** A model at the caller's prices. */
  readonly priced: (model: Model) => Model;
  /** What targets must have; undefined for nothing. */
  readonly demands: TargetDemands | undefined;
}

/** Selects the models of a request and their targets: those that match and, with client routing, are allowed.
 *
 * @throws {ModelNotFoundError} for the first unknown model
 * @throws {ModelShutDownError} for the first model that was shut down
 * @throws {NoMatchingTargetError} if no target matches
 * @throws {InvalidRequestError} if a provider is unknown, or no target is left
 */
export function selectModels(
  catalog: Catalog,
  modelId: string,
  routing: ClientRouting | undefined,
  { allowed, priced, demands }: Selection,
): SelectedModels {
  const find = (id: string): Model => {
    const model = catalog.get(id);
    if (!model) throw new ModelNotFoundError(id, catalog.near(id, allowed));
    assertServed(model);
    return priced(model);
  };
  const first = find(modelId);
  if (routing) checkProviders(catalog, routing);
  const ids = new Set([modelId, ...(routing?.models ?? [])]);
  const all = [first, ...[...ids].slice(1).map(find)] as const;
  const matching = demands ? keepMatching(all, demands) : all;
  if (!routing) return matching;
  const left = matching
    .map((model) => withAllowedTargets(model, routing))
    .filter((model) => model !== undefined);
  const [head, ...rest] = left;
  if (!head) {
    throw new InvalidRequestError(
      'provider_not_available',
      `None of the providers that this request allows serves ${[...ids].map((id) => JSON.stringify(id)).join(', ')}.`,
      'provider',
    );
  }
  return [head, ...rest];
}

/** Whether the allowed patterns match a model, by the requested name or by its ID. */
export function isAllowed(allowed: ModelPatterns, id: string, catalog: Catalog): boolean {
  if (allowed.allows(id)) return true;
  const model = catalog.get(id);
  return model !== undefined && allowed.allows(model.id);
}

/** @throws {ModelShutDownError} from the shutdown date on */
export function assertServed(model: Model): void {
  if (!isShutDown(model, Date.now())) return;
  const { shutdownAt = 0, replacement } = model.deprecation ?? {};
  throw new ModelShutDownError(model.id, dayOf(shutdownAt), replacement);
}

/** Merges models for a quote: all prices, the largest limits, the first model's ID. */
export function mergeForQuote(models: SelectedModels): Model {
  const [first, ...rest] = models;
  return rest.reduce(
    (sum, model) => ({
      ...sum,
      targets: [...sum.targets, ...model.targets] as const,
      prices: [...new Set([...sum.prices, ...model.prices])],
      contextWindow: larger(sum.contextWindow, model.contextWindow, 'unlimited'),
      // Only a free model may have no limit, and its output costs nothing.
      maxOutputTokens: larger(sum.maxOutputTokens, model.maxOutputTokens, 'unknown'),
      webSearches: Math.max(sum.webSearches, model.webSearches),
      webSearchesNeeded: Math.max(sum.webSearchesNeeded, model.webSearchesNeeded),
      tokenBudgets: {
        image: Math.max(sum.tokenBudgets.image, model.tokenBudgets.image),
        audioPerSecond: Math.max(sum.tokenBudgets.audioPerSecond, model.tokenBudgets.audioPerSecond),
        file: Math.max(sum.tokenBudgets.file, model.tokenBudgets.file),
      },
      mediaBounds: {
        image: Math.max(sum.mediaBounds.image, model.mediaBounds.image),
        audioPerSecond: Math.max(sum.mediaBounds.audioPerSecond, model.mediaBounds.audioPerSecond),
        file: larger(sum.mediaBounds.file, model.mediaBounds.file, 'unlimited'),
      },
    }),
    first,
  );
}

function larger(
  a: number | undefined,
  b: number | undefined,
  undefinedMeans: 'unlimited' | 'unknown',
): number | undefined {
  if (a !== undefined && b !== undefined) return Math.max(a, b);
  return undefinedMeans === 'unlimited' ? undefined : (a ?? b);
}

/** Ignores case: OpenRouter's clients write `OpenAI`. */
function includesProvider(list: readonly string[] | undefined, { provider }: Target): boolean {
  return list !== undefined && indexIn(list, provider.name) !== -1;
}

function indexIn(list: readonly string[], name: string): number {
  return list.findIndex((one) => one.toLowerCase() === name.toLowerCase());
}

function withAllowedTargets(
  model: Model,
  { order, only, ignore, allowFallbacks }: ClientRouting,
): Model | undefined {
  let targets = model.targets.filter(
    (target) => (!only || includesProvider(only, target)) && !includesProvider(ignore, target),
  );
  if (order) {
    const rank = ({ provider }: Target): number => indexIn(order, provider.name);
    const listed = targets
      .filter((target) => includesProvider(order, target))
      .sort((a, b) => rank(a) - rank(b));
    targets = allowFallbacks
      ? [...listed, ...targets.filter((target) => !includesProvider(order, target))]
      : listed;
  } else if (!allowFallbacks) {
    targets = targets.slice(0, 1);
  }
  const [first, ...rest] = targets;
  if (!first) return undefined;
  const prices = [...new Set(targets.map(({ price }) => price))];
  return { ...model, targets: [first, ...rest], prices, strategy: order ? 'ordered' : model.strategy };
}

function checkProviders(catalog: Catalog, { order, only, ignore }: ClientRouting): void {
  for (const name of [...(order ?? []), ...(only ?? []), ...(ignore ?? [])]) {
    if (catalog.hasProvider(name)) continue;
    throw new InvalidRequestError(
      'provider_not_found',
      `Unknown provider ${JSON.stringify(name.slice(0, 60))}.`,
      'provider',
    );
  }
}
