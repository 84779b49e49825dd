import { withTimeout } from '../async/timeout.ts';
import { type ApiKeys, createApiKeys } from '../keys/api-keys.ts';
import { Authenticator } from '../keys/authenticator.ts';
import { createNodeHandler, type NodeHandler } from '../adapters/node.ts';
import { createWebHandler, type WebHandler } from '../adapters/web.ts';
import { type Accounts, createAccounts } from '../ledger/operations/accounts.ts';
import { type Credits, createCredits } from '../ledger/operations/credits.ts';
import { SlotList } from '../async/slot-list.ts';
import { ActiveRequest, runningRequests, type RunningRequest } from '../observability/active-request.ts';
import type { LedgerEvent } from '../ledger/contract/events.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { Maintenance } from '../ledger/operations/maintenance.ts';
import { createUsageQueries, type UsageQueries } from '../ledger/operations/usage-queries.ts';
import { openStore } from '../ledger/stores/open-store.ts';
import { OutboxFolder } from '../ledger/reliability/outbox-files.ts';
import { ReliableStore } from '../ledger/reliability/reliable-store.ts';
import { RequestIds } from '../ledger/contract/request-ids.ts';
import { fetchStoreTime, clockOf, type StoreClock } from '../ledger/contract/store-clock.ts';
import { guard, createHookRunner } from '../observability/hook-runner.ts';
import type { TargetStatus } from '../observability/hooks.ts';
import { ModelDiscovery } from '../upstream/model-discovery.ts';
import { BufferedBytes } from '../http/buffered-bytes.ts';
import { DetachedReads } from '../http/detached-reads.ts';
import type { Exchange } from '../http/exchange.ts';
import { ResponseRecorder } from '../http/response-recorder.ts';
import { EstimateCalibration } from '../metering/estimate-calibration.ts';
import { AccountMarkups } from '../catalog/account-markup.ts';
import { type Catalog, type CatalogOptions, createCatalog } from '../catalog/catalog.ts';
import { PerTarget } from '../catalog/per-target.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import { assertObject, resolveSettings, type Settings } from '../options/resolve-options.ts';
import { endpointOf, route } from './routes.ts';
import { BillingService, type BillingServiceOptions } from '../billing/billing-service.ts';
import { Agents } from '../upstream/agents.ts';
import { RunningAttempts } from '../upstream/running-attempts.ts';
import { StreamTermination } from '../upstream/stream-termination.ts';
import { Failover } from '../upstream/failover.ts';
import { CircuitBreakers } from '../upstream/circuit-breaker.ts';
import { ProviderClient } from '../upstream/provider-client.ts';

/**
 * The router: mount it as it is, `app.use('/v1', router)` or `http.createServer(router)`,
 * and run its accounts through `keys` and `credits`.
 */
export interface ChatCompletionsRouter extends NodeHandler {
  /** The Web door, for hosts that give a `Request` and want a `Response`. Needs no `this`. */
  readonly fetch: WebHandler;
  /** API keys of your customers. */
  readonly keys: ApiKeys;
  /** Their prepaid credits, in USD as decimal strings. */
  readonly credits: Credits;
  /** What was used, by day, account, key and model. */
  readonly usage: UsageQueries;
  /** Who has them: balances, and freezing. */
  readonly accounts: Accounts;
  /**
   * Resolves once a request is over and its charge is posted, for hosts that stop a process as soon as nobody
   * waits: `await router.settled(request)`. The request is the object that the router was given.
   */
  settled(request: object): Promise<void>;
  /**
   * Puts other providers and models, all of them, in place of those that there are; what is left out stays as it is.
   *
   * Requests that run keep what they began with, the next ones use what is new. What is known of a provider whose
   * options are the same, its keys and the health of its targets, is kept.
   *
   * @throws {TypeError} naming the option that can't be right; nothing has changed then
   */
  reload(changes: ReloadOptions): void;
  /** How the targets do that this process has asked. */
  health(): readonly TargetStatus[];
  /** The completions that run in this process now, oldest first. */
  requests(): readonly RunningRequest[];
  /**
   * Resolves once the store can be used; rejects with an Error that says what keeps it from that, e.g. that
   * Redis can't be reached, is too old, or may evict. The first request finds out the same, later. Providers whose models are
   * discovered have been asked for them then; one that can't be asked keeps nobody waiting, `onError` is told.
   */
  ready(): Promise<void>;
  /**
   * Ends service: refuses new requests with 503, lets running ones finish for up to `closeTimeoutMs`,
   * aborts the rest, posts every charge, and closes the store. Can be called again.
   */
  close(): Promise<void>;
}

