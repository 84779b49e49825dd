import { asError } from '../platform/as-error.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { discoveredModels } from '../catalog/discovered-models.ts';
import type { ListedModel } from '../catalog/provider-model-list.ts';
import type { Provider } from '../catalog/provider.ts';
import type { ResolveContext } from '../catalog/resolve-model.ts';
import { listModels } from './list-models.ts';
import { ProviderKeys } from './provider-keys.ts';

export interface DiscoveryServices {
  readonly context: Omit<ResolveContext, 'providers'>;
  /** Some provider's models are others than before. */
  readonly onChange: () => void;
  readonly onError: (error: Error) => void;
}

/** Intervals differ by up to this share, so that processes don't all ask at once. */
const JITTER = 0.1;
/** After a failure a provider is asked again so soon, then after twice as long, up to its interval. */
const RETRY_MS = 15_000;

/**
 * The models that providers list themselves: asked for in the background, from the first use on.
 *
 * The last good list is kept while a provider fails.
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

  /** The same catalog with the models that were discovered at its providers; its own entries win. */
  extend(catalog: Catalog): Catalog {
    const { providers } = catalog;
    const context = { ...this.#services.context, providers };
    const models = [...providers.values()].flatMap((provider) => {
      const listed = this.#sources.get(provider)?.listed;
      return listed ? discoveredModels(provider, listed, context) : [];
    });
    return catalog.with(models);
  }

  /** Asks those providers of a catalog that are to be asked, and no longer others. */
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
      const ask = (): Promise<readonly ListedModel[]> =>
        listModels(provider, this.#keys, this.#closing.signal);
      this.#sources.set(
        provider,
        new DiscoverySource(provider, ask, this.#services, known.get(listIdentity(provider))),
      );
    }
    if (this.#started) this.#startSources();
  }

  /** Called on every request. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#startSources();
  }

  /** Resolves once each provider has answered once, or failed; undefined where they all have, which they mostly have. */
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

/** Where a provider has its list: with another key it is still the same one, until it says otherwise. */
function listIdentity({ name, origin, modelsPath }: Provider): string {
  return JSON.stringify([name, origin.href, modelsPath]);
}

/** One provider's list. */
class DiscoverySource {
  /** The last good one. */
  listed: readonly ListedModel[] | undefined;
  /** While it is asked for the first time, and there is no list of before. */
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
    ask: () => Promise<readonly ListedModel[]>,
    services: DiscoveryServices,
    listed: readonly ListedModel[] | undefined,
  ) {
    this.#provider = provider;
    this.#list = ask;
    this.#services = services;
    this.listed = listed;
  }

  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const asked = this.#refresh();
    if (this.listed) return;
    this.first = asked.then(() => {
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
      const shown = JSON.stringify(listed);
      if (shown !== this.#lastJson) {
        this.#lastJson = shown;
        this.listed = listed;
        this.#services.onChange();
      }
    } catch (thrown) {
      if (this.#isStopped) return;
      this.#failures += 1;
      const cause = asError(thrown);
      const { name } = this.#provider;
      this.#services.onError(
        new Error(`The models of ${JSON.stringify(name)} can't be listed: ${cause.message}`, { cause }),
      );
    }
    this.#timer = setTimeout(() => void this.#refresh(), this.#pauseMs());
    this.#timer.unref();
  }

  #pauseMs(): number {
    const { refreshMs = RETRY_MS } = this.#provider.discovery ?? {};
    const ms = this.#failures === 0 ? refreshMs : Math.min(refreshMs, RETRY_MS * 2 ** (this.#failures - 1));
    return ms * (1 - JITTER + 2 * JITTER * Math.random());
  }
}
