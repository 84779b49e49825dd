import type { ServerConfig } from '../../options/server-options.ts';

/** Options that a reload replaces in the running router. */
export const RELOADABLE: readonly string[] = ['providers', 'models'];

/**
 * Names of changed options that need a restart.
 *
 * Compares functions by their source text; doesn't compare hooks and instances of classes, such as stores.
 */
export function changedOptions(before: ServerConfig, after: ServerConfig): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const [old, now] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
  return [...names]
    .filter((name) => !RELOADABLE.includes(name) && name !== 'hooks')
    .filter((name) => comparableText(old.get(name)) !== comparableText(now.get(name)))
    .sort();
}

function comparableText(value: unknown): string | undefined {
  return JSON.stringify(value, (_name, each: unknown) => {
    if (typeof each === 'function' || typeof each === 'bigint') return String(each);
    if (typeof each !== 'object' || each === null || Array.isArray(each)) return each;
    return Object.getPrototypeOf(each) === Object.prototype ? each : {};
  });
}
