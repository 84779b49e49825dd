import type { Target } from '../models/catalog.ts';

/** What a server says that doesn't know the field: by its name, or that there is some field it doesn't know. */
const NAMES_OPTION = /stream_?options|include_?usage/i;
const UNKNOWN_FIELD =
  /(unknown|unrecogni[sz]ed|unexpected|unsupported|extra|additional)[\s_-]+(\w+[\s_-]+)?(field|name|argument|parameter|param|propert|input|key)|extra_forbidden|additionalProperties/i;

/** Whether an error's body may be about `stream_options` that the client did not send. */
export function blamesUsageOption(body: string): boolean {
  return NAMES_OPTION.test(body) || UNKNOWN_FIELD.test(body);
}

/**
 * Which targets take `stream_options.include_usage`: those whose provider is said to, until they refuse it.
 *
 * Remembers no more than there are targets, for as long as the process lives.
 */
export class UsageOption {
  readonly #refusedBy = new Set<string>();

  isTakenBy(target: Target): boolean {
    return target.provider.streamUsage === 'option' && !this.#refusedBy.has(nameOf(target));
  }

  /** It refused a request with the field, and took the same one without it. */
  isRefusedBy(target: Target): void {
    this.#refusedBy.add(nameOf(target));
  }
}

function nameOf({ provider, model }: Target): string {
  return `${provider.name}/${model}`;
}
