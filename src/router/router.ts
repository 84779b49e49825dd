import type { IncomingHttpHeaders } from 'node:http';

import { SlotList } from '../async/slot-list.ts';
import { createNodeHandler, type NodeHandler } from '../adapters/node.ts';
import { createWebHandler, type WebHandler } from '../adapters/web.ts';
import type { ModelRecord } from '../catalog/model-record.ts';
import { type MeteredHandler, meteredEndpoint, type MeterOptions } from '../endpoints/metered.ts';
import { listModels } from '../endpoints/models.ts';
import { createHolds, type Holds } from '../billing/holds.ts';
import type { Exchange } from '../http/exchange.ts';
import { ResponseRecorder } from '../http/response-recorder.ts';
import { pathOf } from '../http/url.ts';
import { type Accounts, createAccountPolicies } from '../keys/account-policies.ts';
import { type ApiKeys, createApiKeys } from '../keys/api-keys.ts';
import type { AuthenticatedKey } from '../keys/caller.ts';
import { createSessions, type Sessions } from '../keys/sessions.ts';
import { hostCaller } from '../keys/host-caller.ts';
import { RequestIds } from '../ledger/contract/request-ids.ts';
import { createAccounts } from '../ledger/operations/accounts.ts';
import { type Credits, createCredits } from '../ledger/operations/credits.ts';
import type { UsageQueries } from '../ledger/operations/usage-queries.ts';
import { ActiveRequest, runningRequests, type RunningRequest } from '../observability/active-request.ts';
import type { RequestLog } from '../request-log/request-log.ts';
import { guard } from '../observability/hook-runner.ts';
import type { TargetStatus, RouterGauges } from '../observability/hooks.ts';
import type { AuthenticatedCaller } from '../options/authenticate-options.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import { type ReloadOptions, createServices, type RouterServices, type RouterTimers } from './services.ts';
import { type RouterStatus, routerStatus } from './status.ts';
import { type ModelPrices, modelPrices } from './model-prices.ts';
import { createProviderStates, type ProviderStates } from './providers.ts';
import { RouterLifecycle } from './lifecycle.ts';
import { type Endpoint, endpointFinder, route } from './routes.ts';

export type { ReloadOptions } from './services.ts';

/** A route of your own, behind the router's keys and credits. */
export interface MeteredRoute extends NodeHandler {
  /** For frameworks that pass a `Request` and expect a `Response`. Needs no `this`. */
  readonly fetch: WebHandler;
}

type Handle = (exchange: Exchange, request: object) => Promise<void>;

/**
 * The router: a Node handler, for `app.use('/v1', router)` or `http.createServer(router)`, with the functions
 * that manage its accounts.
 */
