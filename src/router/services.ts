import { TimerWheel } from '../async/timer-wheel.ts';
import { BillingService, type BillingServiceOptions } from '../billing/billing-service.ts';
import { ThresholdWatch } from '../billing/threshold-watch.ts';
import { TopUps } from '../billing/top-ups.ts';
import { FixedHolds } from '../billing/fixed-hold.ts';
import { AccountMarkups } from '../catalog/request-prices.ts';
import { type Catalog, type CatalogOptions, createCatalog } from '../catalog/catalog.ts';
import { PerTarget } from '../catalog/model.ts';
import { BufferedBytes } from '../http/read-body.ts';
import { DetachedReads } from '../http/detached-reads.ts';
import { Authenticator } from '../keys/authenticator.ts';
import { resolveSessions } from '../keys/sessions.ts';
import type { SessionTokens } from '../keys/session-tokens.ts';
import type { RequestLogStore } from '../ledger/contract/request-log.ts';
import { clockOf, type StoreClock } from '../ledger/contract/store-clock.ts';
import { Maintenance } from '../ledger/operations/maintenance.ts';
import { createUsageQueries, type UsageQueries } from '../ledger/operations/usage-queries.ts';
import { ProviderCosts } from '../billing/provider-costs.ts';
import { OutboxFolder } from '../ledger/reliability/outbox-files.ts';
import { ReliableStore } from '../ledger/reliability/reliable-store.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { nameOfStore, openStore, requestLogOf, routingOf } from '../ledger/stores/open-store.ts';
import { EstimateCalibration } from '../metering/estimate-calibration.ts';
import { EventTemplates } from '../metering/event-template.ts';
import { createHookRunner, type HookRunner } from '../observability/hook-runner.ts';
import { resolveSettings, assertObject, type Settings } from '../options/resolve-options.ts';
import { dimensionNames } from '../options/resolve-dimensions.ts';
import { resolveThresholds } from '../options/resolve-thresholds.ts';
import type { ChatCompletionsRouterOptions } from '../options/router-options.ts';
import { RequestLogWriter } from '../request-log/request-log.ts';
import { Agents } from '../upstream/transport/agents.ts';
import { HttpProxyTransport } from '../upstream/transport/http-proxy-transport.ts';
import { CircuitBreakers } from '../upstream/circuit-breaker.ts';
import { LocalConversations } from '../upstream/conversations.ts';
import { Failover } from '../upstream/failover.ts';
import { Capacity } from '../upstream/capacity.ts';
import { WaitingLine } from '../upstream/waiting-line.ts';
import { FleetHealth } from '../upstream/fleet-health.ts';
import { FleetSync } from '../upstream/fleet-sync.ts';
import { SharedConversations } from '../upstream/shared-conversations.ts';
import { ProviderKeys } from '../upstream/provider-keys.ts';
import { RecentErrors } from '../upstream/recent-errors.ts';
import { ModelDiscovery } from '../upstream/model-discovery.ts';
import { ProviderClient } from '../upstream/provider-client.ts';
import { accountReads } from '../endpoints/account-record.ts';
import { RunningAttempts } from '../upstream/attempt.ts';
import { StreamTermination } from '../upstream/stream-traits.ts';
import { assertTransport, type Transport } from '../upstream/transport/transport.ts';
import type { RouteServices } from './routes.ts';
import { RoutingChanges, type RoutingChangesOptions } from './routing-changes.ts';

export interface RouterTimers extends Pick<BillingServiceOptions, 'leaseMs' | 'renewMs'> {
  /** A sixtieth of the minute of limits of providers. @default 1000 */
  readonly bucketMs?: number;
}

/** The parts of one router. */
export interface RouterServices extends RouteServices {
  readonly store: ReliableStore;
  /** For messages: its URL without a password. */
  readonly storeName: string;
  readonly hooks: HookRunner;
  readonly requestLog: RequestLogWriter;
  readonly usage: UsageQueries;
  readonly clock: StoreClock;
  readonly current: CurrentCatalog;
  readonly discovery: ModelDiscovery;
  readonly providerKeys: ProviderKeys;
  readonly maintenance: Maintenance;
  readonly routing: RoutingChanges;
  readonly providerCosts: ProviderCosts;
  readonly topUps: TopUps | undefined;
  readonly sessionTokens: SessionTokens | undefined;
  readonly transport: Transport;
  /** Undefined for a store of one machine. */
  readonly fleet: FleetSync | undefined;
  /** Ask providers for their models, whatever the transport. */
  readonly agents: Agents;
}

