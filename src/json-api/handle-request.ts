import { InternalError, RouterError } from '../errors/router-error.ts';
import { asError } from '../platform/as-error.ts';
import type { Exchange } from '../http/exchange.ts';
import { pathOf } from '../http/url.ts';
import { type AuditEvent, withoutSecrets } from './audit-log.ts';
import type { ApiRoutes, RouteMatch } from './api-routes.ts';
import {
  assertMay,
  type ChangeNotes,
  type Endpoint,
  type OperationResult,
  permissionFor,
} from './endpoint.ts';
import { AdminMethodNotAllowedError, NotFoundError, toAdminError } from './errors.ts';
import type { Page } from './page.ts';
import { parseRequest } from './parse-request.ts';
import type { Actor, ApiRequest } from './host-view.ts';

/** An API as requests find it. */
export interface ServedApi<Services, Caller extends Actor> {
  /** As `admin API`, for messages. */
  readonly name: string;
  readonly services: Services;
  readonly routes: ApiRoutes<Endpoint<Services, Caller>>;
  /** The OpenAPI document. */
  readonly description: Buffer;
  readonly page: Page;
  /** Rejects with a RouterError for a request without valid credentials; what else it throws, a client doesn't see. */
  readonly authorize: (request: ApiRequest) => Promise<Caller>;
  /** Resolves once `onAudit` is done. Neither this nor `onError` throws. */
  readonly audit: (event: AuditEvent) => Promise<void>;
  readonly onError: (error: Error, requestId: string) => void;
}

/**
 * Answers a request to an API. Never rejects.
 *
 * Authorizes before anything else, so an unauthenticated client doesn't even learn which paths exist; only `OPTIONS`
 * needs no authorization.
 */
export async function handleRequest<Services, Caller extends Actor>(
  exchange: Exchange,
  ip: string | undefined,
  api: ServedApi<Services, Caller>,
): Promise<void> {
  const context: AuditContext = { requestId: exchange.id, ip };
  const { method } = exchange;
  const route = api.routes.match(exchange.url, acceptsPage(exchange));
  const endpoint = route && findEndpoint(route, method);
  let answer: ApiResponse;
  try {
    answer =
      method === 'OPTIONS'
        ? { status: 204, headers: { allow: allowHeader(route) } }
        : await respond(exchange, route, context, api);
  } catch (thrown) {
    const error = toRouterError(thrown, endpoint?.change !== undefined);
    if (error.status >= 500) api.onError(error, exchange.id);
    answer = errorResponse(error);
    // A navigating browser can't send a token: the page, which holds no data, asks for one.
    if (error.status === 401 && route?.kind === 'page' && acceptsPage(exchange))
      answer = pageResponse(api.page, api.page.signedOut);
  }
  // `onAudit` is called before the response is sent, which does not wait for it: a sink that is asynchronous may lose an
  // acknowledged change if the process ends.
  const audited =
    endpoint?.change && route?.kind === 'resource'
      ? api.audit(auditEvent(endpoint.change, route.params, context, answer))
      : undefined;
  send(exchange, answer);
  await audited;
}

/** What is known of a request so far, for the audit. */
interface AuditContext {
  readonly requestId: string;
  readonly ip: string | undefined;
  caller?: Actor;
  call?: { readonly body: unknown };
  result?: OperationResult;
}

interface ApiResponse {
  readonly status: number;
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly error?: RouterError;
}

async function respond<Services, Caller extends Actor>(
  exchange: Exchange,
  route: RouteMatch<Endpoint<Services, Caller>> | undefined,
  context: AuditContext,
  api: ServedApi<Services, Caller>,
): Promise<ApiResponse> {
  const { method, headers, url } = exchange;
  const path = pathOf(url);
  // Authorizes the routed path, without the mount: a prefix of the URL can't change what is authorized.
  const caller = await api.authorize({ headers, method, path: route?.path ?? path });
  context.caller = caller;
  if (!route) throw unknownPath(api.name, method, path);
  const isRead = method === 'GET' || method === 'HEAD';
  if (route.kind !== 'resource') {
    if (!isRead) throw new AdminMethodNotAllowedError(method, allowHeader(route));
    if (route.kind === 'page') return pageResponse(api.page, api.page.html);
    return { status: 200, body: api.description };
  }
  const endpoint = findEndpoint(route, method);
  if (!endpoint) throw new AdminMethodNotAllowedError(method, allowHeader(route));
  const needed = permissionFor(endpoint);
  if (needed !== undefined) assertMay(caller, needed);
  const call = await parseRequest(exchange, endpoint, route.params);
  context.call = call;
  const result = await call.run(api.services, caller);
  context.result = result;
  const status = result.repeated ? 200 : (endpoint.status ?? 200);
  if (result.csv === undefined) return { status, body: Buffer.from(JSON.stringify(result.answer)) };
  return csvResponse(status, result.csv, result.nextCursor);
}

