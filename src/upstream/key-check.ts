import type { Provider } from '../catalog/provider.ts';
import { PooledKey } from './provider-keys.ts';

/** Finds functions for API keys that return no key, before the first request does. */
export class KeyCheck {
  readonly #passed = new WeakSet<Provider>();

  /**
   * Asks each function once: a provider whose functions returned keys is not asked again.
   *
   * @throws {Error} that names the option
   */
  async check(providers: Iterable<Provider>): Promise<void> {
    for (const provider of providers) {
      if (this.#passed.has(provider)) continue;
      const { apiKeys, name } = provider;
      for (const [i, source] of apiKeys.entries()) {
        if (typeof source === 'string') continue;
        const option = `providers[${JSON.stringify(name)}].apiKey${apiKeys.length > 1 ? `s[${i}]` : ''}`;
        await this.#ask(new PooledKey(provider, source, option), option);
      }
      this.#passed.add(provider);
    }
  }

  async #ask(key: PooledKey, option: string): Promise<void> {
    try {
      await key.read();
    } catch (error) {
      const { cause } = error instanceof Error ? error : {};
      const reason = cause instanceof Error ? `: ${cause.message}` : '';
      throw new Error(`${option} returned no API key${reason}`, { cause: error });
    }
  }
}