/**
 * Makes an OpenAI-compatible router out of providers, models and a store of credits.
 *
 * Touches no network, file or environment variable.
 *
 * @throws {TypeError} naming the option that can't be right
 */
export function createChatCompletionsRouter(options: ChatCompletionsRouterOptions): ChatCompletionsRouter {
  return createRouterWithTimers(options, {});
}

/** The same, whose leases and heartbeats last as long as is said: what takes minutes in service, tests see in seconds. */
export function createRouterWithTimers(
  options: ChatCompletionsRouterOptions,
  pace: Pick<BillingServiceOptions, 'leaseMs' | 'heartbeatMs'>,
): ChatCompletionsRouter {
  const settings = resolveSettings(options);
  let catalogOptions: CatalogOptions = { providers: options.providers, models: options.models };
  let catalog = createCatalog(catalogOptions, settings);
  const { observer, onSettled, onError, tell, onHealthChange, onRouter } = createHookRunner(options.hooks);
  const plainStore = openStore(options.store);
  const clock = clockOf(plainStore);
  const store = makeReliable(plainStore, clock, settings, tell);
  const { authenticate, cacheKey } = options;
  const authenticator = new Authenticator({
    store,
    authenticate,
    cacheKey,
    keyCacheMs: settings.keyCacheMs,
    now: () => clock.now(),
  });
  const calibrations = new PerTarget(() => new EstimateCalibration());
  const billing = new BillingService({
    store,
    clock,
    calibrations,
    settings,
    onSettled,
    onError,
    tell,
    ...pace,
  });
  const { journalRetentionDays, usageRetentionDays } = settings;
  const maintenance = new Maintenance({
    store,
    emit: tell,
    onError,
    journalRetentionDays,
    usageRetentionDays,
  });
  const agents = new Agents();
  const breakers = new CircuitBreakers({ settings: settings.health, tell: onHealthChange });
  const running = new RunningAttempts();
  const detachedReads = new DetachedReads();
  const ids = new RequestIds(() => clock.now());
  const open = new SlotList<ActiveRequest>();
  let closed: Promise<void> | undefined;

  const discovery = new ModelDiscovery({
    surroundings: settings,
    onChange: () => {
      catalog = discovery.extend(catalog);
    },
    onError,
  });
  discovery.watch(catalog);

  const services = {
    settings,
    discovery,
    /** A request takes it once: what is swapped meanwhile is for those after it. */
    get catalog(): Catalog {
      return catalog;
    },
    markups: new AccountMarkups(options.resolveMarkup),
    store,
    authenticator,
    billing,
    breakers,
    failover: new Failover(new ProviderClient(agents), breakers, settings.retries),
    termination: new StreamTermination(),
    calibrations,
    running,
    detachedReads,
    buffered: new BufferedBytes(settings),
    onError,
    closing: (): boolean => closed !== undefined,
  };

  const newId = (): string => ids.next();
  const settled = async (request: object): Promise<void> => {
    const requestId: unknown = Reflect.get(request, REQUEST_ID);
    if (typeof requestId !== 'string') return;
    const running = open.values().find(({ id }) => id === requestId);
    // A door rejects where a host's own response throws; whoever waits here waits for the charge.
    await Promise.allSettled([running?.handled]);
    await billing.posted(requestId);
  };
  const handle = (exchange: Exchange, request: object): Promise<void> => {
    maintenance.start();
    discovery.start();
    const observation = observer?.begin(exchange, ...endpointOf(exchange, settings.basePath));
    const content = observation?.content;
    if (content) exchange.response = new ResponseRecorder(exchange.response, content.response);
    const live = new ActiveRequest(exchange.id, observation);
    const place = open.add(live);
    const handled = route(exchange, services, live);
    live.handled = handled;
    Reflect.set(request, REQUEST_ID, exchange.id);
    if (settings.waitUntil) guard(() => settings.waitUntil?.(settled(request)));
    return handled.finally(() => {
      open.delete(place);
      if (observation) observer?.end(observation, exchange.response);
    });
  };

  async function close(): Promise<void> {
    const { closeTimeoutMs } = settings;
    detachedReads.close();
    discovery.close();
    await withTimeout(
      Promise.allSettled(open.values().map(({ handled }) => handled)),
      closeTimeoutMs,
      () => {},
    );
    running.close();
    // Aborted requests end at once; what still hangs then hangs in the host's own `authenticate` or `apiKey`.
    await withTimeout(Promise.allSettled(open.values().map(({ handled }) => handled)), ABORT_MS, () => {});
    await withTimeout(Promise.all([maintenance.close(), billing.drain()]), closeTimeoutMs, () => {});
    const waiting = billing.abandon();
    agents.close();
    await store.close();
    if (waiting === 0) return;
    const kept = store instanceof ReliableStore && store.keepsWhatWaits;
    const fate = kept ? `: they wait in ${settings.outboxDir} for the next start` : '';
    onError(new Error(`${waiting} charges could not be posted before the router was closed${fate}`));
  }

  function reload(changes: ReloadOptions): void {
    assertObject(changes, 'reload', { providers: true, models: true });
    const { providers = catalogOptions.providers, models = catalogOptions.models } = changes;
    const next = createCatalog({ providers, models }, settings, catalog);
    catalogOptions = { providers, models };
    discovery.watch(next);
    catalog = discovery.extend(next);
  }

  const targets = (): TargetStatus[] => breakers.statuses(catalog.targets);
  onRouter({
    health: targets,
    waitingCharges: () => (store instanceof ReliableStore ? store.waitingCharges : billing.waiting),
  });
  return Object.assign(createNodeHandler(handle, newId), {
    fetch: createWebHandler(handle, newId),
    keys: createApiKeys(store, authenticator, () => clock.now()),
    ready: async () => {
      await store.ready?.();
      clock.sync(await fetchStoreTime(store, newId()));
      maintenance.start();
      discovery.start();
      await discovery.pending;
    },
    credits: createCredits(store, () => clock.now()),
    settled,
    reload,
    accounts: createAccounts(store),
    usage: createUsageQueries(store, () => clock.now()),
    health: targets,
    requests: () => runningRequests(open.values()),
    close: () => (closed ??= close()),
  });
}

/** What `reload` takes: as in the options of the router. */
export type ReloadOptions = Partial<CatalogOptions>;

/** Where a door's request keeps its id, for those who ask when it is settled. */
const REQUEST_ID = Symbol('chat-completions-router.request-id');

const ABORT_MS = 1000;

/** A store that can be away or go back in time is made good for that; one in this process or machine is used as it is. */
function makeReliable(
  store: LedgerStore,
  clock: StoreClock,
  settings: Settings,
  tell: (event: LedgerEvent) => void,
): LedgerStore {
  const { outboxDir } = settings;
  if (!store.mayRollBack && outboxDir === undefined) return store;
  return new ReliableStore({
    store,
    clock,
    tell,
    ...(outboxDir !== undefined && { outbox: new OutboxFolder(outboxDir) }),
  });
}
