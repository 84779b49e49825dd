import type { Authenticator } from '../keys/authenticator.ts';
import type { Caller } from '../keys/caller.ts';
import { catalogFor, chatCompletion, type ChatCompletionServices } from '../endpoints/chat-completions.ts';
import { ModelNotFoundError } from '../errors/model-errors.ts';
import { MethodNotAllowedError, UnknownEndpointError } from '../errors/request-errors.ts';
import { RouterClosingError } from '../errors/router-error.ts';
import type { EndpointName } from '../observability/hooks.ts';
import { corsHeaders } from '../http/cors.ts';
import { ClientConnection, ClientDisconnectedError, type Exchange } from '../http/exchange.ts';
import { sendError, sendJson, toRouterError } from '../http/respond.ts';
import { decodeOnce, isTooLong, pathOf, queryOf, trimSlashes } from '../http/url.ts';
import { RouterClosedError } from '../http/relay-end.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import { type AccountMarkups, withAccountMarkup } from '../catalog/account-markup.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { isAllowed } from '../catalog/model-selection.ts';
import { assertServed } from '../catalog/deprecation.ts';
import { recordOf } from '../catalog/model-list.ts';
import { sendCredits } from '../endpoints/credits.ts';
import { sendGeneration } from '../endpoints/generation.ts';

export interface RouteServices extends ChatCompletionServices {
  readonly authenticator: Authenticator;
  readonly store: LedgerStore;
}

/** What a path stands for. */
export type Endpoint =
  | { readonly name: 'models' | 'credits' | 'generation' | 'completions' }
  | {
      readonly name: 'model';
      readonly id: string;
      /** The record is in `data`, as OpenRouter's `GET /model/{author}/{slug}` has it. */
      readonly inData?: true;
    };

/**
 * Answers a request: whose key, which endpoint, and the endpoint itself. Never rejects.
 *
 * A stranger learns nothing, not even which paths exist; only `OPTIONS` needs no key.
 */
export async function route(exchange: Exchange, services: RouteServices, live: ActiveRequest): Promise<void> {
  const client = new ClientConnection(exchange.response);
  const { cors } = services.settings;
  if (cors) exchange.corsHeaders = corsHeaders(exchange, cors);
  try {
    if (exchange.method === 'OPTIONS') {
      sendOptions(exchange, services.settings.basePath);
      return;
    }
    if (services.closing()) throw new RouterClosingError();
    const caller = await services.authenticator.authenticate(exchange.headers);
    live.trace?.authenticated(caller);
    const endpoint = findEndpoint(exchange.url, services.settings.basePath);
    if (!endpoint || (isGuess(endpoint) && !TO_READ.includes(exchange.method))) {
      throw new UnknownEndpointError(exchange.method, pathOf(exchange.url));
    }
    const allow = allowedMethods(endpoint);
    if (!allow.includes(exchange.method)) throw new MethodNotAllowedError(exchange.method, allow.join(', '));

    switch (endpoint.name) {
      case 'completions':
        await chatCompletion(exchange, client, caller, services, live);
        return;
      case 'models':
        await services.discovery.pending;
        sendJson(exchange, 200, modelsFor(caller, exchange.url, services));
        return;
      case 'model':
        sendModel(exchange, endpoint, caller, await catalogFor(endpoint.id, services), services.markups);
        return;
      case 'credits':
        await sendCredits(exchange, caller, services.store);
        return;
      case 'generation':
        await sendGeneration(exchange, caller, services);
    }
  } catch (thrown) {
    if (thrown instanceof ClientDisconnectedError || exchange.response.destroyed) return;
    const error = toRouterError(thrown instanceof RouterClosedError ? new RouterClosingError() : thrown);
    live.trace?.refused(error);
    if (error.status >= 500) services.onError(error, exchange.id);
    sendError(exchange, error);
  }
}

/** The path that is asked for, and what it stands for: for those who note it before anything is checked. */
export function endpointOf(
  { url }: Exchange,
  basePath: string,
): [path: string, name: EndpointName | undefined] {
  return [pathOf(url), findEndpoint(url, basePath)?.name];
}

