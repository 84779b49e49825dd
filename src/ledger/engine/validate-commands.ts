import type { Adjust, Admit, Extend, Grant, Settle, Void } from '../contract/ledger-store.ts';
import {
  type CreateKey,
  type KeyTerms,
  type RotateKey,
  type UpdateKey,
  ACCOUNT_POLICY,
  BUDGET_PERIODS,
  COUNT_LIMIT_NAMES,
  type EndUserLimits,
  type KeyLimits,
  MAX_COUNT_LIMIT,
  MAX_END_USER_LENGTH,
  MAX_END_USERS,
  MAX_NAME_LENGTH,
} from '../contract/key-records.ts';
import { ACCOUNT_WANTED, isAccount } from '../contract/account-ids.ts';
import { MAX_AMOUNT } from '../contract/money.ts';
import { RESERVED_PREFIXES } from '../contract/reserved-ids.ts';
import type { MakesAccount } from '../contract/reply.ts';
import { requestTime } from '../contract/request-ids.ts';
import { isDay, isDimension, MAX_DIMENSIONS } from '../contract/usage.ts';

/**
 * Argument checks that every store makes first: a failure is a bug of the caller.
 *
 * Each throws a TypeError that names the argument, what is valid and what it got.
 */

export function checkAdmit(command: Admit): void {
  checkAccount(command.account);
  checkKey(command.key);
  if (command.keyVersion !== undefined) checkCount('keyVersion', command.keyVersion, 1);
  if (command.accountVersion !== undefined) checkCount('accountVersion', command.accountVersion, 0);
  checkEndUser(command);
  requestTime(command.requestId);
  if (command.model !== undefined) checkModel(command.model);
  checkAmount('want', command.want);
  checkAmount('min', command.min);
  if (command.min > command.want) throw commandError('min', `at most want (${command.want})`, command.min);
  checkCount('leaseMs', command.leaseMs, 1);
  checkCount('tokens', command.tokens, 0);
  if (typeof command.notAfter !== 'number' || Number.isNaN(command.notAfter)) {
    throw commandError('notAfter', 'a time in ms', command.notAfter);
  }
  checkIdempotencyKey(command);
}

export function checkExtend(command: Extend): void {
  checkAccount(command.account);
  requestTime(command.requestId);
  checkAmount('hold', command.hold);
  checkCount('leaseMs', command.leaseMs, 1);
  checkAmount('checkpoint', command.checkpoint);
}

export function checkSettle(command: Settle): void {
  checkAccount(command.account);
  requestTime(command.requestId);
  checkAmount('amount', command.amount);
  checkKey(command.key);
  checkEndUser(command);
  checkModel(command.model);
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens, cost, units } = command.usage;
  checkCount('usage.promptTokens', promptTokens, 0);
  checkCount('usage.cachedTokens', cachedTokens, 0);
  checkCount('usage.completionTokens', completionTokens, 0);
  checkCount('usage.reasoningTokens', reasoningTokens, 0);
  if (units !== undefined) checkCount('usage.units', units, 0);
  // No maximum: it is only recorded, and better recorded than the charge refused.
  if (cost !== undefined && (typeof cost !== 'bigint' || cost < 0n)) {
    throw commandError('usage.cost', 'nano-dollars, 0 or more', cost);
  }
  checkDimensions(command);
  checkIdempotencyKey(command);
}

export function checkUsageBy(account: string, dimension: string, fromDay: string, toDay: string): void {
  checkUsage(account, fromDay, toDay);
  checkDimension('dimension', dimension);
}

export function checkUsage(account: string, fromDay: string, toDay: string, key?: string): void {
  checkAccount(account);
  checkDay('fromDay', fromDay);
  checkDay('toDay', toDay);
  if (key !== undefined) checkKey(key);
}

export function checkCompactUsage(account: string, beforeDay: string): void {
  checkAccount(account);
  checkDay('beforeDay', beforeDay);
}

function checkDay(name: string, day: string): void {
  if (!isDay(day)) throw commandError(name, 'a day, as "2026-11-21"', day);
}

export function checkRequest(account: string, requestId: string): void {
  checkAccount(account);
  requestTime(requestId);
}

export function checkVoid(command: Void): void {
  checkRequest(command.account, command.requestId);
  if (command.key !== undefined) checkKey(command.key);
  if (command.model !== undefined) checkModel(command.model);
  checkDimensions(command);
}

export function checkModel(model: string): void {
  if (typeof model !== 'string') throw commandError('model', 'a string', model);
}

