import type { SlotList } from '../async/slot-list.ts';
import { withTimeout } from '../async/timeout.ts';
import { RouterClosingError } from '../errors/router-error.ts';
import { fetchStoreTime } from '../ledger/contract/store-clock.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import { asError } from '../platform/as-error.ts';
import { KeyCheck } from '../upstream/key-check.ts';
import type { RouterServices } from './services.ts';
import { storeFault } from './store-fault.ts';

/** How long aborted requests may take to end. */
const ABORT_MS = 1000;
/** How long a store may take to close, if nothing is left of the time for the log. */
const STORE_CLOSE_MS = 1000;

/** Starts the background work of a router, and closes the router in order. */
export class RouterLifecycle {
  readonly #services: RouterServices;
  readonly #requests: SlotList<ActiveRequest>;
  readonly #keys = new KeyCheck();
  #isStarted = false;
  #wasReady = false;
  #closed: Promise<void> | undefined;
  #isClosed = false;

  constructor(services: RouterServices, requests: SlotList<ActiveRequest>) {
    this.#services = services;
    this.#requests = requests;
  }

  get isClosing(): boolean {
    return this.#closed !== undefined;
  }

  /** Nothing runs any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Starts ledger maintenance, model discovery and warm connections. Called by each request: a router that serves none stays idle. */
  start(): void {
    if (this.isClosing) return;
    this.#services.fleet?.used();
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#services.maintenance.start();
    void this.#services.routing.start();
    this.#services.requestLog.start();
    this.#services.discovery.start();
    this.#keepWarm();
  }

  /** The catalog was replaced. */
  reloaded(): void {
    this.#services.routing.reloaded();
    if (this.#isStarted && !this.isClosing) this.#keepWarm();
  }

  /**
   * The first call also waits for API keys and lists of models. Later ones, which are probes, ask the store alone: a provider
   * or a secret manager that hangs doesn't make a process unfit. A function that returns no API key is an error of `onError`.
   *
   * @throws {Error} with the reason why the store can't be used, and its URL without the password
   * @throws {RouterClosingError} if the router is closed meanwhile
   */
  async ready(requestId: string): Promise<void> {
    const { store, storeName, clock, discovery, catalog, hooks, routing, fleet } = this.#services;
    try {
      await store.ready();
      clock.sync(await fetchStoreTime(store, requestId));
    } catch (error) {
      throw storeFault(error, storeName);
    }
    if (this.isClosing) throw new RouterClosingError();
    this.start();
    const keys = this.#keys.check(catalog.providers.values(), (error) => hooks.onError(error));
    await Promise.all([
      routing.start(),
      fleet?.ready(),
      ...(this.#wasReady ? [] : [keys, discovery.pending]),
    ]);
    if (this.isClosing) throw new RouterClosingError();
    this.#wasReady = true;
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close().finally(() => {
      this.#isClosed = true;
    }));
  }

  async #close(): Promise<void> {
    const {
      settings,
      topUps,
      detachedReads,
      waitingLine,
      discovery,
      running,
      maintenance,
      routing,
      billing,
      holds,
      requestLog,
      fleet,
      transport,
      agents,
      hooks,
      store,
      storeName,
    } = this.#services;
    const { closeTimeoutMs } = settings;
    detachedReads.close();
    waitingLine.close(new RouterClosingError());
    discovery.close();
    transport.keepWarm([]);
    await this.#waitForRequests(closeTimeoutMs, holds.ended());
    running.close();
    // Aborted requests end at once; one that still hangs waits for the app's `authenticate` or `apiKey`.
    await this.#waitForRequests(ABORT_MS);
    holds.close();
    await this.#settled(
      Promise.allSettled([maintenance.close(), billing.drain(), topUps?.close()]),
      closeTimeoutMs,
    );
    const toldBy = performance.now() + closeTimeoutMs;
    // Not by a store that doesn't answer: what providers have cost is lost with it.
    await this.#settled(
      Promise.allSettled([requestLog.close(), routing.close(), fleet?.close()]),
      closeTimeoutMs,
    );
    const { waiting } = billing;
    transport.close();
    agents.close();
    const leftMs = Math.max(STORE_CLOSE_MS, toldBy - performance.now());
    const isClosed = await this.#settled(Promise.allSettled([store.close()]), leftMs);
    if (!isClosed) hooks.onError(new Error(`The store ${storeName} did not close in time`));
    if (waiting > 0) this.#reportUnposted(waiting);
  }

  /**
   * Waits for all of them, for `ms` at most, and reports what failed by then: it doesn't keep the rest from being closed.
   *
   * @returns false if the time was over first
   */
  async #settled(closing: Promise<readonly PromiseSettledResult<unknown>[]>, ms: number): Promise<boolean> {
    const ended = await withTimeout(closing, ms, () => {});
    for (const each of ended ?? [])
      if (each.status === 'rejected') this.#services.hooks.onError(asError(each.reason));
    return ended !== undefined;
  }

  #keepWarm(): void {
    const { transport, agents, catalog } = this.#services;
    const connections = [...catalog.providers.values()].map(({ connection }) => connection);
    transport.keepWarm(connections);
    // Of lists of models, where the transport has connections of its own.
    agents.keepOnly(connections);
  }

  async #waitForRequests(ms: number, holdsEnded?: Promise<void>): Promise<void> {
    await withTimeout(
      Promise.allSettled([...this.#requests.values().map(({ handled }) => handled), holdsEnded]),
      ms,
      () => {},
    );
  }

  #reportUnposted(charges: number): void {
    const { settings, hooks, store } = this.#services;
    const kept = store.keepsWhatWaits ? ` (kept in ${settings.outboxDir} for the next start)` : '';
    hooks.onError(new Error(`Charges not posted when the router was closed: ${charges}${kept}`));
  }
}
