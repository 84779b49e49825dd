import { parseMarkup } from '../metering/markup.ts';
import { parsePricing } from '../metering/pricing.ts';
import type { DiscoveryOptions, ProviderOptions } from '../options/provider-options.ts';
import { assertObject, milliseconds, optionError, positiveInteger } from '../options/resolve-options.ts';

const HOUR_MS = 3_600_000;

/** How discovered models of a provider are served. */
export interface DiscoveryTerms extends DiscoveryOptions {
  readonly prefix: string;
  readonly refreshMs: number;
}

const DISCOVERY_OPTIONS: Record<keyof DiscoveryOptions, true> = {
  prefix: true,
  only: true,
  pricing: true,
  markup: true,
  contextWindow: true,
  maxOutputTokens: true,
  enforceOutputLimit: true,
  refreshMs: true,
};

/** @param name - the provider's name
 * @throws {TypeError} naming the invalid option
 */
export function resolveDiscovery(
  given: ProviderOptions['models'],
  name: string,
  option: string,
): DiscoveryTerms | undefined {
  if (given === undefined) return undefined;
  if (given === 'discover') return { prefix: `${name}/`, refreshMs: HOUR_MS };
  assertObject(given, option, DISCOVERY_OPTIONS);
  const { prefix = `${name}/`, only, pricing, markup, contextWindow, maxOutputTokens, refreshMs } = given;
  if (typeof prefix !== 'string' || prefix.length > 128 || /[\s*]/.test(prefix) || prefix.startsWith('/')) {
    throw optionError(`${option}.prefix`, 'a prefix for IDs, without spaces and *', prefix);
  }
  if (only !== undefined && !(Array.isArray(only) && only.every((one) => typeof one === 'string'))) {
    throw optionError(
      `${option}.only`,
      "a list of the provider's model IDs, which may end in *: ['gpt-*']",
      only,
    );
  }
  if (pricing !== undefined && pricing !== 'provider' && pricing !== 'catalog') {
    parsePricing(pricing, `${option}.pricing`);
  }
  if (markup !== undefined) parseMarkup(markup, `${option}.markup`);
  if (contextWindow !== undefined) positiveInteger(contextWindow, `${option}.contextWindow`);
  const { enforceOutputLimit: enforced } = given;
  if (enforced !== undefined && enforced !== 'lower' && enforced !== 'insert') {
    throw optionError(`${option}.enforceOutputLimit`, "'lower' or 'insert'", enforced);
  }
  if (maxOutputTokens !== undefined) positiveInteger(maxOutputTokens, `${option}.maxOutputTokens`);
  return { ...given, prefix, refreshMs: milliseconds(refreshMs ?? HOUR_MS, `${option}.refreshMs`) };
}
