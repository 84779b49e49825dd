import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, it } from 'vitest';

import { describeGateway } from '../../contracts/router.ts';
import { type AppProcess, startApp } from '../../helpers/app-process.ts';
import { type Provider, startProvider } from '../../helpers/provider.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const AREA = import.meta.dirname;
const node = (version: string): string => join(AREA, `node_modules/node-${version}/bin/node`);
const BUN = join(AREA, 'node_modules/bun/bin/bun.exe');
const DENO = join(AREA, 'node_modules/deno/deno');

/** Runtime → program, its arguments before the app, and the servers that it can put before a router. */
const RUNTIMES: Readonly<Record<string, readonly [string, readonly string[], readonly string[]]>> = {
  'Node 22.15.0': [node('22.15.0'), [], ['node:http']],
  'Node 22.23.3': [node('22'), [], ['node:http']],
  'Node 24.0.0': [node('24.0.0'), [], ['node:http']],
  'Node 24.21.0': [node('24'), [], ['node:http']],
  'Node 26.10.0': [node('26'), [], ['node:http']],
  'Bun 1.4.5': [BUN, [], ['node:http', 'Bun.serve']],
  'Deno 2.9.6': [DENO, ['run', '--allow-all'], ['node:http', 'Deno.serve']],
};

const STORES = ['memory', 'SQLite', 'Redis'] as const;

const temporary = mkdtempSync(join(tmpdir(), 'ccr-runtimes-'));
let provider: Provider;
let redis: RedisServer;
let stores = 0;

beforeAll(async () => {
  provider = await startProvider();
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
  await provider.close();
  rmSync(temporary, { recursive: true });
});

function storeURL(store: (typeof STORES)[number]): string {
  stores += 1;
  if (store === 'memory') return 'memory:';
  return store === 'SQLite' ? `sqlite:${join(temporary, `${stores}.db`)}` : `${redis.url}?prefix=${stores}:`;
}

for (const [runtime, [program, args, servers]] of Object.entries(RUNTIMES)) {
  if (!existsSync(program)) {
    console.log(`Skipped: npm has no ${runtime} for ${process.platform} ${process.arch} in ${AREA}.`);
    describe.skip(runtime, () => {
      it('is not installed', () => {});
    });
    continue;
  }
  for (const server of servers) {
    describe.each(STORES)(`${runtime}, ${server}, %s`, (store) => {
      let app: AppProcess;

      beforeAll(async () => {
        const command = [program, ...args, 'app.mjs', server] as const;
        app = await startApp({ command, cwd: AREA, store: storeURL(store), provider });
      });

      afterAll(async () => {
        await app.stop();
      });

      describeGateway(`${runtime}, ${server}, ${store}`, () => app.gateway());
    });
  }
}