/** All of them, whatever `limit` says; OpenRouter's clients then ask by `offset` for a second page, which is empty. */
function modelsFor(caller: Caller, url: string, { catalog, markups }: RouteServices): Buffer {
  const list = catalog.list(markups.of(caller));
  const offset = queryOf(url).get('offset') ?? '';
  if (/^[1-9]\d{0,8}$/.test(offset)) return list.from(Number(offset), caller.models);
  return caller.models ? list.only(caller.models) : list.all;
}

/** The model with what this caller pays. */
function sendModel(
  exchange: Exchange,
  { id, inData }: Extract<Endpoint, { name: 'model' }>,
  caller: Caller,
  catalog: Catalog,
  markups: AccountMarkups,
): void {
  const isServed = !caller.models || isAllowed(caller.models, id, catalog);
  const model = isServed ? catalog.get(id) : undefined;
  if (!model) throw new ModelNotFoundError(id);
  assertServed(model);
  const markup = markups.of(caller);
  const record = recordOf(markup ? withAccountMarkup(model, markup) : model);
  const body = inData ? Buffer.concat([DATA_HEAD, record, DATA_TAIL]) : record;
  sendJson(exchange, 200, body, model.deprecation?.headers);
}

const DATA_HEAD = Buffer.from('{"data":');
const DATA_TAIL = Buffer.from('}');

/**
 * Which endpoint a path stands for, whatever the mount: the leftmost segments that name one decide.
 *
 * Everything after `models/` is the model's ID, decoded once. So are the two segments after `model` at the end of
 * a path that stands for nothing else: a mount may have that word in it.
 */
export function findEndpoint(url: string, basePath: string): Endpoint | undefined {
  const path = pathOf(url);
  if (isTooLong(path)) return undefined;
  const inside = path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : path;
  if (inside === '/chat/completions') return COMPLETIONS;
  const segments = inside.split('/');
  for (let i = 0; i < segments.length; i++) {
    if (segments[i] === 'models') {
      const id = trimSlashes(segments.slice(i + 1).join('/'));
      return id === '' ? { name: 'models' } : { name: 'model', id: decodeOnce(id) };
    }
    if (segments[i] === 'credits') return endsAt(segments, i) ? { name: 'credits' } : undefined;
    if (segments[i] === 'generation') return endsAt(segments, i) ? { name: 'generation' } : undefined;
    if (segments[i] === 'chat' && segments[i + 1] === 'completions') {
      return endsAt(segments, i + 1) ? { name: 'completions' } : undefined;
    }
  }
  const [word, author = '', slug = ''] = trimSlashes(inside).split('/').slice(-3);
  if (word !== 'model' || author === '' || slug === '') return undefined;
  return { name: 'model', id: decodeOnce(`${author}/${slug}`), inData: true };
}

/** Whether the path may as well be another under a mount with `model` in it. */
function isGuess(endpoint: Endpoint): boolean {
  return endpoint.name === 'model' && endpoint.inData === true;
}

/** What almost every request asks for, as almost every client writes it. */
const COMPLETIONS: Endpoint = { name: 'completions' };

/** Whether nothing but slashes follows. */
function endsAt(segments: readonly string[], index: number): boolean {
  return segments.slice(index + 1).every((segment) => segment === '');
}

function allowedMethods(endpoint: Endpoint): readonly string[] {
  return endpoint.name === 'completions' ? TO_POST : TO_READ;
}

const TO_POST: readonly string[] = ['POST', 'OPTIONS'];
const TO_READ: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];

function sendOptions(exchange: Exchange, basePath: string): void {
  const endpoint = findEndpoint(exchange.url, basePath);
  const allow = endpoint ? allowedMethods(endpoint).join(', ') : 'GET, HEAD, POST, OPTIONS';
  exchange.response.writeHead(204, { allow, 'x-request-id': exchange.id, ...exchange.corsHeaders });
  exchange.response.end();
}