/**
 * Makes the parts of a router from its options. Starts nothing.
 *
 * @param closing - whether `close()` was called
 * @throws {TypeError} naming the invalid option
 */
export function createServices(
  options: ChatCompletionsRouterOptions,
  { bucketMs, ...leaseTimers }: RouterTimers,
  closing: () => boolean,
): RouterServices {
  const settings = resolveSettings(options);
  const plainStore = openStore(options.store);
  const clock = clockOf(plainStore);
  const { hooks, requestLog } = createHooks(options.hooks, requestLogOf(plainStore), clock, settings);
  const { onError, emit } = hooks;
  const agents = new Agents();
  const current = new CurrentCatalog(options, settings, agents, onError);
  const { outboxDir } = settings;
  const store = new ReliableStore({
    store: plainStore,
    clock,
    tell: emit,
    onError,
    ...(outboxDir !== undefined && { outbox: new OutboxFolder(outboxDir) }),
  });
  const { authenticate, cacheKey } = options;
  const { keyCacheMs, journalRetentionDays, usageRetentionDays } = settings;
  const calibrations = new PerTarget(() => new EstimateCalibration());
  const fleet = createFleet(plainStore, onError, settings, bucketMs);
  const breakers = createBreakers(settings, hooks, fleet);
  const changes = createRouting(
    { store: routingOf(plainStore), breakers, catalog: () => current.catalog, onError },
    clock,
  );
  const { providerCosts } = changes;
  const sessionTokens = resolveSessions(options.sessions);
  const thresholds = resolveThresholds(options.thresholds);
  const topUps = thresholds.topUp && new TopUps({ store, topUp: thresholds.topUp, onError });
  const wheel = new TimerWheel();
  const billing = new BillingService({
    thresholds: new ThresholdWatch({ thresholds, topUps, tell: emit, onError }),
    store,
    clock,
    calibrations,
    settings,
    onSettled: hooks.onSettled,
    onCost: (provider, cost) => {
      providerCosts.add(provider, cost);
    },
    onError,
    tell: emit,
    wheel,
    ...leaseTimers,
  });
  return {
    fleet,
    usage: createUsageQueries(store, () => clock.now(), dimensionNames(settings.dimensions)),
    settings,
    hooks,
    requestLog,
    onError,
    closing,
    clock,
    store,
    storeName: nameOfStore(options.store),
    ...changes,
    maintenance: new Maintenance({ store, emit, onError, journalRetentionDays, usageRetentionDays }),
    sessionTokens,
    authenticator: new Authenticator({
      store,
      authenticate,
      cacheKey,
      keyCacheMs,
      sessions: sessionTokens,
      now: () => clock.now(),
    }),
    billing,
    accountReads: accountReads(),
    topUps,
    holds: new FixedHolds(billing.keeper, hooks.onSettled),
    markups: new AccountMarkups(options.resolveMarkup),
    current,
    /** A request reads it once and keeps it, so that a reload affects only later requests. */
    get catalog(): Catalog {
      return current.catalog;
    },
    discovery: current.discovery,
    ...createUpstream(options, settings, agents, { breakers, fleet, wheel }, bucketMs),
    agents,
    calibrations,
    buffered: new BufferedBytes(settings),
  };
}

/** What sends requests to providers, and what is learned of them. @throws {TypeError} naming the invalid option */
function createUpstream(
  options: ChatCompletionsRouterOptions,
  { retries }: Settings,
  agents: Agents,
  { breakers, fleet, wheel }: Pick<RouterServices, 'breakers' | 'fleet'> & { readonly wheel: TimerWheel },
  bucketMs: number | undefined,
): Pick<
  RouterServices,
  | 'transport'
  | 'breakers'
  | 'conversations'
  | 'providerKeys'
  | 'capacity'
  | 'waitingLine'
  | 'recentErrors'
  | 'failover'
  | 'termination'
  | 'eventTemplates'
  | 'running'
  | 'detachedReads'
