import type { Authenticator } from '../keys/authenticator.ts';
import { chatCompletion, type ChatCompletionServices } from '../endpoints/chat-completions.ts';
import { MethodNotAllowedError, UnknownEndpointError } from '../errors/request-errors.ts';
import { InternalError, RouterClosingError } from '../errors/router-error.ts';
import { corsHeaders } from '../http/cors.ts';
import { ClientConnection, ClientDisconnectedError, type Exchange } from '../http/exchange.ts';
import { sendError, toRouterError } from '../http/respond.ts';
import { decodeOnce, isTooLong, pathOf, trimSlashes } from '../http/url.ts';
import { RouterClosedError } from '../http/relay-end.ts';
import type { Cors } from '../options/resolve-options.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import { sendCredits } from '../endpoints/credits.ts';
import { type GenerationServices, sendGeneration } from '../endpoints/generation.ts';
import { type KeyServices, sendKey } from '../endpoints/key.ts';
import { type MeteredEndpoint, type MeteredServices, serveMetered } from '../endpoints/metered.ts';
import { type ModelEndpoint, sendModel, sendModels, sendPublicModels } from '../endpoints/models.ts';
import { sendUsage, type UsageServices } from '../endpoints/usage.ts';

export interface RouteServices
  extends ChatCompletionServices, Pick<MeteredServices, 'holds'>, KeyServices, UsageServices {
  readonly authenticator: Authenticator;
  readonly store: LedgerStore;
  readonly requestLog: GenerationServices['requestLog'];
}

/** Records of the caller's own account. */
type RecordName = 'credits' | 'generation' | 'key' | 'usage';

/** The endpoint that a path names. */
export type Endpoint =
  | MeteredEndpoint
  | { readonly name: 'models' }
  | { readonly name: RecordName | 'completions' }
  | ModelEndpoint;

/**
 * Answers a request: authenticates it, checks endpoint and method, and calls the endpoint. Rejects only if the response
 * throws while an error is sent.
 *
 * An unauthenticated client learns nothing, not even which paths exist; only `OPTIONS` needs no key, and models if they are
 * public.
 *
 * @param over - called once, when the response is over
 */
export async function route(
  exchange: Exchange,
  endpoint: Endpoint | undefined,
  services: RouteServices,
  active: ActiveRequest,
  over: (active: ActiveRequest, exchange: Exchange) => void,
): Promise<void> {
  let client: ClientConnection | undefined;
  try {
    client = new ClientConnection(exchange.response);
    const cors = corsOf(exchange, services);
    const allow = endpoint ? allowedMethods(endpoint) : ALL_METHODS;
    if (cors) exchange.corsHeaders = corsHeaders(exchange, cors, allow);
    if (exchange.method === 'OPTIONS') {
      sendOptions(exchange, allow);
      return;
    }
    if (services.closing()) throw new RouterClosingError();
    const open = publicEndpoint(exchange, endpoint, services);
    if (open) {
      await sendPublicModels(exchange, open, services);
      return;
    }
    // Always awaited: then a body that came in one packet with its head is here, and is read at once.
    const caller = await services.authenticator.authenticate(exchange.headers);
    active.trace?.authenticated(caller);
    if (!endpoint || (isAmbiguous(endpoint) && !READ_METHODS.includes(exchange.method))) {
      throw new UnknownEndpointError(exchange.method, pathOf(exchange.url));
    }
    if (!allow.includes(exchange.method)) throw new MethodNotAllowedError(exchange.method, allow.join(', '));

    switch (endpoint.name) {
      case 'completions':
        await chatCompletion(exchange, client, caller, services, active);
        return;
      case 'models':
        await sendModels(exchange, caller, services);
        return;
      case 'model':
        await sendModel(exchange, endpoint, caller, services);
        return;
      case 'credits':
        await sendCredits(exchange, caller, services.store);
        return;
      case 'generation':
        await sendGeneration(exchange, caller, services);
        return;
      case 'key':
        await sendKey(exchange, caller, services);
        return;
      case 'usage':
        await sendUsage(exchange, caller, services);
        return;
      case 'metered':
        await serveMetered(exchange, client, caller, endpoint, services, active);
    }
  } catch (thrown) {
    if (thrown instanceof ClientDisconnectedError) return;
    const error = toRouterError(thrown instanceof RouterClosedError ? new RouterClosingError() : thrown);
    // A bug is reported, though the client has left.
    const isDismissed = client?.isDismissed === true;
    const hasLeft = exchange.response.destroyed || isDismissed;
    if (hasLeft && !(error instanceof InternalError)) return;
    active.trace?.refused(error);
    if (error.status >= 500) services.onError(error, exchange.id);
    if (!isDismissed) sendError(exchange, error);
  } finally {
    over(active, exchange);
  }
}