export function checkGrant(command: Grant): void {
  checkAccount(command.account);
  checkPaymentId(command.id);
  if (!command.isMoved) checkNotReserved(command.id);
  checkAmount('amount', command.amount);
  if (command.amount === 0n) throw commandError('amount', 'more than 0', command.amount);
  if (command.expiresAt !== undefined) checkCount('expiresAt', command.expiresAt, 0);
  if (command.priority !== undefined) checkCount('priority', command.priority, 0, 100);
  checkRecreate(command);
}

export function checkAdjust(command: Adjust): void {
  checkAccount(command.account);
  checkPaymentId(command.id);
  checkNotReserved(command.id);
  const { delta, reason } = command;
  if (typeof delta !== 'bigint' || delta === 0n || delta > MAX_AMOUNT || delta < -MAX_AMOUNT) {
    throw commandError('delta', `nano-dollars, not 0 and at most ${MAX_AMOUNT} up or down`, delta);
  }
  checkReason(reason);
  if (command.force !== undefined && typeof command.force !== 'boolean') {
    throw commandError('force', 'true or false', command.force);
  }
}

export function checkReason(reason: string): void {
  if (typeof reason !== 'string' || reason.length > 500) {
    throw commandError('reason', 'a string of at most 500 characters', reason);
  }
}

export function checkCreateKey(command: CreateKey): void {
  checkAccount(command.account);
  checkKey(command.key);
  checkHash('hash', command.hash);
  if (command.version !== undefined) checkCount('version', command.version, 1);
  checkRecreate(command);
  checkTerms(command);
}

export function checkUpdateKey(command: UpdateKey): void {
  const { account, key, version, expiresAt, paused } = command;
  checkKeyOf(account, key);
  const isPolicy = key === ACCOUNT_POLICY;
  checkCount('version', version, isPolicy ? 0 : 1);
  checkTerms(command);
  if (isPolicy && expiresAt !== undefined) {
    throw commandError('expiresAt', 'undefined: accounts do not expire', expiresAt);
  }
  if (isPolicy && paused) throw commandError('paused', 'undefined: freeze the account instead', paused);
}

export function checkRotateKey(command: RotateKey): void {
  checkAccount(command.account);
  checkKey(command.key);
  checkHash('hash', command.hash);
  checkCount('version', command.version, 1);
  checkCount('overlapMs', command.overlapMs, 0, MAX_OVERLAP_MS);
}

export function checkKeyOf(account: string, key: string): void {
  checkAccount(account);
  if (key !== ACCOUNT_POLICY) checkKey(key);
}

export function checkSweep(budget: number): void {
  if (budget !== Infinity) checkCount('budget', budget, 0);
}

export function checkJournal(account: string, afterSeq: bigint, limit: number): void {
  checkAccount(account);
  checkSeq('afterSeq', afterSeq);
  if (limit !== Infinity) checkCount('limit', limit, 0);
}

export function checkCompact(account: string, seq: bigint): void {
  checkAccount(account);
  checkSeq('seq', seq);
}

export function checkAccount(account: string): void {
  if (!isAccount(account)) throw commandError('account', ACCOUNT_WANTED, account);
}

export function checkKey(key: string): void {
  if (typeof key !== 'string' || !ID.test(key)) throw commandError('key', ID_WANTED, key);
}

const ID = /^[A-Za-z0-9_-]{1,64}$/;
const ID_WANTED = '1 to 64 characters A-Z a-z 0-9 _ -';

/** A year. */
export const MAX_OVERLAP_MS: number = 366 * 24 * 60 * 60 * 1000;

function checkTerms({ name, limits, endUsers, expiresAt, policy, paused }: KeyTerms): void {
  checkName(name);
  if (limits) checkLimits(limits, 'limits.');
  if (endUsers) checkEndUserLimits(endUsers, 'endUsers.');
  if (paused !== undefined && typeof paused !== 'boolean') {
    throw commandError('paused', 'true or false', paused);
  }
  if (expiresAt !== undefined) checkCount('expiresAt', expiresAt, 0);
  if (policy === undefined) return;
  if (typeof policy !== 'string' || policy === '' || policy.length > 8192 || !policy.isWellFormed()) {
    throw commandError('policy', 'a text of 1 to 8,192 characters', policy);
  }
}

export function checkName(name: string): void {
  if (typeof name !== 'string' || name.length > MAX_NAME_LENGTH) {
    throw commandError('name', `a string of 0 to ${MAX_NAME_LENGTH} characters`, name);
  }
}

