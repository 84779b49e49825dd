import { mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { SqliteLine } from '../../src/ledger/stores/sqlite/sqlite-line.ts';
import { type Served, startServe } from '../helpers/cli.ts';
import { startRedis } from '../helpers/redis-server.ts';

let folder: string;
let umask: number;
let served: Served | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-modes-'));
  // What a process makes then is for all, unless it says otherwise.
  umask = process.umask(0);
});

afterEach(async () => {
  await served?.stop();
  served = undefined;
  process.umask(umask);
  rmSync(folder, { recursive: true });
});

/** Name → mode, in octal, of what is in a folder. */
function modes(of: string = folder): Record<string, string> {
  return Object.fromEntries(readdirSync(of).map((name) => [name, modeOf(join(of, name))]));
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8);
}

async function start(config: object): Promise<void> {
  const path = join(folder, 'config.json');
  writeFileSync(path, JSON.stringify({ providers: {}, models: {}, ...config }), { mode: 0o600 });
  served = await startServe(['--config', path]);
}

describe('another user of the machine', () => {
  it('can read none of the files of a server’s ledger', async () => {
    await start({ store: `sqlite:${join(folder, 'credits.db')}` });
    expect(modes()).toEqual({
      'config.json': '600',
      'credits.db': '600',
      'credits.db-shm': '600',
      'credits.db-wal': '600',
    });
  });

  it('can read none that is made where a link points to', async () => {
    const target = join(folder, 'volume.db');
    const link = join(folder, 'credits.db');
    symlinkSync(target, link);
    await start({ store: `sqlite:${link}` });
    expect([modeOf(target), modeOf(`${target}-wal`)]).toEqual(['600', '600']);
  });

  it.each(['600', '660'])('can read the line of a ledger of mode %s as far as the ledger', (mode) => {
    const path = join(folder, 'credits.db');
    writeFileSync(path, '', { mode: Number.parseInt(mode, 8) });
    const line = new SqliteLine(path, (file) => new DatabaseSync(file));
    line.enter();
    expect(line.isWaiting).toBe(true);
    expect(modes()).toEqual({ 'credits.db': mode, 'credits.db-line': mode });
    line.close();
  });

  it('can not look into the outbox', async ({ onTestFinished }) => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    const outboxDir = join(folder, 'outbox');
    await start({ store: redis.url, outboxDir });
    const made = modes(outboxDir);
    expect([modeOf(outboxDir), ...Object.values(made)]).toEqual(['700', '600']);
  });
});
