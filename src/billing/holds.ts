import * as crypto from 'node:crypto';

import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import { RouterClosingError } from '../errors/router-error.ts';
import type { Caller } from '../keys/caller.ts';
import { checkedEndUser, countedAs, tagDimensions } from '../keys/dimensions.ts';
import { fromStore } from '../keys/from-store.ts';
import type { IdempotencyKey } from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars, parseUsd } from '../ledger/contract/money.ts';
import { checkAccount, checkKey } from '../ledger/engine/validate-commands.ts';
import type { DimensionSettings } from '../options/resolve-dimensions.ts';
import { optionsObject } from '../platform/options-object.ts';
import { showValue } from '../platform/show-value.ts';
import {
  type Consumption,
  type FixedCharge,
  type FixedHold,
  type FixedHolds,
  type FixedHoldTerms,
  HoldConflictError,
  NOTHING_CONSUMED,
} from './fixed-hold.ts';
import { refusalOf } from './refusal.ts';

/** Holds of credits for what is not a chat completion: images, embeddings, tools, jobs. Amounts are decimal strings in USD. */
export interface Holds {
  /**
   * Takes an amount out of what an account can spend, until the hold is settled or voided.
   *
   * While it is open, its lease is renewed. If the process dies, the lease ends after two minutes, and nothing is charged.
   *
   * @throws {TypeError} naming the invalid member
   * @throws {RouterError} with the `code` and the status that a chat completion would get: `insufficient_credits`,
   *   `budget_exceeded`, a limit of the key, `account_frozen`, `credit_store_unavailable`
   * @throws {HoldConflictError} if the id was used for another model or amount
   */
  open(options: OpenHoldOptions): Promise<CreditHold>;
}

export interface OpenHoldOptions {
  readonly account: string;
  /** USD. */
  readonly amount: string;
  /** What is sold, as it stands in the journal and in usage: `images/flux`. */
  readonly model: string;
  /**
   * The id of one of the account's API keys, whose limits and budget count; any other name is a label in usage.
   *
   * @default 'host'
   */
  readonly key?: string;
  /**
   * Your id of the work, of 1 to 255 characters: opened again with it, also by another process, an account's key gets the
   * same hold, or its end. After `void`, or once its lease ended, the id takes a new hold. Kept for 24 hours after the end.
   */
  readonly id?: string;
  /** Who delivers it, as it stands in the journal. @default 'host' */
  readonly provider?: string;
  /** Tokens that count against the key's limit per minute. @default 0 */
  readonly tokens?: number;
  /** Whom the work is for, within the account: 1 to 128 characters. See the option `dimensions`. */
  readonly user?: string;
  /** What the work is for, by the names of the tags in `dimensions`; others are ignored. */
  readonly tags?: Readonly<Record<string, string | undefined>>;
}

/** Credits that are held. Ends once: by `settle` or by `void`. */
export interface CreditHold {
  /** Its id in the ledger, in the form of an `x-request-id`. */
  readonly requestId: string;
  readonly account: string;
  readonly key: string;
  readonly model: string;
  /** What it held when it was opened, in USD; 0.00 if it had been settled before. */
  readonly amount: string;
  readonly state: 'open' | 'settled' | 'voided';
  /**
   * Charges an amount in USD, which may be more than what is held: then what the balance covers. Repeated, it returns the
   * first charge. While the store is unavailable it waits; the charge is kept in `outboxDir`.
   *
   * @throws {TypeError} naming the invalid argument
   * @throws {HoldConflictError} if it was voided
   */
  settle(amount: string, consumed?: HoldUsage): Promise<HoldCharge>;
  /**
   * Releases what is held; nothing is charged. Can be repeated.
   *
   * @throws {HoldConflictError} if it was settled
   */
  void(): Promise<void>;
}

/** What was consumed, for the journal and usage. */
export interface HoldUsage {
  /** In units of the model: images, minutes, pages. */
  readonly units?: number;
  readonly promptTokens?: number;
  readonly completionTokens?: number;
  /** What the provider bills, in USD. */
  readonly cost?: string;
}

/** What was charged, in USD. */
export interface HoldCharge {
  readonly charged: string;
  /** The part that the balance did not cover. */
  readonly writtenOff: string;
}

export interface HoldsServices {
  readonly holds: FixedHolds;
  readonly newId: () => string;
  readonly closing: () => boolean;
  readonly dimensions: DimensionSettings | undefined;
  /** Starts the ledger's maintenance, which ends leases. */
  readonly started: () => void;
}

/** Tries at an id whose hold ends meanwhile, or at a key that is changed. */
const MAX_TRIES = 5;

const MEMBERS: Record<keyof OpenHoldOptions, true> = {
  account: true,
  amount: true,
  model: true,
  key: true,
  id: true,
  provider: true,
  tokens: true,
  user: true,
  tags: true,
};
const USAGE_MEMBERS: Record<keyof HoldUsage, true> = {
  units: true,
  promptTokens: true,
  completionTokens: true,
  cost: true,
};

export function createHolds(services: HoldsServices): Holds {
  return {
    open: async (options) => {
      const request = parseOptions(options, services.dimensions);
      services.started();
      return await openHold(request, services);
    },
  };
}

type HoldRequest = Omit<FixedHoldTerms, 'requestId'> & { readonly amount: NanoDollars };