function csvResponse(status: number, csv: string, nextCursor: string | undefined): ApiResponse {
  const headers = {
    'content-type': 'text/csv; charset=utf-8',
    ...(nextCursor !== undefined && { 'x-ccr-next-cursor': nextCursor }),
  };
  return { status, body: Buffer.from(csv), headers };
}

function errorResponse(error: RouterError): ApiResponse {
  return {
    status: error.status,
    body: Buffer.from(JSON.stringify(error)),
    headers: { 'x-should-retry': String(error.shouldRetry), ...error.headers },
    error,
  };
}

function pageResponse({ contentSecurityPolicy }: Page, html: string): ApiResponse {
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': contentSecurityPolicy,
  };
  return { status: 200, body: Buffer.from(html), headers };
}

function unknownPath(api: string, method: string, path: string): NotFoundError {
  const asked = JSON.stringify(`${method} ${path}`.slice(0, 200));
  return new NotFoundError(
    'unknown_endpoint',
    `The ${api} doesn't serve ${asked}. GET openapi.json, below its mount, lists the endpoints.`,
  );
}

function findEndpoint<Operation>(route: RouteMatch<Operation>, method: string): Operation | undefined {
  return route.kind === 'resource' ? route.endpoints.get(method === 'HEAD' ? 'GET' : method) : undefined;
}

function allowHeader(route: RouteMatch<unknown> | undefined): string {
  const methods = route?.kind === 'resource' ? [...route.endpoints.keys()] : ['GET'];
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
}

/** A navigating browser accepts HTML; programs don't. */
function acceptsPage({ method, headers }: Exchange): boolean {
  return method === 'GET' && /\btext\/html\b/.test(headers.accept ?? '');
}

function toRouterError(thrown: unknown, isChange: boolean): RouterError {
  const error = toAdminError(thrown, isChange);
  return error instanceof RouterError ? error : new InternalError(asError(error));
}

function auditEvent(
  { action, secret }: ChangeNotes,
  params: Readonly<Record<string, string>>,
  { requestId, ip, caller, call, result }: AuditContext,
  { status, error }: ApiResponse,
): AuditEvent {
  const target = result?.target ?? params['id'];
  return withoutSecrets({
    at: new Date().toISOString(),
    ...(caller && { operator: caller.name }),
    action,
    account: (result?.account ?? params['account'] ?? caller?.account ?? '').slice(0, 128),
    ...(target !== undefined && { target: target.slice(0, 128) }),
    requestId,
    ...(ip !== undefined && { ip }),
    outcome: auditOutcome(status, result),
    status,
    ...(error && { code: error.code }),
    ...(call && { body: secret === undefined ? call.body : { [secret]: result?.target ?? '***' } }),
    ...(result && 'before' in result && { before: result.before }),
    ...(result && 'after' in result && { after: result.after }),
  });
}

function auditOutcome(status: number, result: OperationResult | undefined): AuditEvent['outcome'] {
  if (status >= 500) return 'failed';
  if (!result) return 'refused';
  return result.repeated ? 'repeated' : 'done';
}

/** No cache stores a response; no page of another origin can read or frame one. */
const SECURITY_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

function send({ id, response }: Exchange, { status, body, headers }: ApiResponse): void {
  if (response.destroyed) return;
  response.writeHead(status, {
    ...SECURITY_HEADERS,
    'x-request-id': id,
    ...(body && { 'content-type': 'application/json', 'content-length': String(body.length) }),
    ...headers,
  });
  response.end(body);
}
