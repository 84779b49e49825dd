/**
 * Defines a global `require` for Node's own modules while a CommonJS package is evaluated.
 *
 * In an ES module bundle, esbuild leaves the package's `require('tty')` as it is: it finds the global function or
 * throws. The module that calls this is imported right before the package, and calls the returned function right
 * after it. All of that is one turn of the event loop, in which no code of your app runs.
 *
 * @returns a function that removes it again
 */
export function lendRequire(): () => void {
  if ('require' in globalThis) return () => {};
  const value = (name: string): unknown => process.getBuiltinModule(name);
  Object.defineProperty(globalThis, 'require', { value, configurable: true });
  return () => {
    Reflect.deleteProperty(globalThis, 'require');
  };
}
