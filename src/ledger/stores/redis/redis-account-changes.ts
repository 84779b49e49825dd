import { randomUUID } from 'node:crypto';

import type {
  DeleteAccountResult,
  DeletedAccount,
  Refund,
  RefundResult,
  SetFloor,
  SetFloorResult,
} from '../../contract/account-changes.ts';
import type { Allow, AllowResult, EndAllowance, EndAllowanceResult } from '../../contract/allowances.ts';
import type { Adjust, AdjustResult, Grant, GrantResult } from '../../contract/ledger-store.ts';
import { refundId } from '../../contract/reserved-ids.ts';
import { checkAllow, checkEndAllowance, checkRefund, checkSetFloor } from '../../engine/validate-changes.ts';
import { checkAccount, checkAdjust, checkGrant } from '../../engine/validate-commands.ts';
import type { DueAccounts } from './redis-due.ts';
import { shardOf } from './redis-keys.ts';
import { afterwards, type ScriptRunner } from './script-runner.ts';
import { adjust } from './lua/adjust.ts';
import { allow } from './lua/allow.ts';
import type { LuaScript } from './lua/define-script.ts';
import {
  deleteAccount,
  type Deletion,
  forgetAccount,
  packDeleted,
  unpackDeleted,
} from './lua/delete-account.ts';
import { endAllowance } from './lua/end-allowance.ts';
import { grant } from './lua/grant.ts';
import { reasonDetails, refundDetails } from './lua/journal.ts';
import { dropPointer } from './lua/key-pointers.ts';
import { refund } from './lua/refund.ts';
import { dimensionTerms, withoutBlanks, witnessTerms } from './lua/row-fields.ts';
import { setFloor } from './lua/set-floor.ts';
import { scanHash } from './scan-hash.ts';

/** What operators change of an account: its credits, its allowances, its floor, and whether it exists. */
export class RedisAccountChanges {
  readonly #runner: ScriptRunner;
  readonly #due: DueAccounts;
  /** The clock, with the lease horizon, for commands that end leases. */
  readonly #leaseClock: () => string;

  constructor(runner: ScriptRunner, due: DueAccounts, leaseClock: () => string) {
    this.#runner = runner;
    this.#due = due;
    this.#leaseClock = leaseClock;
  }

  async grant(command: Grant): Promise<GrantResult> {
    checkGrant(command);
    const { account, id, amount, expiresAt, priority = DEFAULT_PRIORITY } = command;
    const result = await this.#runDurably(grant, account, [
      this.#runner.clock(),
      id,
      String(amount),
      expiresAt === undefined ? '' : String(expiresAt),
      String(priority),
      command.mustExist ? '1' : '0',
      ...witnessTerms(command),
    ]);
    if (result.code !== 'no_account') await afterwards(this.#runner.list(account));
    if (result.code === 'ok' && expiresAt !== undefined) this.#due.put(account, expiresAt).catch(() => {});
    return result;
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    checkAdjust(command);
    const { account, id, delta, reason, force = false } = command;
    return this.#runDurably(adjust, account, [
      this.#runner.clock(),
      id,
      String(delta),
      reasonDetails(reason),
      force ? '1' : '0',
      ...witnessTerms(command),
    ]);
  }

  async setFloor(command: SetFloor): Promise<SetFloorResult> {
    checkSetFloor(command);
    const { account, floor, from } = command;
    const given = from === undefined ? '' : String(from);
    return this.#runDurably(setFloor, account, [this.#runner.clock(), String(floor), given]);
  }

  async allow(command: Allow): Promise<AllowResult> {
    checkAllow(command);
    const { account, id, amount, per, anchor, rollover, priority, until, change, version, granted } = command;
    const result = await this.#runDurably(allow, account, [
      this.#runner.clock(),
      id,
      String(amount),
      per,
      String(anchor),
      rollover,
      String(priority),
      until === undefined ? '' : String(until),
      change,
      version === undefined ? '' : String(version),
      command.mustExist ? '1' : '0',
      granted ? String(granted.period) : '',
      granted ? String(granted.amount) : '',
      ...witnessTerms(command),
    ]);
    if (result.code !== 'no_account') await afterwards(this.#runner.list(account));
    if (result.code === 'ok') this.#due.put(account, result.resetsAt).catch(() => {});
    return result;
  }

  async endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    checkEndAllowance(command);
    const { account, id, at, version } = command;
    const given = version === undefined ? '' : String(version);
    return this.#runDurably(endAllowance, account, [
      this.#runner.clock(),
      id,
      at,
      given,
      ...witnessTerms(command),
    ]);
  }

  async refund(command: Refund): Promise<RefundResult> {
    checkRefund(command);
    const { account, requestId, amount, charged, key, model } = command;
    return this.#runDurably(refund, account, [
      this.#runner.clock(),
      requestId,
      refundId(requestId),
      String(amount),
      String(charged),
      key,
      withoutBlanks(model),
      refundDetails(command),
      dimensionTerms(command),
      ...witnessTerms(command),
    ]);
  }

  /** In steps, because sums and pointers are in other slots. A repeated command continues one that was cut short. */
  async deleteAccount(account: string): Promise<DeleteAccountResult> {
    checkAccount(account);
    const keys = this.#runner.keys.ofAccount(account);
    const args = [this.#leaseClock(), randomUUID()] as const;
    const { reply, durable } = await this.#runner.runDurably(deleteAccount, keys, [...args]);
    if (reply.code !== 'ok') return reply;
    await afterwards(this.#finishDeletion(account, reply));
    const { code, deleted } = reply;
    return { code, deleted, ...(durable !== undefined && { durable }) };
  }

  async *deletedAccounts(): AsyncGenerator<DeletedAccount> {
    const seen = new Set<string>();
    for await (const row of scanHash(this.#runner, this.#runner.keys.deleted())) {
      if (!seen.has(row[0])) yield unpackDeleted(row);
      seen.add(row[0]);
    }
  }

  async #finishDeletion(account: string, { deleted, pointers }: Deletion): Promise<void> {
    const runner = this.#runner;
    const { keys } = runner;
    await runner.send('hset', [keys.deleted(), deleted.id, packDeleted(deleted)]);
    for (const { hash, key } of pointers) {
      await runner.run(dropPointer, [keys.pointer(hash)], [`${account} ${key}`]);
    }
    await runner.send('srem', [keys.accounts(shardOf(account)), account]);
    await runner.send('zrem', [keys.due(shardOf(account)), account]);
    await runner.run(forgetAccount, keys.ofAccount(account), [deleted.id]);
  }

  /** The reply says whether replicas and the disk have what it acknowledges, where they can be asked. */
  async #runDurably<Args extends readonly string[], Result extends { readonly code: string }>(
    script: LuaScript<Args, Result>,
    account: string,
    args: Args,
  ): Promise<Result & { readonly durable?: boolean }> {
    const keys = this.#runner.keys.ofAccount(account);
    const { reply, durable } = await this.#runner.runDurably(script, keys, args);
    const isAcknowledged = reply.code === 'ok' || reply.code === 'duplicate';
    return isAcknowledged && durable !== undefined ? { ...reply, durable } : reply;
  }
}

const DEFAULT_PRIORITY = 50;
