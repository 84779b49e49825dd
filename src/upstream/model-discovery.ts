import { backoff } from '../async/backoff.ts';
import { withTimeout } from '../async/timeout.ts';
import { asError } from '../platform/as-error.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { discoveredModels } from '../catalog/discovered-models.ts';
import type { ListedModel } from '../catalog/provider-model-list.ts';
import type { Provider } from '../catalog/provider.ts';
import type { ResolveContext } from '../catalog/resolve-model.ts';
import type { Agents } from './transport/agents.ts';
import { listModels } from './list-models.ts';
import { ProviderKeys } from './provider-keys.ts';

export interface DiscoveryServices {
  readonly agents: Agents;
  readonly context: Omit<ResolveContext, 'providers'>;
  /** A provider's list of models has changed. */
  readonly onChange: () => void;
  readonly onError: (error: Error) => void;
}

/** Jitter of intervals, as a share, so that processes don't all ask at once. */
const JITTER = 0.1;
/** First backoff after a failure; it doubles up to the provider's refresh interval. */
const RETRY_MS = 15_000;
/** How long requests wait for a first list. A provider that hangs must not keep those waiting that want a model of another. */
const FIRST_MS = 5000;

/** Discovers the models that providers list, in the background, from the first use on.
 *
 * While a provider fails, its last good list stays in use.
 */
export class ModelDiscovery {
  readonly #services: DiscoveryServices;
  readonly #keys = new ProviderKeys();
  readonly #sources = new Map<Provider, DiscoverySource>();
  readonly #closing = new AbortController();
  #started = false;

  constructor(services: DiscoveryServices) {
    this.#services = services;
  }

  /** The catalog with the models discovered at its providers; configured models win. */
  extend(catalog: Catalog): Catalog {
    const { providers } = catalog;
    const context = { ...this.#services.context, providers };
    const models = [...providers.values()].flatMap((provider) => {
      const listed = this.#sources.get(provider)?.listed;
      return listed ? discoveredModels(provider, listed, context) : [];
    });
    return catalog.with(models);
  }

  /** Polls the providers of this catalog that have discovery, and stops polling others. */
  watch({ providers }: Catalog): void {
    const wanted = new Set([...providers.values()].filter(({ discovery }) => discovery !== undefined));
    const known = new Map(
      [...this.#sources].map(([provider, { listed }]) => [listIdentity(provider), listed]),
    );
    for (const [provider, source] of this.#sources) {
      if (wanted.has(provider)) continue;
      source.stop();
      this.#sources.delete(provider);
    }
    for (const provider of wanted) {
      if (this.#sources.has(provider)) continue;
      const list = (): Promise<readonly ListedModel[]> =>
        listModels(this.#services.agents, provider, this.#keys, this.#closing.signal);
      this.#sources.set(
        provider,
        new DiscoverySource(provider, list, this.#services, known.get(listIdentity(provider))),
      );
    }
    if (this.#started) this.#startSources();
  }

  /** Starts polling. Can be called again. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#startSources();
  }

  /** Resolves once each provider has answered or failed once, after a few seconds at most; undefined then, which is the usual case. */
  get pending(): Promise<unknown> | undefined {
    if (this.#sources.size === 0) return undefined;
    const first = [...this.#sources.values()].flatMap(({ first: each }) => each ?? []);
    return first.length === 0 ? undefined : Promise.all(first);
  }

  close(): void {
    this.#closing.abort();
    for (const source of this.#sources.values()) source.stop();
  }

  #startSources(): void {
    if (this.#closing.signal.aborted) return;
    for (const source of this.#sources.values()) source.start();
  }
}

/** Identity of a provider's list: after a change of its key, the old list is used until a new one arrives. */
function listIdentity({ name, origin, modelsPath }: Provider): string {
  return JSON.stringify([name, origin.href, modelsPath]);
}

/** Polls one provider's list. */
class DiscoverySource {
  /** The last good list. */
  listed: readonly ListedModel[] | undefined;
  /** Set during the first request, for a few seconds at most, if there is no earlier list. */
  first: Promise<void> | undefined;
  readonly #provider: Provider;
  readonly #list: () => Promise<readonly ListedModel[]>;
  readonly #services: DiscoveryServices;
  #timer: NodeJS.Timeout | undefined;
  #isStarted = false;
  #isStopped = false;
  #failures = 0;
  #lastJson = '';

  constructor(
    provider: Provider,
    list: () => Promise<readonly ListedModel[]>,
    services: DiscoveryServices,
    listed: readonly ListedModel[] | undefined,
  ) {
    this.#provider = provider;
    this.#list = list;
    this.#services = services;
    this.listed = listed;
  }

  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const refreshed = this.#refresh();
    if (this.listed) return;
    this.first = withTimeout(refreshed, FIRST_MS, () => {}).then(() => {
      this.first = undefined;
    });
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** Never rejects. */
  async #refresh(): Promise<void> {
    try {
      const listed = await this.#list();
      if (this.#isStopped) return;
      this.#failures = 0;
      const json = JSON.stringify(listed);
      if (json !== this.#lastJson) {
        this.#lastJson = json;
        this.listed = listed;
        this.#services.onChange();
      }
    } catch (thrown) {
      if (this.#isStopped) return;
      this.#failures += 1;
      const cause = asError(thrown);
      const { name, origin, modelsPath = '' } = this.#provider;
      // A query may hold a key.
      const url = new URL(modelsPath, origin);
      const place = `provider ${JSON.stringify(name)} at ${url.origin}${url.pathname}`;
      this.#services.onError(new Error(`Can't list the models of ${place}: ${cause.message}`, { cause }));
    }
    this.#timer = setTimeout(() => void this.#refresh(), this.#pauseMs());
    this.#timer.unref();
  }

  #pauseMs(): number {
    const { refreshMs = RETRY_MS } = this.#provider.discovery ?? {};
    const ms =
      this.#failures === 0
        ? refreshMs
        : backoff(this.#failures - 1, { firstMs: RETRY_MS, maxMs: refreshMs, jitter: 0 });
    return ms * (1 - JITTER + 2 * JITTER * Math.random());
  }
}
