import type { Refund, SetFloor } from '../contract/account-changes.ts';
import { ALLOWANCE_PERIODS, type Allow, type EndAllowance, ROLLOVERS } from '../contract/allowances.ts';
import { MAX_AMOUNT } from '../contract/money.ts';
import {
  checkAccount,
  checkAmount,
  checkCount,
  checkDimensions,
  checkKey,
  checkModel,
  checkReason,
  checkRecreate,
  checkRequest,
  commandError,
} from './validate-commands.ts';

/** Argument checks as in validate-commands.ts, for the commands of account-changes.ts. */

export function checkSetFloor({ account, floor, from }: SetFloor): void {
  checkAccount(account);
  checkFloor('floor', floor);
  if (from !== undefined) checkFloor('from', from);
}

function checkFloor(name: string, floor: bigint): void {
  if (typeof floor !== 'bigint' || floor > 0n || floor < -MAX_AMOUNT) {
    throw commandError(name, `nano-dollars from ${-MAX_AMOUNT} to 0`, floor);
  }
}

export function checkAllow(command: Allow): void {
  checkAllowance(command);
  checkAmount('amount', command.amount);
  if (command.amount === 0n) throw commandError('amount', 'more than 0', command.amount);
  checkWord('per', command.per, ALLOWANCE_PERIODS);
  checkTime('anchor', command.anchor);
  checkWord('rollover', command.rollover, ROLLOVERS);
  checkCount('priority', command.priority, 0, 100);
  if (command.until !== undefined) checkCount('until', command.until, 0, MAX_TIME);
  checkWord('change', command.change, ['prorate', 'next_period']);
  if (command.granted) {
    checkTime('granted.period', command.granted.period);
    checkAmount('granted.amount', command.granted.amount);
  }
  checkRecreate(command);
}

export function checkEndAllowance(command: EndAllowance): void {
  checkAllowance(command);
  checkWord('at', command.at, ['now', 'period_end']);
}

export function checkRefund(command: Refund): void {
  checkRequest(command.account, command.requestId);
  checkAmount('amount', command.amount);
  if (command.amount === 0n) throw commandError('amount', 'more than 0', command.amount);
  checkAmount('charged', command.charged);
  checkKey(command.key);
  checkModel(command.model);
  checkDimensions(command);
  checkReason(command.reason);
}

function checkAllowance({ account, id, version }: Pick<Allow, 'account' | 'id' | 'version'>): void {
  checkAccount(account);
  if (typeof id !== 'string' || !/^[A-Za-z0-9._-]{1,64}$/.test(id)) {
    throw commandError('id', '1 to 64 characters A-Z a-z 0-9 . _ -', id);
  }
  if (version !== undefined) checkCount('version', version, 1);
}

function checkTime(name: string, time: number): void {
  checkCount(name, time, 0, MAX_TIME);
  if (time % 1000 !== 0) throw commandError(name, 'a time in whole seconds', time);
}

function checkWord(name: string, word: string, words: readonly string[]): void {
  if (words.includes(word)) return;
  throw commandError(name, words.map((each) => `"${each}"`).join(', '), word);
}

/** The last ms of the year 9999: a year has four digits. */
const MAX_TIME = Date.UTC(10_000, 0) - 1;
