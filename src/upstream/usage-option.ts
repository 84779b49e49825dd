import type { Target } from '../models/catalog.ts';
import type { Provider } from '../models/providers.ts';

/** What a server says that doesn't know the field: by its name, or that there is some field it doesn't know. */
const NAMES_OPTION = /stream_?options|include_?usage/i;
/** Each of its repetitions has a limit: an error may quote what a client has sent, and a long one would take for ever. */
const UNKNOWN_FIELD =
  /(unknown|unrecogni[sz]ed|unexpected|unsupported|extra|additional)[\s_-]{1,4}(\w{1,40}[\s_-]{1,4})?(field|name|argument|parameter|param|propert|input|key)|extra_forbidden|additionalProperties/i;

/** Whether an error's body may be about `stream_options` that the client did not send. */
export function blamesUsageOption(body: string): boolean {
  return NAMES_OPTION.test(body) || UNKNOWN_FIELD.test(body);
}

/** A target is asked again so long after it refused: one stray refusal must not leave all its streams to estimates. */
const BELIEVED_MS = 3_600_000;

/**
 * Which targets take `stream_options.include_usage`: those whose provider is said to, but for an hour after
 * they refused it.
 *
 * Remembers no more than there are targets.
 */
export class UsageOption {
  /** By the model's name there. */
  readonly #refusedAt = new WeakMap<Provider, Map<string, number>>();
  readonly #now: () => number;

  /** @param now - a clock that nobody sets, in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  isTakenBy({ provider, knownAs }: Target): boolean {
    if (provider.streamUsage !== 'option') return false;
    const refusedAt = this.#refusedAt.get(provider)?.get(knownAs);
    return refusedAt === undefined || this.#now() - refusedAt >= BELIEVED_MS;
  }

  /** It refused a request with the field, and took the same one without it. */
  isRefusedBy({ provider, knownAs }: Target): void {
    const refusedAt = this.#refusedAt.get(provider);
    if (refusedAt) refusedAt.set(knownAs, this.#now());
    else this.#refusedAt.set(provider, new Map([[knownAs, this.#now()]]));
  }
}
