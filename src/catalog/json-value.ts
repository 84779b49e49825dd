/** What JSON.parse can give, and a member that isn't there. */
export type Json =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly Json[]
  | { readonly [name: string]: Json };

/** Undefined where it is no JSON. */
export function parseJson(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isRecord(given: Json): given is { readonly [name: string]: Json } {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}
