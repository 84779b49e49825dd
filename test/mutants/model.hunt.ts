import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { afterAll, expect, it } from 'vitest';

import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import type { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';
import type { RedisStore } from '../../src/ledger/stores/redis/redis-store.ts';
import { behavesLikeTheModel } from '../contracts/ledger-commands.ts';
import { type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { type Kind, type Mutant, mutated, SOURCE } from './mutants.ts';

/**
 * The fast half of the hunt: random commands against the model, in this process.
 *
 * Started by scripts/mutants.ts, which gives the mutants in `MUTANTS_IN` and reads
 * a line for each that was begun and each that was judged from `MUTANTS_OUT`.
 */
const { MUTANTS_IN = '', MUTANTS_OUT = '' } = process.env;
const { kind, mutants } = JSON.parse(readFileSync(MUTANTS_IN, 'utf8')) as { kind: Kind; mutants: Mutant[] };
const SEQUENCES = 60;

const folder = mkdtempSync(join(tmpdir(), 'ccr-mutants-'));
let server: RedisServer | undefined;

it('meets each mutant', { timeout: 3_600_000 }, async () => {
  // Where the unchanged code fails, nothing is learned of a mutant.
  const [{ file } = { file: 'contract/ledger-store.ts' }] = mutants;
  expect(await isKilled(-1, file, readFileSync(join(SOURCE, file), 'utf8'))).toBe(false);
  for (const [index, mutant] of mutants.entries()) {
    const code = mutated(mutant);
    tell(`${index} begun`);
    tell(`${index} ${(await isKilled(index, mutant.file, code)) ? 'killed' : 'alive'}`);
  }
});

afterAll(async () => {
  await server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function isKilled(index: number, file: string, code: string): Promise<boolean> {
  const copy = join(folder, String(index));
  cpSync(SOURCE, join(copy, 'ledger'), { recursive: true });
  for (const name of ['platform', 'async']) {
    cpSync(join(SOURCE, '..', name), join(copy, name), { recursive: true });
  }
  writeFileSync(join(copy, 'ledger', file), code);
  const { create, end } = await (kind === 'redis' ? redisStores(copy) : memoryStores(copy));
  try {
    await behavesLikeTheModel(create, { sequences: SEQUENCES, endOnFailure: true });
    return false;
  } catch {
    return true;
  } finally {
    await end();
    rmSync(copy, { recursive: true });
  }
}

interface Stores {
  readonly create: (clock: { now: number }) => Promise<LedgerStore>;
  readonly end: () => Promise<void>;
}

async function memoryStores(copy: string): Promise<Stores> {
  const path = join(copy, 'ledger/stores/memory/memory-store.ts');
  const module = (await import(path)) as { MemoryStore: typeof MemoryStore };
  return {
    create: async (clock) => new module.MemoryStore({ now: () => clock.now }),
    end: async () => {},
  };
}

async function redisStores(copy: string): Promise<Stores> {
  const path = join(copy, 'ledger/stores/redis/redis-store.ts');
  const module = (await import(path)) as { RedisStore: typeof RedisStore };
  server ??= await startRedis(['--busy-reply-threshold', '500']);
  const clients = [await clientOf(server.url), await clientOf(server.url, '-fcall')];
  let stores = 0;
  return {
    // Functions and scripts in turns: the linker makes both of the same Lua.
    create: async (clock) => {
      const client = clients[stores % 2]!;
      return new module.RedisStore({
        client,
        keyPrefix: `n${stores++}:`,
        now: () => clock.now,
        timeoutMs: 1500,
      });
    },
    async end() {
      const flushed = clients[0]!.flushall().then(
        () => true,
        () => false,
      );
      const late = new Promise<boolean>((resolve) => setTimeout(resolve, 1000, false).unref());
      const alive = await Promise.race([flushed, late]);
      for (const client of clients) client.disconnect();
      if (alive) return;
      // A script that doesn't end takes its server with it.
      await server?.kill();
      server = undefined;
    },
  };
}

/** A client whose user has all rights, but for these. */
async function clientOf(url: string, ...withoutRights: readonly string[]): Promise<Redis> {
  const username = `user${withoutRights.join('')}`;
  const admin = new Redis(url);
  await admin.acl('SETUSER', username, 'on', '>secret', '~*', '&*', '+@all', ...withoutRights);
  admin.disconnect();
  const options = { maxRetriesPerRequest: 0, retryStrategy: () => null };
  const client = new Redis(url, { ...options, username, password: 'secret' });
  client.on('error', () => {});
  return client;
}

function tell(line: string): void {
  appendFileSync(MUTANTS_OUT, `${line}\n`);
}
