import { type Catalog, type CatalogOptions, createCatalog } from '../catalog/catalog.ts';
import { assertObject, type Settings } from '../options/resolve-options.ts';
import { ModelDiscovery } from '../upstream/model-discovery.ts';

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
    onError: (error: Error, requestId?: string) => void,
  ) {
    this.#settings = settings;
    this.#options = { providers, models };
    this.#catalog = createCatalog(this.#options, settings);
    const onChange = (): void => {
      this.#catalog = this.discovery.extend(this.#catalog);
    };
    this.discovery = new ModelDiscovery({ context: settings, onChange, onError });
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
