import type { ServerConfig } from '../../options/server-options.ts';

/** What a new config replaces in a router that runs. */
export const RELOADABLE: readonly string[] = ['providers', 'models'];

/**
 * Options that a new config has otherwise, and that only a restart would take over, as far as can be told.
 *
 * Functions are compared by their text; objects of classes, as stores, and hooks are not compared.
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
