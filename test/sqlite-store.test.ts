import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter, SqliteStore } from '../src/index.ts';
import { describeLedgerStore } from './contracts/ledger-store.ts';
import { QUESTION, startGateway } from './helpers/gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-sqlite-'));
let files = 0;
const freshFile = (): string => join(folder, `${files++}.db`);

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

describeLedgerStore('SqliteStore', async (clock) => new SqliteStore(freshFile(), { now: () => clock.now }), {
  sequences: 300,
});

describe('SqliteStore', () => {
  it('touches no file before its first command', () => {
    const file = freshFile();
    createChatCompletionsRouter({ store: `sqlite:${file}`, providers: {}, models: {} });
    expect(existsSync(file)).toBe(false);
  });

  it('has everything after it was closed and opened again', async () => {
    const file = freshFile();
    const gateway = await startGateway({ store: new SqliteStore(file) });
    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    await settled;
    await gateway.close();
    const store = new SqliteStore(file);
    expect(await store.balance('acct')).toMatchObject({
      available: 4_999_955_000n,
      spent: 45_000n,
      held: 0n,
    });
    expect(await store.keys('acct')).toHaveLength(1);
    await store.close();
  });

  it('keeps what it acknowledged through kill -9', { timeout: 60_000 }, async () => {
    const file = freshFile();
    const script = join(folder, 'writer.ts');
    const index = new URL('../src/index.ts', import.meta.url).pathname;
    writeFileSync(
      script,
      `import { SqliteStore } from '${index}';
       const store = new SqliteStore(process.argv[2]);
       await store.grant({ account: 'acct', id: 'welcome', amount: 1n });
       for (let i = 0; ; i++) {
         const id = process.pid + '_' + i;
         const { code } = await store.adjust({ account: 'acct', id, delta: 1n, reason: 'test' });
         process.stdout.write(id + ' ' + code + '\\n');
       }`,
    );
    const acknowledged = new Set<string>();
    for (let round = 0; round < 5; round++) {
      const child = spawn(process.execPath, [script, file], { stdio: ['ignore', 'pipe', 'ignore'] });
      let output = '';
      child.stdout.on('data', (chunk) => (output += String(chunk)));
      await once(child.stdout, 'data');
      await new Promise((resolve) => setTimeout(resolve, 50 + 37 * round));
      child.kill('SIGKILL');
      await once(child, 'close');
      for (const line of output.split('\n').slice(0, -1)) {
        expect(line).toMatch(/ ok$/);
        acknowledged.add(line.split(' ')[0] ?? '');
      }
    }
    const store = new SqliteStore(file);
    const ids = (await store.journal('acct', 0n, 1_000_000)).map(({ id }) => id);
    const kept = new Set(ids);
    expect(acknowledged.size).toBeGreaterThan(20);
    expect([...acknowledged].filter((id) => !kept.has(id))).toEqual([]);
    const { granted, available } = (await store.snapshot('acct'))!;
    expect(granted).toBe(BigInt(ids.length));
    expect(available).toBe(granted);
    await store.close();
  });

  it('refuses a file that is not a ledger, and names it', async () => {
    const file = freshFile();
    writeFileSync(file, 'not a database, and long enough to be looked at as one'.repeat(20));
    const asked = new SqliteStore(file).balance('acct');
    await expect(asked).rejects.toMatchObject({ cause: { message: expect.stringContaining(file) } });
  });
});
