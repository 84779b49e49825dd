import type { Model } from '../catalog/model.ts';
import { tagged } from '../catalog/model-list.ts';
import { parseModelQuery } from '../catalog/model-query.ts';
import { type ModelRecord, recordOf } from '../catalog/model-record.ts';
import { assertServed, isAllowed } from '../catalog/model-selection.ts';
import { ModelNotFoundError } from '../errors/model-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { sendTagged } from '../http/respond.ts';
import { queryOf } from '../http/url.ts';
import type { Caller } from '../keys/caller.ts';
import { type MarkupTerms, NO_MARKUP } from '../metering/markup.ts';
import { catalogFor, type ChatCompletionServices } from './chat-completions.ts';

type ModelServices = Pick<ChatCompletionServices, 'settings' | 'catalog' | 'discovery' | 'markups'>;

/** `GET /models/{id}`. */
export interface ModelEndpoint {
  readonly name: 'model';
  readonly id: string;
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
  const { id } = endpoint;
  const catalog = await catalogFor(id, services);
  const isServed = !caller.models || isAllowed(caller.models, id, catalog);
  const model = isServed ? catalog.get(id) : undefined;
  if (!model) throw new ModelNotFoundError(id, catalog.near(id, caller.models));
  await sendRecord(exchange, endpoint, model, services.markups.of(caller) ?? NO_MARKUP);
}

/** Both of them for a request without a key: the models that the option `publicModels` names, at the router's prices.
 *
 * Models of wildcards are left out, because each ID that is asked for is made and cached: a key has limits, this has none.
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
  const model = services.catalog.listed(endpoint.id);
  const isShown = model && publicModels && [model.id, ...model.aliases].some((id) => publicModels.allows(id));
  if (!isShown)
    throw new ModelNotFoundError(endpoint.id, services.catalog.near(endpoint.id, publicModels || undefined));
  await sendRecord(exchange, endpoint, model, NO_MARKUP);
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
