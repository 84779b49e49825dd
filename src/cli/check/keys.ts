import { PRESETS } from '../../catalog/presets.ts';
import type { ApiKeySource, ProviderOptions } from '../../options/provider-options.ts';

/** A provider's API key, or why it can't be used. */
export interface KeyCheck {
  readonly secret?: string;
  readonly problem?: string;
}

/** The provider once for each of its keys, so that every key is checked. */
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
        problem: 'apiKey starts or ends with whitespace, or contains a control character; trim it',
      };
    }
    if (secret) return { secret };
    return { problem: 'apiKey is empty: put its environment variable into .env and use --env-file .env' };
  } catch (error) {
    return { problem: `apiKey failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}
