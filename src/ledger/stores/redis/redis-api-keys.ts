import {
  checkAccount,
  checkCreateKey,
  checkEndUserOf,
  checkKeyOf,
  checkRotateKey,
  checkUpdateKey,
} from '../../engine/validate-commands.ts';
import { endUserRowId } from '../../engine/account-rows.ts';
import { endUserStatus, foundKey, keyHashes, keyRecord, keyStatus } from '../../engine/key-states.ts';
import {
  ACCOUNT_POLICY,
  type CreateKey,
  type CreateKeyResult,
  type EndUserStatus,
  type FoundKey,
  type KeyHashes,
  type KeyRecord,
  type KeyStatus,
  type KeyTerms,
  type RotateKey,
  type RotateKeyResult,
  type UpdateKey,
  type UpdateKeyResult,
} from '../../contract/key-records.ts';
import type { RedisKeys } from './redis-keys.ts';
import { createKey } from './lua/create-key.ts';
import { dropPointer, readPointer, writePointer } from './lua/key-pointers.ts';
import { expiryTerm, keyLimitTerms, keyRow, keyRows } from './lua/key-fields.ts';
import { readEndUser, readKey, readKeys } from './lua/read-keys.ts';
import { revokeKey } from './lua/revoke-key.ts';
import { rotateKey } from './lua/rotate-key.ts';
import { updateKey } from './lua/update-key.ts';
import { afterwards, type ScriptRunner } from './script-runner.ts';

/**
 * The API keys of a store in Redis.
 *
 * A key is stored in its account's slot; a pointer in another slot leads from a hash to the key. A pointer is only valid
 * if the key has that hash.
 */
export class RedisApiKeys {
  readonly #runner: ScriptRunner;
  readonly #keys: RedisKeys;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
    this.#keys = runner.keys;
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    checkCreateKey(command);
    const { account, key, hash, version = 1 } = command;
    const own = `${account} ${key}`;
    const holder = await this.#holderOf(hash);
    const { reply: result, durable } = await this.#runner.runDurably(createKey, this.#of(account), [
      this.#runner.clock(),
      key,
      hash,
      ...termsOf(command),
      String(version),
      holder === '' || holder === own ? '0' : '1',
      command.mustExist ? '1' : '0',
    ]);
    if (result.code !== 'ok') return result;

    await afterwards(this.#runner.list(account));
    const pointed = await afterwards(this.#point(hash, own));
    if (pointed.holder === own) return withDurability(result, durable, pointed.durable);
    // Another key took the hash concurrently: this key could never be found by it.
    await afterwards(this.#runner.run(revokeKey, this.#of(account), [this.#runner.clock(), key]));
    return { code: 'conflict', now: result.now, seq: result.seq };
  }

  async findKey(hash: string): Promise<FoundKey | undefined> {
    const [account, key] = (await this.#holderOf(hash)).split(' ');
    if (!account || !key) return undefined;
    const { now, fields } = await this.#read(account, key);
    const row = keyRow(fields, key);
    return row && foundKey(account, { row, policy: keyRow(fields, ACCOUNT_POLICY) }, hash, now);
  }

  async keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    checkKeyOf(account, key);
    const { now, fields } = await this.#read(account, key);
    const row = keyRow(fields, key);
    return row && (row.hash || key === ACCOUNT_POLICY) ? keyStatus(account, row, now) : undefined;
  }

  async endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    checkEndUserOf(account, endUser, key);
    const scopes = key === undefined ? [''] : ['', key];
    const ids = scopes.flatMap((scope) => [endUserRowId(endUser, scope), endUserRowId('', scope)]);
    const { now, endUserCount, fields, rows } = await this.#runner.run(readEndUser, this.#of(account), [
      this.#runner.clock(),
      key ?? '',
      ...ids,
    ]);
    const found = {
      key: (id: string) => keyRow(fields, id),
      endUser: (id: string) => rows.get(id),
      endUserCount: () => endUserCount,
    };
    return endUserStatus(found, { endUser, key }, now);
  }

  async keys(account: string): Promise<readonly KeyRecord[]> {
    checkAccount(account);
    const fields = await this.#runner.run(readKeys, this.#of(account), []);
    return keyRows(fields)
      .filter(({ hash }) => hash)
      .map((row) => keyRecord(account, row));
  }

  async keyHashes(account: string): Promise<ReadonlyMap<string, KeyHashes>> {
    checkAccount(account);
    return keyHashes(keyRows(await this.#runner.run(readKeys, this.#of(account), [])));
  }

  async updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    checkUpdateKey(command);
    const { account, key, version } = command;
    const { reply: result, durable } = await this.#runner.runDurably(updateKey, this.#of(account), [
      this.#runner.clock(),
      key,
      String(version),
      ...termsOf(command),
    ]);
    return result.code === 'ok' ? withDurability(result, durable) : result;
  }

  async rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    checkRotateKey(command);
    const { account, key, hash, version, overlapMs } = command;
    const own = `${account} ${key}`;
    const before = await this.#holderOf(hash);
    // The pointer first, so that every valid secret can be found. It is harmless until the key has the hash.
    const pointed = before === '' ? await this.#point(hash, own) : { holder: before, durable: undefined };
    const { reply, durable } = await afterwards(
      this.#runner.runDurably(rotateKey, this.#of(account), [
        this.#runner.clock(),
        key,
        hash,
        String(version),
        String(overlapMs),
        pointed.holder === own ? '0' : '1',
      ]),
    );
    const { result, dropped } = reply;
    const unused = before === '' && pointed.holder === own && result.code !== 'ok' ? [hash] : dropped;
    // A stale pointer is harmless: the key it points to doesn't have this hash.
    for (const old of unused) {
      await this.#runner.run(dropPointer, [this.#keys.pointer(old)], [own]).catch(() => {});
    }
    if (result.code !== 'ok') return result;
    if (before === '') return withDurability(result, durable, pointed.durable);
    // A repeated command: wait until replicas have the pointer too.
    const again = await afterwards(this.#point(hash, own));
    return withDurability(result, durable, again.durable);
  }

  async revokeKey(account: string, key: string): Promise<boolean> {
    checkKeyOf(account, key);
    const { reply } = await this.#runner.runDurably(revokeKey, this.#of(account), [
      this.#runner.clock(),
      key,
    ]);
    return reply;
  }

  #of(account: string): readonly string[] {
    return this.#keys.ofAccount(account);
  }

  #read(
    account: string,
    key: string,
  ): Promise<{ readonly now: number; readonly fields: Map<string, string> }> {
    return this.#runner.run(readKey, this.#of(account), [this.#runner.clock(), key]);
  }

  /** "account key", or empty. */
  #holderOf(hash: string): Promise<string> {
    return this.#runner.run(readPointer, [this.#keys.pointer(hash)], []);
  }

  async #point(
    hash: string,
    own: string,
  ): Promise<{ readonly holder: string; readonly durable: boolean | undefined }> {
    const { reply, durable } = await this.#runner.runDurably(writePointer, [this.#keys.pointer(hash)], [own]);
    return { holder: reply, durable };
  }
}

/** A key's terms as arguments of the scripts. */
function termsOf(terms: KeyTerms): [string, string, string, string] {
  return [keyLimitTerms(terms), JSON.stringify(terms.name), expiryTerm(terms), terms.policy ?? ''];
}

/** A result of several writes is durable only if all of them are. */
function withDurability<Result extends object>(
  result: Result,
  ...durable: readonly (boolean | undefined)[]
): Result & { readonly durable?: boolean } {
  return durable.includes(undefined) ? result : { ...result, durable: durable.every(Boolean) };
}
