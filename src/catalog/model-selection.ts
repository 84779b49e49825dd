import { ModelNotFoundError, ModelShutDownError } from '../errors/model-errors.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ClientRouting } from '../http/client-routing.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import { SORT_SUFFIXES, type SortStrategy } from '../options/strategies.ts';
import type { Catalog } from './catalog.ts';
import { keepMatching, type TargetDemands } from './matching-targets.ts';
import { type ClientOrder, isShutDown, type Model, type SelectedModels, type Target } from './model.ts';
import { dayOf } from '../ledger/contract/usage.ts';

/** A model that a request asks for. */
export interface AskedModel {
  readonly id: string;
  /** The same, as the client wrote it. */
  readonly name: string;
  /** By its suffix: how its targets are sorted. */
  readonly sort: SortStrategy | undefined;
}

/** At least one; each once. */
export type AskedModels = readonly [AskedModel, ...AskedModel[]];

/**
 * The models that a request names, first its own.
 *
 * @param readsSuffixes - `:nitro` and `:floor` sort the targets, unless the catalog has a model of the whole name
 */
export function askedModels(
  name: string,
  others: readonly string[] | undefined,
  catalog: Catalog,
  readsSuffixes: boolean,
): AskedModels {
  const first = askedModel(name, catalog, readsSuffixes);
  if (!others || others.length === 0) return [first];
  const byId = new Map<string, AskedModel>();
  for (const each of [name, ...others]) {
    const asked = askedModel(each, catalog, readsSuffixes);
    const id = catalog.get(asked.id)?.id ?? asked.id;
    if (!byId.has(id)) byId.set(id, asked);
  }
  const [head = first, ...rest] = byId.values();
  return [head, ...rest];
}

function askedModel(name: string, catalog: Catalog, readsSuffixes: boolean): AskedModel {
  const at = readsSuffixes && !catalog.get(name) ? name.lastIndexOf(':') : -1;
  const sort = at > 0 ? SORT_SUFFIXES.get(name.slice(at)) : undefined;
  return { id: sort ? name.slice(0, at) : name, name, sort };
}

const BY_SORT: ClientOrder = { isChosen: true, first: [], firstOnly: false, acrossModels: false };

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
  asked: AskedModels,
  routing: ClientRouting | undefined,
  selection: Selection,
): SelectedModels {
  const { demands } = selection;
  const all: [Model, ...Model[]] = [findModel(asked[0], catalog, selection)];
  if (routing) checkProviders(catalog, routing);
  for (const each of asked) if (each !== asked[0]) all.push(findModel(each, catalog, selection));
  const matching = demands ? keepMatching(all, demands) : all;
  return routing ? withRouting(matching, routing, all) : matching;
}

function findModel({ id, name, sort }: AskedModel, catalog: Catalog, { allowed, priced }: Selection): Model {
  const model = catalog.get(id);
  if (!model) throw new ModelNotFoundError(name, catalog.near(id, allowed));
  assertServed(model);
  return sort ? { ...priced(model), strategy: sort, clientOrder: BY_SORT } : priced(model);
}

/** @param all - before those that don't match were left out */
function withRouting(models: SelectedModels, routing: ClientRouting, all: SelectedModels): SelectedModels {
  const left = models
    .map((model) => withAllowedTargets(model, routing))
    .filter((model) => model !== undefined);
  const [head, ...rest] = left;
  if (!head) {
    throw new InvalidRequestError(
      'provider_not_available',
      `None of the providers that this request allows serves ${all.map(({ id }) => JSON.stringify(id)).join(', ')}.`,
      'provider',
    );
  }
  return [head, ...rest];
}

/** Whether the allowed patterns match a model: by the requested name, by its ID or by an alias, as the list of models has it. */
export function isAllowed(allowed: ModelPatterns, id: string, catalog: Catalog): boolean {
  if (allowed.allows(id)) return true;
  const model = catalog.get(id);
  return model !== undefined && allowed.allowsModel([id, model.id, ...model.aliases]);
}

/** @throws {ModelShutDownError} from the shutdown date on */
export function assertServed(model: Model): void {
  if (!isShutDown(model, Date.now())) return;
  const { shutdownAt = 0, replacement } = model.deprecation ?? {};
  throw new ModelShutDownError(model.id, dayOf(shutdownAt), replacement);
}

/** Merges models for a quote: all prices, the largest limits, the first model's ID. */
export function mergeForQuote(models: SelectedModels): Model {
  if (models.length === 1) return models[0];
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
  const name = provider.name.toLowerCase();
  return list !== undefined && list.some((each) => each.toLowerCase() === name);
}

function withAllowedTargets(model: Model, routing: ClientRouting): Model | undefined {
  const { only, ignore, allowFallbacks } = routing;
  // An empty list says nothing.
  const order = routing.order?.length ? routing.order : undefined;
  const sort = routing.sort?.by ?? (model.clientOrder && model.strategy);
  const targets = model.targets.filter(
    (target) =>
      (!only || includesProvider(only, target)) &&
      !includesProvider(ignore, target) &&
      (!order || allowFallbacks || includesProvider(order, target)),
  );
  const [first, ...rest] = targets;
  if (!first) return undefined;
  const prices = [...new Set(targets.map(({ price }) => price))];
  const allowed = { ...model, targets: [first, ...rest] as const, prices };
  const isChosen = order !== undefined || sort !== undefined;
  if (!isChosen && allowFallbacks) return allowed;
  const clientOrder = {
    isChosen,
    first: order?.map((name) => name.toLowerCase()) ?? [],
    firstOnly: !order && !allowFallbacks,
    acrossModels: routing.sort?.acrossModels ?? false,
  };
  return { ...allowed, strategy: sort ?? (order ? 'ordered' : model.strategy), clientOrder };
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