/** @param where - what the limits are members of, for the message: `limits.` */
export function checkLimits(limits: KeyLimits, where: string): void {
  const { budgets = [] } = limits;
  if (!Array.isArray(budgets)) throw commandError(`${where}budgets`, 'an array', budgets);
  for (const [n, { amount, per }] of budgets.entries()) {
    checkAmount(`${where}budgets[${n}].amount`, amount);
    if (!BUDGET_PERIODS.includes(per)) {
      throw commandError(`${where}budgets[${n}].per`, '"hour", "day", "week", "month" or "lifetime"', per);
    }
    if (budgets.findIndex((other) => other.per === per) !== n) {
      throw commandError(`${where}budgets`, 'at most one for each period', `two for ${per}`);
    }
  }
  for (const name of COUNT_LIMIT_NAMES) {
    const limit = limits[name];
    if (limit !== undefined) checkCount(`${where}${name}`, limit, 1, MAX_COUNT_LIMIT);
  }
}

export function checkEndUserLimits(limits: EndUserLimits, where: string): void {
  checkLimits(limits, where);
  if (limits.max !== undefined) checkCount(`${where}max`, limits.max, 1, MAX_END_USERS);
}

export function isEndUser(endUser: unknown): endUser is string {
  return (
    typeof endUser === 'string' &&
    endUser.length >= 1 &&
    endUser.length <= MAX_END_USER_LENGTH &&
    endUser.isWellFormed()
  );
}

export function checkEndUserOf(account: string, endUser: string, key: string | undefined): void {
  checkAccount(account);
  if (!isEndUser(endUser)) throw endUserError(endUser);
  if (key !== undefined) checkKey(key);
}

function endUserError(endUser: unknown): TypeError {
  return commandError('endUser', `a text of 1 to ${MAX_END_USER_LENGTH} characters`, endUser);
}

function checkEndUser({ endUser }: Pick<Admit, 'endUser'>): void {
  if (endUser === undefined || isEndUser(endUser)) return;
  throw endUserError(endUser);
}

export function checkDimensions({ dimensions }: Pick<Settle, 'dimensions'>): void {
  if (dimensions === undefined) return;
  if (typeof dimensions !== 'object' || dimensions === null) {
    throw commandError('dimensions', 'an object of texts', dimensions);
  }
  const given = Object.entries(dimensions);
  if (given.length > MAX_DIMENSIONS) {
    throw commandError('dimensions', `the values of at most ${MAX_DIMENSIONS} dimensions`, given.length);
  }
  for (const [name, value] of given) {
    checkDimension('dimensions', name);
    if (!isEndUser(value)) {
      throw commandError(`dimensions.${name}`, `a text of 1 to ${MAX_END_USER_LENGTH} characters`, value);
    }
  }
}

function checkDimension(where: string, name: string): void {
  if (!isDimension(name))
    throw commandError(where, '"user", "provider", or "tag:" and the name of a tag', name);
}

export function checkRecreate({ recreate }: MakesAccount): void {
  if (recreate !== undefined && typeof recreate !== 'boolean') {
    throw commandError('recreate', 'true or false', recreate);
  }
}

function checkPaymentId(id: string): void {
  if (typeof id !== 'string' || !/^[\u0021-\u007e]{1,128}$/.test(id)) {
    throw commandError('id', '1 to 128 printable ASCII characters without spaces', id);
  }
}

function checkNotReserved(id: string): void {
  const prefix = RESERVED_PREFIXES.find((each) => id.startsWith(each));
  if (prefix !== undefined) {
    throw commandError('id', `an id that doesn't begin with "${prefix}", as those of the ledger`, id);
  }
}

function checkSeq(name: string, seq: bigint): void {
  if (typeof seq !== 'bigint' || seq < 0n) throw commandError(name, 'a journal position', seq);
}

function checkIdempotencyKey({ idempotencyKey }: Pick<Admit, 'idempotencyKey'>): void {
  if (!idempotencyKey) return;
  checkHash('idempotencyKey.key', idempotencyKey.key);
  checkHash('idempotencyKey.body', idempotencyKey.body);
}

/** The message never shows the value: it may be the secret that should have been hashed. */
function checkHash(name: string, hash: string): void {
  if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/.test(hash)) {
    throw new TypeError(`${name} must be a SHA-256 in 64 hex digits`);
  }
}

export function checkAmount(name: string, amount: bigint): void {
  if (typeof amount !== 'bigint' || amount < 0n || amount > MAX_AMOUNT) {
    throw commandError(name, `nano-dollars from 0 to ${MAX_AMOUNT}`, amount);
  }
}

export function checkCount(
  name: string,
  count: number,
  least: number,
  most: number = Number.MAX_SAFE_INTEGER,
): void {
  if (!Number.isSafeInteger(count) || count < least || count > most) {
    throw commandError(name, `an integer from ${least} to ${most}`, count);
  }
}

export function commandError(name: string, wanted: string, got: unknown): TypeError {
  const shown = typeof got === 'string' ? JSON.stringify(got.slice(0, 100)) : String(got);
  return new TypeError(`${name} must be ${wanted}, got ${shown}`);
}
