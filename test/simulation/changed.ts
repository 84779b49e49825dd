import type { LedgerStore } from '../../src/ledger/ledger.ts';

/** A store that does some things differently: methods that aren't given are the other's own. */
export function changed<T extends object>(original: T, changes: Partial<T>): T {
  return new Proxy(original, {
    get(target, name) {
      const own: unknown = Reflect.get(name in changes ? changes : target, name);
      return typeof own === 'function' && !(name in changes) ? own.bind(target) : own;
    },
  });
}

export type Changing = (store: LedgerStore) => LedgerStore;
