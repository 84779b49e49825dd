import { PRESETS } from '../../catalog/presets.ts';
import type { ApiKeySource, ProviderOptions } from '../../options/provider-options.ts';

/** What a provider's key was found to be. */
export interface KeyCheck {
  readonly secret?: string;
  readonly problem?: string;
}

/** Each of several keys can be the one that is dead. */
export function withEachKey(
  name: string,
  given: ProviderOptions,
): { readonly label: string; readonly options: ProviderOptions }[] {
  const { apiKeys, ...rest } = given;
  const preset = rest.preset ?? (Object.hasOwn(PRESETS, name) ? name : undefined);
  if (!apiKeys) return [{ label: name, options: rest }];
  return apiKeys.map((apiKey, n) => ({
    label: `${name}#${n + 1}`,
    options: { ...rest, apiKey, ...(preset !== undefined && { preset }) },
  }));
}

/** Never rejects. */
export async function readKey(source: ApiKeySource | undefined): Promise<KeyCheck> {
  if (source === undefined) return {};
  try {
    const secret = typeof source === 'function' ? await source() : source;
    // eslint-disable-next-line no-control-regex -- a header has none of them
    if (secret && /^\s|\s$|[\u0000-\u001f\u007f]/.test(secret)) {
      return {
        secret,
        problem: 'its apiKey has blanks or a line end at its ends, as a file has it: trim it',
      };
    }
    if (secret) return { secret };
    return { problem: 'its apiKey gives no key: is the variable set that it reads?' };
  } catch (error) {
    return { problem: `its apiKey failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}