export interface ChatCompletionsRouter extends NodeHandler {
  /** The fetch handler, for frameworks that pass a `Request` and expect a `Response`. Needs no `this`. */
  readonly fetch: WebHandler;
  /** API keys of your customers. */
  readonly keys: ApiKeys;
  /**
   * Whose API key a request has, for routes of your own that cost nothing: as the router authenticates its requests. A key that
   * another process has changed is known as it was for up to `keyCacheMs`.
   *
   * @param headers - of the request, names in lower case; only `authorization` and `origin` are read, or what your `authenticate` reads
   * @throws {AuthenticationError} with a `status` of 401 and a `code`, if the key is missing, unknown, paused, revoked or expired
   */
  authenticate(headers: IncomingHttpHeaders): Promise<AuthenticatedKey>;
  /** Your customers' prepaid credits, in USD as decimal strings. */
  readonly credits: Credits;
  /** Usage by day, account, key and model. */
  readonly usage: UsageQueries;
  /** What requests were, where they went, and what they cost: for operators, for `requestLogDays`. */
  readonly requestLog: RequestLog;
  /** Short-lived keys that a page may hold. */
  readonly sessions: Sessions;
  /** Holds of credits for what is not a chat completion. */
  readonly holds: Holds;
  /**
   * Puts a route of your own (embeddings, images, a tool) behind the router's keys, limits and credits: a Node handler, with
   * a fetch handler as its `fetch`. Errors are those of a chat completion.
   *
   * @throws {TypeError} naming the invalid option
   */
  meter(handler: MeteredHandler, options: MeterOptions): MeteredRoute;
  /** Accounts: balances, policies, freezing. */
  readonly accounts: Accounts;
  /**
   * The models of `GET /models`, for pages of your own: all of them at the router's prices, or what a caller may use at its
   * prices: `await router.models({ account: 'acme', models: ['openai/*'] })`. As a request does, it starts model discovery
   * and waits for the first lists.
   *
   * @throws {TypeError} naming the invalid member of the caller
   */
  models(caller?: AuthenticatedCaller): Promise<ModelRecord[]>;
  /** All models with their targets, prices and costs, for operators. */
  modelPrices(): readonly ModelPrices[];
  /**
   * Resolves once a request is over and its charge is posted, for platforms that stop a process after the response:
   * `await router.settled(request)`. The request is the object that was passed to the router.
   */
  settled(request: object): Promise<void>;
  /**
   * Replaces all providers, all models, or both; an option that is left out keeps its value.
   *
   * Running requests keep the old configuration, later ones use the new one. A provider whose options are unchanged
   * keeps the state of its keys and the health of its targets.
   *
   * @throws {TypeError} naming the invalid option; nothing has changed then
   */
  reload(changes: ReloadOptions): void;
  /** Health of the targets that this process has used. */
  health(): readonly TargetStatus[];
  /** This process and its store, which it asks: whether it is available, and what waits for it. Never rejects. */
  status(): Promise<RouterStatus>;
  /** Providers as this process sees them: their state, history, errors, keys and targets; ejects and readmits them by hand, and sets weights. */
  readonly providers: ProviderStates;
  /** The completions that run in this process now, oldest first. */
  requests(): readonly RunningRequest[];
  /**
   * Resolves once the store can be used and providers with model discovery were asked for their models. Rejects with
   * an Error that gives the reason, e.g. that Redis can't be reached, is too old, or may evict keys. Without this call the
   * first request finds out. A list of models is waited for for 5 seconds at most, and an `apiKey` function for `timeouts.connectMs`;
   * `onError` gets the error of either. Once it has resolved, it can be called again as a probe, which asks the store alone.
   */
  ready(): Promise<void>;
  /**
   * Rejects new requests with 503, lets running ones finish for up to `closeTimeoutMs`, aborts the rest, posts
   * every charge, and closes the store. Can be called again.
   */
  close(): Promise<void>;
}