> {
  const transport = options.transport?.create() ?? new HttpProxyTransport(agents);
  assertTransport(transport);
  const providerKeys = new ProviderKeys();
  const capacity = new Capacity({ fleet, bucketMs });
  const recentErrors = new RecentErrors();
  const client = new ProviderClient(transport, providerKeys, recentErrors, capacity, wheel);
  return {
    transport,
    breakers,
    conversations: fleet?.conversations ?? new LocalConversations(),
    providerKeys,
    capacity,
    waitingLine: new WaitingLine((listener) => capacity.onFreed(listener)),
    recentErrors,
    failover: new Failover(client, breakers, recentErrors, retries),
    termination: new StreamTermination(),
    eventTemplates: new PerTarget(() => new EventTemplates()),
    running: new RunningAttempts(),
    detachedReads: new DetachedReads(),
  };
}

/** What is shared with other processes of what is known of providers; undefined where the store shares nothing. */
function createFleet(
  { fleet: view }: LedgerStore,
  onError: (error: Error) => void,
  { sticky }: Settings,
  bucketMs: number | undefined,
): FleetSync | undefined {
  const conversations = sticky && new SharedConversations();
  return view && new FleetSync({ view, onError, health: new FleetHealth(), conversations, bucketMs });
}

function createBreakers(
  { health: settings }: Settings,
  { onHealthChange: emit }: HookRunner,
  fleet: FleetSync | undefined,
): CircuitBreakers {
  return new CircuitBreakers({ settings, emit, fleet: fleet?.health });
}

/** What operators change of the routing, and what providers cost. */
function createRouting(
  options: Omit<RoutingChangesOptions, 'costs'>,
  clock: StoreClock,
): Pick<RouterServices, 'routing' | 'providerCosts'> {
  const providerCosts = new ProviderCosts(
    () => clock.now(),
    () => {
      routing.reached();
    },
  );
  const routing = new RoutingChanges({ ...options, costs: providerCosts });
  return { routing, providerCosts };
}

/** The app's hooks, and those of the log of requests, which reports its errors to them. */
function createHooks(
  given: ChatCompletionsRouterOptions['hooks'] = [],
  store: RequestLogStore,
  clock: StoreClock,
  { requestLogDays: days, requestLogMax: max }: Settings,
): Pick<RouterServices, 'hooks' | 'requestLog'> {
  const requestLog = new RequestLogWriter({
    store,
    days,
    max,
    now: () => clock.now(),
    onError: (error) => {
      hooks.onError(error);
    },
  });
  const hooks = createHookRunner([given, requestLog.hooks ?? []].flat());
  return { hooks, requestLog };
}

/** The changes for `reload`, as in the options of the router. */
export type ReloadOptions = Partial<CatalogOptions>;

/** The catalog that new requests use. A catalog never changes: `reload()` and model discovery replace it. */
export class CurrentCatalog {
  readonly discovery: ModelDiscovery;
  readonly #settings: Settings;
  #options: CatalogOptions;
  #catalog: Catalog;

  /** @throws {TypeError} naming the invalid option */
  constructor(
    { providers, models }: CatalogOptions,
    settings: Settings,
    agents: Agents,
    onError: (error: Error, requestId?: string) => void,
  ) {
    this.#settings = settings;
    this.#options = { providers, models };
    this.#catalog = createCatalog(this.#options, settings);
    const onChange = (): void => {
      this.#catalog = this.discovery.extend(this.#catalog);
    };
    this.discovery = new ModelDiscovery({ agents, context: settings, onChange, onError });
    this.discovery.watch(this.#catalog);
  }

  get catalog(): Catalog {
    return this.#catalog;
  }

  /** @throws {TypeError} naming the invalid option; nothing has changed then */
  reload(changes: ReloadOptions): void {
    assertObject(changes, 'reload', { providers: true, models: true });
    const { providers = this.#options.providers, models = this.#options.models } = changes;
    const next = createCatalog({ providers, models }, this.#settings, this.#catalog);
    this.#options = { providers, models };
    this.discovery.watch(next);
    this.#catalog = this.discovery.extend(next);
  }
}
