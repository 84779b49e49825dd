import * as v from 'valibot';

import { parseUsd } from '../ledger/contract/money.ts';
import { ACCOUNT, ACCOUNT_WANTED, isAccount } from '../ledger/contract/account-ids.ts';
import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import { isDay, isTime } from '../ledger/contract/usage.ts';

/**
 * Schemas for the inputs and responses of the admin API and of the account API.
 *
 * The message of each schema completes "must be …", so errors and the OpenAPI document use the same words.
 */

export type Schema<Value = unknown> = v.GenericSchema<unknown, Value>;

/** Components of the OpenAPI document, by name. */
export const components: Record<string, Schema> = {};

/** Notes on a schema for the OpenAPI document, besides its description. */
interface SchemaNotes {
  readonly format?: string;
  readonly examples?: readonly string[];
}

/** Registers a schema as a component of the OpenAPI document. */
export function component<Value>(id: string, description: string, schema: Schema<Value>): Schema<Value> {
  return (components[id] = described(description, schema));
}

export function described<Value>(
  description: string,
  schema: Schema<Value>,
  more: SchemaNotes = {},
): Schema<Value> {
  return v.pipe(schema, v.metadata({ description, ...more }));
}

/** An object with these members and no others. */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
  wanted = 'a JSON object',
): Schema<v.InferOutput<v.StrictObjectSchema<Entries, undefined>>> {
  const known = Object.keys(entries).join(', ');
  const strict = v.strictObject(entries, ({ expected, input, path }) => {
    if (expected === 'never') return known && ` Known names: ${known}.`;
    const member = input === undefined ? entries[String(path?.at(-1)?.key)] : undefined;
    // A missing member gets the message of its own schema.
    return (member && v.safeParse(member, undefined).issues?.[0].message) ?? wanted;
  });
  return v.pipe(unlessArray(wanted), strict);
}

/** Valibot accepts an array as an object. */
export function unlessArray(wanted: string): Schema {
  return v.custom((value) => !Array.isArray(value), wanted);
}

/** What no record has as a member: Valibot would leave it out without a word. */
const LEFT_OUT = ['__proto__', 'prototype', 'constructor'];

/** An object with names and values of these kinds. */
export function record<Value>(
  name: v.GenericSchema<string, string>,
  value: Schema<Value>,
  wanted: string,
): v.GenericSchema<unknown, { [name: string]: Value }> {
  const named = `an object without the names ${LEFT_OUT.join(', ')}`;
  const hasNames = (given: unknown): boolean => LEFT_OUT.every((each) => !Object.hasOwn(Object(given), each));
  return v.pipe(unlessArray(wanted), v.custom(hasNames, named), v.record(name, value, wanted));
}

export function matching(wanted: string, pattern: RegExp): Schema<string> {
  return described(wanted, v.pipe(v.string(wanted), v.regex(pattern, wanted)));
}

export function textOf(min: number, max: number): Schema<string> {
  const wanted = `a string of ${min} to ${max} characters`;
  return described(wanted, v.pipe(v.string(wanted), v.minLength(min, wanted), v.maxLength(max, wanted)));
}

/** An integer in a response. */
export const whole: Schema<number> = v.pipe(v.number(), v.integer());

export function integer(min: number, max: number): Schema<number> {
  const wanted = `an integer from ${min} to ${max}`;
  return described(
    wanted,
    v.pipe(v.number(wanted), v.safeInteger(wanted), v.minValue(min, wanted), v.maxValue(max, wanted)),
  );
}

/** An integer in a query, where every value is a string. */
export function integerInQuery(min: number, max: number): Schema<number> {
  return v.pipe(
    v.unknown(),
    v.transform((value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value)),
    integer(min, max),
  );
}

export function flag(): Schema<boolean> {
  return described('true or false', v.boolean('true or false'));
}

export function oneOf<const Value extends string>(values: readonly Value[]): Schema<Value> {
  const wanted = values.map((value) => JSON.stringify(value)).join(' or ');
  return described(wanted, v.picklist(values, wanted));
}

/**
 * A comma-separated list in a query, e.g. `day,model`.
 *
 * @param further - values that are accepted besides, and a pattern of them: a prefix and a class of characters
 */
export function listInQuery<const Value extends string>(
  values: readonly Value[],
  further?: {
    readonly wanted: string;
    readonly is: (value: string) => value is Value;
    readonly pattern: string;
  },
): Schema<readonly Value[]> {
  const names = [...values, ...(further ? [further.wanted] : [])].map((value) => JSON.stringify(value));
  const wanted = `a comma-separated list of ${names.join(', ')}, each at most once`;
  const one = [...values, ...(further ? [further.pattern] : [])].join('|');
  const isValue = (name: string): name is Value =>
    values.some((value) => value === name) || further?.is(name) === true;
  const schema = v.pipe(
    v.string(wanted),
    v.regex(new RegExp(`^(?:${one})(?:,(?:${one}))*$`), wanted),
    v.transform((list) => list.split(',').filter(isValue)),
    v.check((list) => new Set(list).size === list.length, wanted),
  );
  return described(wanted, schema);
}

