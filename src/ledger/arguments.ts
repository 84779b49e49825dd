import type { Adjust, Admit, CreateKey, Extend, Grant, KeyLimits, Settle, Void } from './ledger.ts';
import { MAX_PER_MINUTE } from './key-limits.ts';
import { MAX_AMOUNT } from './money.ts';
import { requestTime } from './request-ids.ts';

/**
 * What every store checks of a command before anything else, because it can
 * only be a mistake of the caller's.
 *
 * Each throws a TypeError that names the argument, what it wants and what it got.
 */

export function checkAdmit(command: Admit): void {
  checkAccount(command.account);
  checkKey(command.key);
  requestTime(command.requestId);
  checkAmount('want', command.want);
  checkAmount('min', command.min);
  if (command.min > command.want) throw wrong('min', `at most want (${command.want})`, command.min);
  checkCount('leaseMs', command.leaseMs, 1);
  checkCount('tokens', command.tokens, 0);
  if (typeof command.notAfter !== 'number' || Number.isNaN(command.notAfter)) {
    throw wrong('notAfter', 'a time in ms', command.notAfter);
  }
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
  checkCount('usage.promptTokens', command.usage.promptTokens, 0);
  checkCount('usage.completionTokens', command.usage.completionTokens, 0);
}

export function checkVoid(command: Void): void {
  checkAccount(command.account);
  requestTime(command.requestId);
}

export function checkGrant(command: Grant): void {
  checkAccount(command.account);
  checkPaymentId(command.id);
  checkAmount('amount', command.amount);
  if (command.amount === 0n) throw wrong('amount', 'more than 0', command.amount);
  if (command.expiresAt !== undefined) checkCount('expiresAt', command.expiresAt, 0);
  if (command.priority !== undefined) checkCount('priority', command.priority, 0, 100);
}

export function checkAdjust(command: Adjust): void {
  checkAccount(command.account);
  checkPaymentId(command.id);
  const { delta, reason } = command;
  if (typeof delta !== 'bigint' || delta === 0n || delta > MAX_AMOUNT || delta < -MAX_AMOUNT) {
    throw wrong('delta', `nano-dollars, not 0 and at most ${MAX_AMOUNT} up or down`, delta);
  }
  if (typeof reason !== 'string' || reason.length > 500) {
    throw wrong('reason', 'a string of at most 500 characters', reason);
  }
}

export function checkCreateKey(command: CreateKey): void {
  checkAccount(command.account);
  checkKey(command.key);
  // The hash itself is never told: a mistake may well be the key in its place.
  if (typeof command.hash !== 'string' || !/^[0-9a-f]{64}$/.test(command.hash)) {
    throw new TypeError('hash must be a SHA-256 in 64 hex digits');
  }
  if (typeof command.name !== 'string' || command.name.length > 200) {
    throw wrong('name', 'a string of at most 200 characters', command.name);
  }
  if (command.limits) checkLimits(command.limits);
}

export function checkAccount(account: string): void {
  if (typeof account !== 'string' || !ID.test(account)) throw wrong('account', ID_WANTED, account);
}

export function checkKey(key: string): void {
  if (typeof key !== 'string' || !ID.test(key)) throw wrong('key', ID_WANTED, key);
}

const ID = /^[A-Za-z0-9_-]{1,64}$/;
const ID_WANTED = '1 to 64 characters A-Z a-z 0-9 _ -';

function checkLimits({ budget, requestsPerMinute, tokensPerMinute, concurrentRequests }: KeyLimits): void {
  if (budget) {
    checkAmount('limits.budget.amount', budget.amount);
    if (!['day', 'week', 'month', 'lifetime'].includes(budget.per)) {
      throw wrong('limits.budget.per', '"day", "week", "month" or "lifetime"', budget.per);
    }
  }
  const counts = { requestsPerMinute, tokensPerMinute, concurrentRequests };
  for (const [name, limit] of Object.entries(counts)) {
    if (limit !== undefined) checkCount(`limits.${name}`, limit, 1, MAX_PER_MINUTE);
  }
}

function checkPaymentId(id: string): void {
  if (typeof id !== 'string' || !/^[\u0021-\u007e]{1,128}$/.test(id)) {
    throw wrong('id', '1 to 128 printable ASCII characters without spaces', id);
  }
}

function checkAmount(name: string, amount: bigint): void {
  if (typeof amount !== 'bigint' || amount < 0n || amount > MAX_AMOUNT) {
    throw wrong(name, `nano-dollars from 0 to ${MAX_AMOUNT}`, amount);
  }
}

function checkCount(name: string, count: number, least: number, most = Number.MAX_SAFE_INTEGER): void {
  if (!Number.isSafeInteger(count) || count < least || count > most) {
    throw wrong(name, `an integer from ${least} to ${most}`, count);
  }
}

function wrong(name: string, wanted: string, got: unknown): TypeError {
  const shown = typeof got === 'string' ? JSON.stringify(got.slice(0, 100)) : String(got);
  return new TypeError(`${name} must be ${wanted}, got ${shown}`);
}
