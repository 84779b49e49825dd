/** A value that may contain a secret, where an object was expected: of text and lists only the kind. */
export function showKind(value: unknown): string {
  if (typeof value === 'string') return 'a string';
  return Array.isArray(value) ? 'an array' : showValue(value);
}

/** A value as an error message shows it: as JSON if possible. */
export function showValue(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint') return `${value}n`;
  return JSON.stringify(value) ?? String(value);
}
