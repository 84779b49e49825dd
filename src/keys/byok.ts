/** A caller's own keys for providers. Holds them where neither a log nor JSON sees them. */
export class ByokKeys {
  readonly #byProvider = new Map<string, string>();

  /** @throws {TypeError} that doesn't show it, for a key that can't be one */
  constructor(given: Readonly<Record<string, string | undefined>>) {
    if (typeof given !== 'object' || given === null || Array.isArray(given)) {
      throw new TypeError(`upstreamKeys of authenticate must be an object of strings, got ${typeof given}`);
    }
    for (const [provider, key] of Object.entries(given)) {
      if (key === undefined) continue;
      if (typeof key !== 'string' || !/^[\u0021-\u007e]+$/.test(key)) {
        throw new TypeError(
          `upstreamKeys of authenticate must be visible ASCII characters; that for ${JSON.stringify(provider)} is not`,
        );
      }
      this.#byProvider.set(provider, key);
    }
  }

  /** @param provider - its name */
  of(provider: string): string | undefined {
    return this.#byProvider.get(provider);
  }
}
