import type { TransportOption } from '../../src/index.ts';
import { undiciTransport } from '../../src/undici.ts';

/** What the tests of this project run on: the projects of vitest.config.ts say it. */
export const TRANSPORT: 'http-proxy-middleware' | 'undici' =
  process.env['TEST_TRANSPORT'] === 'undici' ? 'undici' : 'http-proxy-middleware';

/** The option `transport` of routers in tests. */
export function transportOption(): { readonly transport?: TransportOption } {
  return TRANSPORT === 'undici' ? { transport: undiciTransport() } : {};
}
