import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe } from 'vitest';

import { type LedgerStore, MemoryStore } from '../../src/index.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

/** One ledger, as each of several processes opens it: one store in memory, or the URL of a file or of Redis. */
export type OpenLedger = () => string | LedgerStore;

/** Describes the same rules for each kind of store. `ledger()` makes an empty one. */
export function describeEachStore(name: string, rules: (ledger: () => OpenLedger) => void): void {
  describe.each(['memory', 'SQLite', 'Redis'])(`${name}, in %s`, (kind) => {
    let folder = '';
    let redis: RedisServer | undefined;
    let made = 0;

    beforeAll(async () => {
      if (kind === 'SQLite') folder = mkdtempSync(join(tmpdir(), 'ccr-each-store-'));
      if (kind === 'Redis') redis = await startRedis(['--databases', '100']);
    });

    afterAll(async () => {
      await redis?.stop();
      if (folder !== '') rmSync(folder, { recursive: true });
    });

    rules(() => {
      made += 1;
      if (kind === 'SQLite') {
        const url = `sqlite:${join(folder, `${made}.db`)}`;
        return () => url;
      }
      if (kind === 'Redis') {
        const url = `${redis?.url}/${made}`;
        return () => url;
      }
      const store = new MemoryStore();
      return () => store;
    });
  });
}
