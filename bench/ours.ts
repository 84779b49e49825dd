type Store = 'memory' | 'Redis' | 'SQLite';

/** What follows the store in a router's name; nothing for the default, `http-proxy-middleware`. */
const TRANSPORTS = ['', ', undici'];

/** The names of our routers with these stores, each on every transport. */
export function routers(...stores: readonly Store[]): readonly string[] {
  return stores.flatMap((store) => TRANSPORTS.map((transport) => `router, ${store}${transport}`));
}

export const MEMORY = routers('memory');
export const ALL_STORES = routers('memory', 'Redis', 'SQLite');

export const usesRedis = (name: string): boolean => name.startsWith('router, Redis');

/** The routers' transports alone: a router can't cost less than its own. */
export const FLOORS = ['http-proxy-middleware', 'undici'] as const;
