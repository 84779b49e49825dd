/** A copy of an object with some methods replaced. */
export function changed<T extends object>(original: T, changes: Partial<T>): T {
  return new Proxy(original, {
    get(target, name) {
      const own: unknown = Reflect.get(name in changes ? changes : target, name);
      return typeof own === 'function' && !(name in changes) ? own.bind(target) : own;
    },
  });
}