async function openHold(first: HoldRequest, services: HoldsServices): Promise<CreditHold> {
  const { holds, newId, closing } = services;
  let request = first;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (closing()) throw new RouterClosingError();
    const { amount, ...terms } = request;
    const { result, hold } = await holds.open({ ...terms, requestId: newId() }, amount);
    if (hold) return creditHold(hold);
    if (result.code === 'key_reused') throw new HoldConflictError('id_reused', result.requestId);
    if (result.code === 'repeated') {
      const found = await fromStore(() => earlierHold(request, result.requestId, holds));
      if (found) return found;
    } else if (result.code === 'no_key') {
      request = { ...request, caller: { ...request.caller, externalKey: true } };
    } else {
      throw refusalOf(result, { required: amount, affordableTokens: () => 0 });
    }
  }
  throw new CreditStoreUnavailableError();
}

/** The hold that an id stands for, or its end; undefined if the id is free again. */
async function earlierHold(
  request: HoldRequest,
  requestId: string,
  holds: FixedHolds,
): Promise<CreditHold | undefined> {
  const own = holds.find(requestId);
  if (own) return creditHold(own);
  const { amount: _, ...terms } = request;
  const { account } = request.caller;
  const { store } = holds.keeper;
  const record = await store.request(account, requestId);
  if (record?.state === 'held') {
    const taken = await holds.takeOver({ ...terms, requestId }, record.amount);
    return taken && creditHold(taken);
  }
  if (record?.state === 'settled') return settledHold({ ...terms, requestId }, record.amount);
  // Its process died: this one takes its place, so that the work is charged once.
  if (record?.state === 'expired') await store.void({ account, requestId });
  return undefined;
}

function creditHold(hold: FixedHold): CreditHold {
  const { requestId, caller, model } = hold.terms;
  return {
    requestId,
    account: caller.account,
    key: caller.key,
    model,
    amount: formatUsd(hold.amount),
    get state() {
      return hold.state;
    },
    settle: async (amount, consumed) =>
      chargeOf(await hold.settle(parseAmount(amount, 'amount'), parseConsumption(consumed))),
    void: async () => {
      await hold.void('failed');
    },
  };
}

/** A hold that was settled before. */
function settledHold({ requestId, caller, model }: FixedHoldTerms, charged: NanoDollars): CreditHold {
  const { account, key } = caller;
  return {
    requestId,
    account,
    key,
    model,
    amount: '0.00',
    state: 'settled',
    settle: async () => chargeOf({ charged, writtenOff: 0n }),
    void: async () => {
      throw new HoldConflictError('already_settled', requestId);
    },
  };
}

function chargeOf({ charged, writtenOff }: FixedCharge): HoldCharge {
  return { charged: formatUsd(charged), writtenOff: formatUsd(writtenOff) };
}

function parseOptions(options: OpenHoldOptions, settings: DimensionSettings | undefined): HoldRequest {
  optionsObject(options, MEMBERS);
  const { account, amount, model, key, id, provider = 'host', tokens = 0, user, tags } = options;
  checkAccount(account);
  if (key !== undefined) checkKey(key);
  checkName('model', model);
  checkName('provider', provider);
  if (id !== undefined) checkName('id', id);
  const caller: Caller = { account, key: key ?? 'host', externalKey: key === undefined };
  const whom = user === undefined ? {} : { endUser: checkedEndUser(user, 'user') };
  const what = tags === undefined ? {} : { tags: tagDimensions(tags, 'tags') };
  const held = parseAmount(amount, 'amount');
  return {
    caller,
    ...countedAs({ ...whom, ...what }, undefined, settings, provider),
    model,
    provider,
    tokens: parseCount('tokens', tokens) ?? 0,
    idempotencyKey: id === undefined ? undefined : idempotencyKeyOf(id, model, held),
    amount: held,
  };
}

/** No header can have the space, so that an id never is a client's `Idempotency-Key`. */
function idempotencyKeyOf(id: string, model: string, amount: NanoDollars): IdempotencyKey {
  return {
    key: crypto.hash('sha256', `hold ${id}`, 'hex'),
    body: crypto.hash('sha256', JSON.stringify([model, String(amount)]), 'hex'),
  };
}

/** @throws {TypeError} naming the invalid member */
export function parseConsumption(consumed: HoldUsage = {}): Consumption {
  const { units, promptTokens, completionTokens, cost } = optionsObject(consumed, USAGE_MEMBERS);
  return {
    ...NOTHING_CONSUMED,
    units: parseCount('units', units),
    promptTokens: parseCount('promptTokens', promptTokens),
    completionTokens: parseCount('completionTokens', completionTokens),
    cost: cost === undefined ? undefined : parseAmount(cost, 'cost'),
  };
}

/** @throws {TypeError} unless it is USD, 0 or more */
export function parseAmount(text: string, what: string): NanoDollars {
  const amount = parseUsd(text, what);
  if (amount < 0n) throw new TypeError(`${what} must be 0 or more, got ${text}`);
  return amount;
}

/** Whether it is a text that usage may be counted under. */
export function isName(name: unknown): name is string {
  // oxlint-disable-next-line no-control-regex -- none of them may be in a name
  return typeof name === 'string' && /^[^\u0000-\u001f\u007f]{1,255}$/.test(name);
}

/** @throws {TypeError} unless it is a name */
export function checkName(what: string, name: unknown): asserts name is string {
  if (isName(name)) return;
  throw new TypeError(`${what} must be a string of 1 to 255 characters on one line, got ${showValue(name)}`);
}

function parseCount(what: string, count: number | undefined): number | undefined {
  if (count === undefined || (Number.isSafeInteger(count) && count >= 0)) return count;
  throw new TypeError(`${what} must be an integer of 0 or more, got ${showValue(count)}`);
}
