import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

import { newKey } from '../../../src/ledger/engine/key-states.ts';
import { SqliteAccounts } from '../../../src/ledger/stores/sqlite/sqlite-accounts.ts';
import { SCHEMA, type Sql, type Statement } from '../../../src/ledger/stores/sqlite/sqlite-schema.ts';
import { NOON } from '../../contracts/ledger-fixture.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');

it('drops accounts that have grown since they were first kept', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-accounts-'));
  const database = new DatabaseSync(join(folder, 'ledger.db'));
  onTestFinished(() => {
    database.close();
    rmSync(folder, { recursive: true });
  });
  database.exec(SCHEMA);
  const reads: unknown[] = [];
  const sql: Sql = (text) => {
    const statement = database.prepare(text);
    statement.setReadBigInts(true);
    const get: Statement['get'] = (...values) => {
      if (/^SELECT .* FROM accounts WHERE name = \?$/.test(text)) reads.push(values[0]);
      return statement.get(...values);
    };
    return {
      get,
      all: (...values) => statement.all(...values),
      run: (...values) => statement.run(...values),
      setReadBigInts: () => {},
    };
  };
  const accounts = new SqliteAccounts(sql);
  const transaction = (work: () => void): void => {
    database.exec('BEGIN IMMEDIATE');
    accounts.begin();
    work();
    accounts.save();
    database.exec('COMMIT');
    accounts.keep();
  };
  const grow = (name: string): void =>
    transaction(() => {
      const account = accounts.open(name, 0);
      for (let n = 0; n < 8000; n++) account.saveKey(newKey({ key: `k${n}`, name: '' }, NOON));
    });

  const names = ['first', 'second', 'third'];
  for (const name of names) transaction(() => accounts.open(name, 0));
  for (const name of names) grow(name);
  reads.length = 0;
  for (const name of names.toReversed()) transaction(() => accounts.find(name));
  // Three of 8,000 rows are more than is kept.
  expect(reads).toEqual(['first']);
});
