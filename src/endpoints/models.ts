import type { Model } from '../catalog/model.ts';
import { tagged } from '../catalog/model-list.ts';
import { parseModelQuery } from '../catalog/model-query.ts';
import { type ModelRecord, recordOf } from '../catalog/model-record.ts';
import { assertServed, isAllowed } from '../catalog/model-selection.ts';
import { EndpointsHiddenError, ModelNotFoundError } from '../errors/model-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { sendTagged } from '../http/respond.ts';
import { queryOf } from '../http/url.ts';
import type { Caller } from '../keys/caller.ts';
import { type MarkupTerms, NO_MARKUP } from '../metering/markup.ts';
import type { RequiredLabel } from '../options/labels.ts';
import { catalogFor, type ChatCompletionServices } from './chat-completions.ts';
import { endpointsRecord } from './model-endpoints.ts';
import { pricedFor } from './plan-request.ts';

type ModelServices = Pick<
  ChatCompletionServices,
  'settings' | 'catalog' | 'discovery' | 'markups' | 'breakers'
>;

/** `GET /models/{id}`. */
export interface ModelEndpoint {
  readonly name: 'model';
  readonly id: string;
  /** The model whose targets are asked for, unless `id` is that of a model. */
  readonly endpointsOf?: string;
  /** Wrap the record in `data`, like OpenRouter's `GET /model/{author}/{slug}`. */
  readonly inData?: true;
}

/** `GET /models`: what the caller may use, at its prices.
 *
 * @throws {InvalidRequestError} naming an invalid query parameter
 */
export async function sendModels(exchange: Exchange, caller: Caller, services: ModelServices): Promise<void> {
  const query = parseModelQuery(queryOf(exchange.url));
  await services.discovery.pending;
  const list = services.catalog.list(services.markups.of(caller));
  await sendTagged(exchange, await list.page(query, caller.models));
}

/** `GET /models/{id}`: the record at the caller's prices.
 *
 * @throws {ModelNotFoundError} also for a model that the caller may not use
 */
export async function sendModel(
  exchange: Exchange,
  endpoint: ModelEndpoint,
  caller: Caller,
  services: ModelServices,
): Promise<void> {
  const { id, endpointsOf } = endpoint;
  const catalog = await catalogFor(id, services);
  const find = (name: string): Model => {
    const isServed = !caller.models || isAllowed(caller.models, name, catalog);
    const model = isServed ? catalog.get(name) : undefined;
    if (!model) throw new ModelNotFoundError(name, catalog.near(name, caller.models));
    return model;
  };
  if (endpointsOf !== undefined && !catalog.listed(id)) {
    assertEndpointsShown(services);
    const model = pricedFor(caller, services.markups)(find(endpointsOf));
    await sendEndpoints(exchange, model, caller.require ?? [], services);
    return;
  }
  await sendRecord(exchange, endpoint, find(id), services.markups.of(caller) ?? NO_MARKUP);
}

/** @throws {EndpointsHiddenError} unless clients may choose among providers, and so may know their names */
function assertEndpointsShown({ settings }: ModelServices): void {
  if (!settings.clientRouting.has('provider')) throw new EndpointsHiddenError();
}

/** `GET /models/{id}/endpoints`: the targets of a model, at the caller's prices. */
async function sendEndpoints(
  exchange: Exchange,
  model: Model,
  require: readonly RequiredLabel[],
  { breakers }: ModelServices,
): Promise<void> {
  assertServed(model);
  const body = JSON.stringify({ data: endpointsRecord(model, require, breakers) });
  await sendTagged(exchange, tagged(Buffer.from(body)), model.deprecation?.headers);
}

/** Both of them for a request without a key: the models that the option `publicModels` names, at the router's prices.
 *
 * Models of wildcards are left out, because each ID that is asked for is made and cached, and pushes out one that is in use.
 *
 * @throws {InvalidRequestError} naming an invalid query parameter
 * @throws {ModelNotFoundError} also for a model that isn't public
 */
export async function sendPublicModels(
  exchange: Exchange,
  endpoint: ModelEndpoint | { readonly name: 'models' },
  services: ModelServices,
): Promise<void> {
  const { publicModels } = services.settings;
  if (endpoint.name === 'models') {
    const query = parseModelQuery(queryOf(exchange.url));
    await services.discovery.pending;
    await sendTagged(exchange, await services.catalog.list().page(query, publicModels));
    return;
  }
  await services.discovery.pending;
  const { catalog } = services;
  const { id, endpointsOf } = endpoint;
  const find = (name: string): Model => {
    const model = catalog.listed(name);
    const isShown = model && publicModels?.allowsModel([model.id, ...model.aliases]);
    if (!isShown) throw new ModelNotFoundError(name, catalog.near(name, publicModels || undefined));
    return model;
  };
  if (endpointsOf !== undefined && !catalog.listed(id)) {
    assertEndpointsShown(services);
    await sendEndpoints(exchange, find(endpointsOf), [], services);
    return;
  }
  await sendRecord(exchange, endpoint, find(id), NO_MARKUP);
}

/** The records of `GET /models` for the host's own pages; without a caller, all at the router's prices. */
export async function listModels(
  caller: Caller | undefined,
  services: ModelServices,
): Promise<ModelRecord[]> {
  await services.discovery.pending;
  const list = services.catalog.list(caller && services.markups.of(caller));
  return await list.records(caller?.models);
}

async function sendRecord(
  exchange: Exchange,
  { inData }: ModelEndpoint,
  model: Model,
  markup: MarkupTerms,
): Promise<void> {
  assertServed(model);
  const record = recordOf(model, markup);
  const body = inData ? Buffer.concat([DATA_HEAD, record, DATA_TAIL]) : record;
  await sendTagged(exchange, tagged(body), model.deprecation?.headers);
}

const DATA_HEAD = Buffer.from('{"data":');
const DATA_TAIL = Buffer.from('}');