/**
 * Which pages may read the response: of a session, those that it was made for. A preflight doesn't say whose request
 * follows, so with sessions each origin may send one.
 */
function corsOf({ method, headers }: Exchange, { settings, authenticator }: RouteServices): Cors | undefined {
  const { cors } = settings;
  if (!authenticator.readsSessions) return cors;
  const { maxAgeSeconds = DEFAULT_MAX_AGE_SECONDS } = cors ?? {};
  const { origin } = headers;
  if (method === 'OPTIONS') return { origins: new Set(origin === undefined ? [] : [origin]), maxAgeSeconds };
  const origins = authenticator.originsOf(headers);
  return origins ? { origins, maxAgeSeconds } : cors;
}

const DEFAULT_MAX_AGE_SECONDS = 600;

/** The endpoint, if it needs no key: models, without a key, with the option `publicModels`. */
function publicEndpoint(
  { method, headers }: Exchange,
  endpoint: Endpoint | undefined,
  { settings }: RouteServices,
): ModelEndpoint | { readonly name: 'models' } | undefined {
  if (!settings.publicModels || headers.authorization !== undefined) return undefined;
  if (!READ_METHODS.includes(method)) return undefined;
  return endpoint?.name === 'models' || endpoint?.name === 'model' ? endpoint : undefined;
}

/**
 * Finds the endpoint of a path under any mount: the leftmost segments that name an endpoint decide.
 *
 * Everything after `models/` is the model's ID, decoded once, and perhaps `/endpoints`. So are the two segments after `model` at the end of
 * a path that names no other endpoint, because a mount may contain that word.
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
      if (id === '') return { name: 'models' };
      const endpointsOf = id.endsWith(ENDPOINTS) ? decodeOnce(id.slice(0, -ENDPOINTS.length)) : undefined;
      return { name: 'model', id: decodeOnce(id), ...(endpointsOf && { endpointsOf }) };
    }
    if (segments[i] === 'credits') return endsAt(segments, i) ? { name: 'credits' } : undefined;
    if (segments[i] === 'generation') return endsAt(segments, i) ? { name: 'generation' } : undefined;
    if (segments[i] === 'chat' && segments[i + 1] === 'completions') {
      return endsAt(segments, i + 1) ? { name: 'completions' } : undefined;
    }
  }
  const [word, author = '', slug = ''] = trimSlashes(inside).split('/').slice(-3);
  if (word !== 'model' || author === '' || slug === '') {
    const record = LAST_WORDS.get(slug || author || (word ?? ''));
    return record && { name: record };
  }
  return { name: 'model', id: decodeOnce(`${author}/${slug}`), inData: true };
}

/** After the ID of a model: its targets. */
const ENDPOINTS = '/endpoints';

/** At the end of a path that names no other endpoint, because a mount may contain these words. */
const LAST_WORDS: ReadonlyMap<string, RecordName> = new Map([
  ['key', 'key'],
  ['usage', 'usage'],
  // OpenRouter's and Vercel's names for it.
  ['activity', 'usage'],
  ['report', 'usage'],
]);

/** As `findEndpoint`, but remembers the URL of the last completion: almost all requests of a router have the same one. */
export function endpointFinder(basePath: string): (url: string) => Endpoint | undefined {
  let completionsUrl: string | undefined;
  return (url) => {
    if (url === completionsUrl) return COMPLETIONS;
    const endpoint = findEndpoint(url, basePath);
    if (endpoint?.name === 'completions') completionsUrl = url;
    return endpoint;
  };
}

/** Whether the path may be an unknown one under a mount that contains `model`. */
function isAmbiguous(endpoint: Endpoint): boolean {
  return endpoint.name === 'model' && endpoint.inData === true;
}

/** The endpoint of almost every request. */
const COMPLETIONS: Endpoint = { name: 'completions' };

/** Whether nothing but slashes follows. */
function endsAt(segments: readonly string[], index: number): boolean {
  return segments.slice(index + 1).every((segment) => segment === '');
}

function allowedMethods(endpoint: Endpoint): readonly string[] {
  if (endpoint.name === 'metered') return endpoint.methods;
  return endpoint.name === 'completions' ? POST_METHODS : READ_METHODS;
}

const POST_METHODS: readonly string[] = ['POST', 'OPTIONS'];
const READ_METHODS: readonly string[] = ['GET', 'HEAD', 'OPTIONS'];
const ALL_METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'OPTIONS'];

function sendOptions(exchange: Exchange, allow: readonly string[]): void {
  exchange.response.writeHead(204, {
    allow: allow.join(', '),
    'x-request-id': exchange.id,
    ...exchange.corsHeaders,
  });
  exchange.response.end();
}
