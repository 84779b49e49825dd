import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { expect, it, onTestFinished } from 'vitest';

import { SqliteLine } from '../../../src/ledger/stores/sqlite/sqlite-line.ts';

it('a place in line that can not be left in order is left by closing the file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-line-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  const path = join(folder, 'credits.db');
  writeFileSync(path, '');
  const opened: DatabaseSync[] = [];
  const open = (file: string): DatabaseSync => {
    const database = new DatabaseSync(file);
    opened.push(database);
    return database;
  };
  const [line, other] = [new SqliteLine(path, open), new SqliteLine(path, open)];
  line.enter();
  expect(other.hasWaiters).toBe(true);
  // Without a transaction, there is nothing to roll back.
  opened[0]?.exec('ROLLBACK');
  line.leave();
  expect([line.isWaiting, opened[0]?.isOpen]).toEqual([false, false]);
  expect(other.hasWaiters).toBe(false);
  line.enter();
  expect([line.isWaiting, other.hasWaiters]).toEqual([true, true]);
  line.leave();
  line.close();
  other.close();
});