export const accountId: Schema<string> = described(
  ACCOUNT_WANTED,
  v.pipe(
    v.string(ACCOUNT_WANTED),
    v.regex(ACCOUNT, ACCOUNT_WANTED),
    v.check((value) => isAccount(value), ACCOUNT_WANTED),
  ),
);
export const keyId: Schema<string> = matching('1 to 64 characters A-Z a-z 0-9 _ -', /^[A-Za-z0-9_-]{1,64}$/);
export const modelId: Schema<string> = matching(
  'a model ID of 1 to 256 characters without blanks',
  /^[^\s\p{Cc}]{1,256}$/u,
);
export const endUserId: Schema<string> = textOf(1, MAX_END_USER_LENGTH);
export const allowanceId: Schema<string> = matching(
  '1 to 64 characters A-Z a-z 0-9 . _ -',
  /^[A-Za-z0-9._-]{1,64}$/,
);
/** The `x-request-id` of an answer. */
export const requestId: Schema<string> = matching(
  'the ID of a request, as its x-request-id',
  /^[0-9a-z]{19}$/,
);
/** A calendar month, UTC. */
export const month: Schema<string> = matching('a month such as "2026-11"', /^\d{4}-(0[1-9]|1[0-2])$/);
/** The id of a grant or adjustment. */
export const paymentId: Schema<string> = matching(
  '1 to 128 printable ASCII characters without spaces',
  /^[\u0021-\u007e]{1,128}$/,
);

/** For requests that may create an account. */
export const recreate: Schema<boolean> = described(
  'true: recreate an account that the store has lost, without its data. Otherwise such a request is rejected with account_lost',
  v.boolean('true or false'),
);

const TIME_WANTED = 'a time such as "2027-01-31T00:00:00Z"';
const DAY_WANTED = 'a day such as "2027-01-31"';
const MAX_USD = '9007199.254740991';
const AMOUNT_WANTED = `a decimal string of USD, more than 0 and at most ${MAX_USD}, with at most 9 decimals, such as "25.00"`;
const LIMIT_WANTED = `a decimal string of USD, at most ${MAX_USD}, with at most 9 decimals, such as "5.00"`;
const POSITIVE = /^\d{1,9}(\.\d{1,9})?$/;
const DELTA_WANTED = `a decimal string of USD, not 0 and at most ${MAX_USD} up or down, with at most 9 decimals, such as "-5.00"`;

/** An amount in a request: more than 0. */
export const amount: Schema<string> = money(AMOUNT_WANTED, POSITIVE, 1n, ['25.00']);
/** A correction, up or down. */
export const delta: Schema<string> = money(DELTA_WANTED, /^-?\d{1,9}(\.\d{1,9})?$/, 1n, ['-5.00']);
/** A limit in a request: 0 or more. */
export const limit: Schema<string> = money(LIMIT_WANTED, POSITIVE, 0n, ['5.00']);
/** An amount in a response. */
export const usd: Schema<string> = described('USD, as a decimal string', v.string(), {
  examples: ['25.00'],
});

/** Of an answer to a change of credits. */
export const balanceAfter: Schema<string> = described(
  'the balance after the change, in USD as a decimal string',
  v.string(),
);
export const durable: Schema<boolean> = described(
  'whether it is on disk, or on the configured number of replicas: send the request again while it is false',
  v.boolean(),
);

/** A time in a request. */
export const time: Schema<string> = described(
  TIME_WANTED,
  v.pipe(v.string(TIME_WANTED), v.check(isTime, TIME_WANTED)),
  { format: 'date-time' },
);
/** A time in a response. */
export const at: Schema<string> = described('a time, in UTC', v.string(), { format: 'date-time' });

/** A day in UTC. */
export const day: Schema<string> = described(
  'a day such as "2027-01-31", in UTC',
  v.pipe(
    v.string(DAY_WANTED),
    v.check((value) => isDay(value), DAY_WANTED),
  ),
  { format: 'date' },
);

function money(wanted: string, pattern: RegExp, min: bigint, examples: readonly string[]): Schema<string> {
  const schema = v.pipe(
    v.string(wanted),
    v.regex(pattern, wanted),
    v.check((value) => isMoney(value, min), wanted),
  );
  return described(wanted, schema, { examples });
}

/** @param min - smallest absolute value, in nano-dollars */
function isMoney(value: string, min: bigint): boolean {
  try {
    const nanos = parseUsd(value, 'amount');
    return nanos >= min || -nanos >= min;
  } catch {
    return false;
  }
}
