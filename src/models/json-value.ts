/** What JSON.parse can give, and a member that isn't there. */
export type Json =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly Json[]
  | { readonly [name: string]: Json };

export function isRecord(given: Json): given is { readonly [name: string]: Json } {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}
