/**
 * Lends a global `require` of Node's own modules, for as long as a CommonJS package is evaluated.
 *
 * esbuild leaves `require('tty')` of such a package as it is in a bundle that is an ES module, where it finds that
 * global one or throws. The module that lends is imported right before the package, and what it returns is called
 * right after: all of it is one turn of the event loop, in which no code of the host runs.
 *
 * @returns takes it back
 */
export function lendRequire(): () => void {
  if ('require' in globalThis) return () => {};
  const value = (name: string): unknown => process.getBuiltinModule(name);
  Object.defineProperty(globalThis, 'require', { value, configurable: true });
  return () => {
    Reflect.deleteProperty(globalThis, 'require');
  };
}
