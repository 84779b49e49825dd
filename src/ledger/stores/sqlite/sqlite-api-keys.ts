import {
  ACCOUNT_POLICY,
  type CreateKey,
  type CreateKeyResult,
  type EndUserStatus,
  type FoundKey,
  type KeyHashes,
  type KeyRecord,
  type KeyStatus,
  type RotateKey,
  type RotateKeyResult,
  type UpdateKey,
  type UpdateKeyResult,
} from '../../contract/key-records.ts';
import { replyMeta } from '../../engine/account-rows.ts';
import {
  createdKey,
  endUserStatus,
  isSameKey,
  keyHashes,
  keyRecord,
  keyStatus,
  revokeKey,
  rotateKey,
  updateKey,
} from '../../engine/key-states.ts';
import {
  checkAccount,
  checkCreateKey,
  checkEndUserOf,
  checkKeyOf,
  checkRotateKey,
  checkUpdateKey,
} from '../../engine/validate-commands.ts';
import { findKey, isHashTaken, SqliteAccount } from './sqlite-account.ts';
import type { SqliteSession } from './sqlite-session.ts';
import { durable } from './sqlite-transaction.ts';

/** The API keys of a ledger file. What is changed is on the disk when it is acknowledged. */
export class SqliteApiKeys {
  readonly #session: SqliteSession;
  readonly #now: () => number;

  constructor(session: SqliteSession, now: () => number) {
    this.#session = session;
    this.#now = now;
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    checkCreateKey(command);
    const { account, key, hash } = command;
    return this.#session.write('durable', (accounts) => {
      const now = this.#now();
      const found = accounts.find(account);
      const known = found?.key(key);
      if (known?.hash || isHashTaken(accounts.sql, hash)) {
        const code = isSameKey(known, command) ? 'ok' : 'conflict';
        return { code, ...replyMeta(found, now) };
      }
      const rows = found ?? accounts.openFor(command, now);
      if (!rows) return { code: 'no_account', ...replyMeta(undefined, now) };
      rows.saveKeyTerms(createdKey(known, command, now));
      return durable({ code: 'ok', ...replyMeta(rows, now) });
    });
  }

  async findKey(hash: string): Promise<FoundKey | undefined> {
    return this.#session.read((sql) => findKey(sql, hash, this.#now()));
  }

  async keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    checkKeyOf(account, key);
    return this.#session.read((sql) => {
      const row = SqliteAccount.find(sql, account)?.key(key);
      return row && (row.hash || key === ACCOUNT_POLICY) ? keyStatus(account, row, this.#now()) : undefined;
    });
  }

  async endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    checkEndUserOf(account, endUser, key);
    return this.#session.read((sql) => {
      const rows = SqliteAccount.find(sql, account);
      return rows && endUserStatus(rows, { endUser, key }, this.#now());
    });
  }

  async keys(account: string): Promise<readonly KeyRecord[]> {
    checkAccount(account);
    const keys = await this.#session.read((sql) => SqliteAccount.find(sql, account)?.keys() ?? []);
    return keys.filter((key) => key.hash).map((key) => keyRecord(account, key));
  }

  async keyHashes(account: string): Promise<ReadonlyMap<string, KeyHashes>> {
    checkAccount(account);
    return keyHashes(await this.#session.read((sql) => SqliteAccount.find(sql, account)?.keys() ?? []));
  }

  async updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    checkUpdateKey(command);
    return this.#session.write('durable', (accounts) =>
      durable(updateKey(accounts.find(command.account), command, this.#now())),
    );
  }

  async rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    checkRotateKey(command);
    const { account, hash } = command;
    return this.#session.write('durable', (accounts) =>
      durable(rotateKey(accounts.find(account), command, this.#now(), isHashTaken(accounts.sql, hash))),
    );
  }

  async revokeKey(account: string, key: string): Promise<boolean> {
    checkKeyOf(account, key);
    return this.#session.write('durable', (accounts) => revokeKey(accounts.find(account), key, this.#now()));
  }
}
