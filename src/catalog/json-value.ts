/** A value from JSON.parse, or a missing member. */
export type Json =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly Json[]
  | { readonly [name: string]: Json };

/** Returns undefined for invalid JSON. */
export function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** As in platform/is-record.ts, for values of JSON. */
export function isRecord(given: Json): given is { readonly [name: string]: Json } {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}

export function positiveInteger(given: Json): number | undefined {
  return typeof given === 'number' && Number.isSafeInteger(given) && given > 0 ? given : undefined;
}

export function nonEmptyString(given: Json): string | undefined {
  return typeof given === 'string' && given !== '' ? given : undefined;
}
