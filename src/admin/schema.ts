import * as v from 'valibot';

import { parseUsd } from '../ledger/contract/money.ts';

/**
 * What the admin door's inputs and answers are made of.
 *
 * Each schema's message is what it wants, to be said after "must be": so a refusal and the description that clients
 * are made from are the same words.
 */

export type Schema<Value = unknown> = v.GenericSchema<unknown, Value>;

/** Name → schema that is a component of the OpenAPI document. */
export const components: Record<string, Schema> = {};

/** What the document says of a schema, beside what follows from it. */
interface SchemaNotes {
  readonly format?: string;
  readonly examples?: readonly string[];
}

/** A schema that is a component of the document. */
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

/** An object of these members and no others. */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
  wanted = 'a JSON object',
): Schema<v.InferOutput<v.StrictObjectSchema<Entries, undefined>>> {
  const known = Object.keys(entries).join(', ');
  const strict = v.strictObject(entries, ({ expected, input, path }) => {
    if (expected === 'never') return known && ` Known are ${known}.`;
    const member = input === undefined ? entries[String(path?.at(-1)?.key)] : undefined;
    // What is missing is what its own schema wants.
    return (member && v.safeParse(member, undefined).issues?.[0].message) ?? wanted;
  });
  return v.pipe(unlessArray(wanted), strict);
}

/** Valibot takes an array for an object. */
export function unlessArray(wanted: string): Schema {
  return v.custom((value) => !Array.isArray(value), wanted);
}

export function text(wanted: string, pattern: RegExp): Schema<string> {
  return described(wanted, v.pipe(v.string(wanted), v.regex(pattern, wanted)));
}

export function textOf(least: number, most: number): Schema<string> {
  const wanted = `a string of ${least} to ${most} characters`;
  return described(wanted, v.pipe(v.string(wanted), v.minLength(least, wanted), v.maxLength(most, wanted)));
}

/** An integer that is told. */
export const whole: Schema<number> = v.pipe(v.number(), v.integer());

export function integer(least: number, most: number): Schema<number> {
  const wanted = `an integer from ${least} to ${most}`;
  return described(
    wanted,
    v.pipe(v.number(wanted), v.safeInteger(wanted), v.minValue(least, wanted), v.maxValue(most, wanted)),
  );
}

/** An integer in a query, where everything is text. */
export function integerInQuery(least: number, most: number): Schema<number> {
  return v.pipe(
    v.unknown(),
    v.transform((value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value)),
    integer(least, most),
  );
}

export function flag(): Schema<boolean> {
  return described('true or false', v.boolean('true or false'));
}

export function oneOf<const Value extends string>(values: readonly Value[]): Schema<Value> {
  const wanted = values.map((value) => JSON.stringify(value)).join(' or ');
  return described(wanted, v.picklist(values, wanted));
}

/** A list in a query, as `day,model`. */
export function listInQuery<const Value extends string>(values: readonly Value[]): Schema<readonly Value[]> {
  const wanted = `of ${values.map((value) => JSON.stringify(value)).join(', ')}, with commas between, each once`;
  const pattern = new RegExp(`^(?:${values.join('|')})(?:,(?:${values.join('|')}))*$`);
  const schema = v.pipe(
    v.string(wanted),
    v.regex(pattern, wanted),
    v.transform((list) => list.split(',').flatMap((name) => values.filter((value) => value === name))),
    v.check((list) => new Set(list).size === list.length, wanted),
  );
  return described(wanted, schema);
}

export const accountId: Schema<string> = text('1 to 64 characters A-Z a-z 0-9 _ -', /^[A-Za-z0-9_-]{1,64}$/);
export const keyId: Schema<string> = text('1 to 64 characters A-Z a-z 0-9 _ -', /^[A-Za-z0-9_-]{1,64}$/);
/** The id of a grant or adjustment. */
export const paymentId: Schema<string> = text(
  '1 to 128 printable ASCII characters without spaces',
  /^[\u0021-\u007e]{1,128}$/,
);

/** In what makes an account. */
export const recreate: Schema<boolean> = described(
  'true: make an account again that the store has lost, without what it had. Otherwise that is refused with account_lost',
  v.boolean('true or false'),
);

const TIME_WANTED = 'a time as "2027-01-31T00:00:00Z"';
const DAY_WANTED = 'a day as "2027-01-31"';
const MOST = '9007199.254740991';
const AMOUNT_WANTED = `a decimal string of USD, more than 0 and at most ${MOST}, with at most 9 decimals, as "25.00"`;
const LIMIT_WANTED = `a decimal string of USD, at most ${MOST}, with at most 9 decimals, as "5.00"`;
const POSITIVE = /^\d{1,9}(\.\d{1,9})?$/;
const DELTA_WANTED = `a decimal string of USD, not 0 and at most ${MOST} up or down, with at most 9 decimals, as "-5.00"`;

/** An amount that is given: more than nothing. */
export const amount: Schema<string> = money(AMOUNT_WANTED, POSITIVE, 1n, ['25.00']);
/** A correction, up or down. */
export const delta: Schema<string> = money(DELTA_WANTED, /^-?\d{1,9}(\.\d{1,9})?$/, 1n, ['-5.00']);
/** A limit: it may be nothing. */
export const limit: Schema<string> = money(LIMIT_WANTED, POSITIVE, 0n, ['5.00']);
/** An amount that is told. */
export const usd: Schema<string> = described('USD, as a decimal string', v.string(), {
  examples: ['25.00'],
});

/** A time that is given. */
export const time: Schema<string> = described(
  TIME_WANTED,
  v.pipe(v.string(TIME_WANTED), v.check(isTime, TIME_WANTED)),
  { format: 'date-time' },
);
/** A time that is told. */
export const at: Schema<string> = described('a time, in UTC', v.string(), { format: 'date-time' });

/** A day in UTC. */
export const day: Schema<string> = described(
  'a day as "2027-01-31", in UTC',
  v.pipe(
    v.string(DAY_WANTED),
    v.check((value) => /^\d{4}-\d\d-\d\d$/.test(value) && isTime(`${value}T00:00:00Z`), DAY_WANTED),
  ),
  { format: 'date' },
);

function money(wanted: string, pattern: RegExp, least: bigint, examples: readonly string[]): Schema<string> {
  const schema = v.pipe(
    v.string(wanted),
    v.regex(pattern, wanted),
    v.check((value) => isMoney(value, least), wanted),
  );
  return described(wanted, schema, { examples });
}

/** @param least - how much it must be at least, up or down */
function isMoney(value: string, least: bigint): boolean {
  try {
    const nanos = parseUsd(value, 'amount');
    return nanos >= least || -nanos >= least;
  } catch {
    return false;
  }
}

function isTime(value: string): boolean {
  const [, year, month, date] =
    /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/.exec(value) ?? [];
  // `Date` reads the 31st of February as the 3rd of March.
  const civil = new Date(`${year}-${month}-${date}T00:00:00Z`);
  return civil.getUTCDate() === Number(date) && !Number.isNaN(Date.parse(value));
}
