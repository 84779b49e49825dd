import type { Provider } from '../catalog/provider.ts';
import { UpstreamError } from '../errors/upstream-errors.ts';
import { withoutCredentials } from '../platform/without-credentials.ts';
import { PooledKey } from './provider-keys.ts';

/** Finds functions for API keys that return no key, before the first request does. */
export class KeyCheck {
  readonly #asked = new WeakSet<Provider>();

  /**
   * Asks each function once, all at the same time: a provider that was asked before isn't asked again.
   *
   * @param onError - is called with an error that names the option; the other providers can still be used
   */
  async check(providers: Iterable<Provider>, onError: (error: Error) => void): Promise<void> {
    const asked: Promise<void>[] = [];
    for (const provider of providers) {
      if (this.#asked.has(provider)) continue;
      this.#asked.add(provider);
      const { apiKeys, name } = provider;
      for (const [i, source] of apiKeys.entries()) {
        if (typeof source === 'string') continue;
        const option = `providers[${JSON.stringify(name)}].apiKey${apiKeys.length > 1 ? `s[${i}]` : ''}`;
        asked.push(
          this.#ask(new PooledKey(provider, source, option), option).then((missing) => {
            if (missing) onError(missing);
          }),
        );
      }
    }
    await Promise.all(asked);
  }

  async #ask(key: PooledKey, option: string): Promise<Error | undefined> {
    try {
      await key.read();
      return undefined;
    } catch (error) {
      const { cause } = error instanceof Error ? error : {};
      const reason = cause instanceof Error ? `: ${withoutCredentials(cause.message)}` : '';
      return new UpstreamError(
        'upstream_refused_credentials',
        `${option} returned no API key${reason || '.'}`,
      );
    }
  }
}