/**
 * Makes an OpenAI-compatible router from providers, models and a credit store.
 *
 * The call itself uses no network, file or environment variable.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createChatCompletionsRouter(options: ChatCompletionsRouterOptions): ChatCompletionsRouter {
  return createRouterWithTimers(options, {});
}

/** As `createChatCompletionsRouter`, with other times: tests see in seconds what takes minutes in service. */
export function createRouterWithTimers(
  options: ChatCompletionsRouterOptions,
  timers: RouterTimers,
): ChatCompletionsRouter {
  const services = createServices(options, timers, () => lifecycle.isClosing);
  const { settings, hooks, clock, store, authenticator, billing, current, holds, requestLog } = services;
  const requests = new SlotList<ActiveRequest>();
  const startedAt = new Date();
  const lifecycle = new RouterLifecycle(services, requests);
  const now = (): number => clock.now();
  const ids = new RequestIds(now);
  const newId = (): string => ids.next();
  const endpointOf = endpointFinder(settings.basePath);
  const handle: Handle = (exchange, request) => serve(exchange, request, endpointOf(exchange.url));

  /** Handles a request, from its arrival to the end of its response. */
  function serve(exchange: Exchange, request: object, endpoint: Endpoint | undefined): Promise<void> {
    lifecycle.start();
    const trace = hooks.observer?.begin(exchange, pathOf(exchange.url), endpoint?.name);
    const content = trace?.content;
    if (content) exchange.response = new ResponseRecorder(exchange.response, content.response);
    const active = new ActiveRequest(exchange.id, trace);
    active.slot = requests.add(active);
    active.handled = route(exchange, endpoint, services, active, over);
    tag(request, exchange.id);
    if (settings.waitUntil) guard(() => settings.waitUntil?.(settled(request)));
    return active.handled;
  }

  function over({ slot, trace }: ActiveRequest, { response }: Exchange): void {
    if (slot) requests.delete(slot);
    if (trace) hooks.observer?.end(trace, response);
  }

  async function settled(request: object): Promise<void> {
    const requestId: unknown = Reflect.get(request, REQUEST_ID);
    if (typeof requestId !== 'string') return;
    const active = requests.values().find(({ id }) => id === requestId);
    // A handler rejects if the framework's response throws; the charge is posted all the same.
    await Promise.allSettled([active?.handled]);
    await billing.posted(requestId);
  }

  const gauges = gaugesOf(services, lifecycle);
  hooks.onRouter(gauges);
  return Object.assign(createNodeHandler(handle, newId), {
    fetch: createWebHandler(handle, newId),
    keys: createApiKeys(store, authenticator, now),
    authenticate: (headers: IncomingHttpHeaders) => authenticator.keyOf(headers),
    credits: createCredits(store, now),
    accounts: createAccountPolicies(store, createAccounts(store, requestLog), authenticator),
    usage: services.usage,
    requestLog: readerOf(requestLog),
    sessions: createSessions(store, services.sessionTokens, now),
    holds: createHolds({
      holds,
      newId,
      closing: () => lifecycle.isClosing,
      dimensions: settings.dimensions,
      started: () => {
        lifecycle.start();
      },
    }),
    meter: (handler: MeteredHandler, options: MeterOptions) => {
      const endpoint = meteredEndpoint(handler, options);
      const handleMetered: Handle = (exchange, request) => serve(exchange, request, endpoint);
      return Object.assign(createNodeHandler(handleMetered, newId), {
        fetch: createWebHandler(handleMetered, newId),
      });
    },
    models: async (caller?: AuthenticatedCaller) => {
      lifecycle.start();
      const known = hostCaller(caller);
      return await listModels(known && (await authenticator.limited(known)), services);
    },
    modelPrices: () => modelPrices(services.catalog, services.breakers.weights),
    settled,
    reload: (changes: ReloadOptions) => {
      current.reload(changes);
      lifecycle.reloaded();
    },
    health: () => gauges.health(),
    providers: createProviderStates(services),
    requests: () => runningRequests(requests.values()),
    status: () => routerStatus(services, { startedAt, running: requests.values().length, probeId: newId() }),
    ready: () => lifecycle.ready(newId()),
    close: () => lifecycle.close(),
  });
}

/** What is measured when it is read. */
function gaugesOf(services: RouterServices, lifecycle: RouterLifecycle): RouterGauges {
  return {
    health: () => services.breakers.statuses(services.catalog.targets),
    waitingCharges: () => services.store.waitingCharges,
    waitingRequests: () => services.waitingLine.length,
    isClosed: () => lifecycle.isClosed,
  };
}

/** What a host gets of the log of requests. */
function readerOf(requestLog: RequestLog): RequestLog {
  return {
    find: (id) => requestLog.find(id),
    search: (search) => requestLog.search(search),
    counts: () => requestLog.counts(),
  };
}

/** The property of a framework's request object that holds its request ID, for `settled`. */
const REQUEST_ID = Symbol('chat-completions-router.request-id');

function tag(request: { [REQUEST_ID]?: string }, id: string): void {
  request[REQUEST_ID] = id;
}
