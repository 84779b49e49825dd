import * as z from 'zod';

import { parseUsd } from '../ledger/money.ts';

/**
 * What the admin door's inputs and answers are made of.
 *
 * Each schema's message is what it wants, to be said after "must be": so a refusal and the description that clients
 * are made from are the same words.
 */

/** Names and descriptions that the OpenAPI document has of schemas. */
export const documented: z.core.$ZodRegistry<Documentation> = z.registry<Documentation>();

interface Documentation {
  /** Where it has one, it is a component of the document, and others refer to it. */
  readonly id?: string | undefined;
  readonly description?: string | undefined;
  readonly format?: string | undefined;
  readonly examples?: readonly string[] | undefined;
}

/** A schema that is a component of the document. */
export function component<Schema extends z.ZodType>(id: string, description: string, schema: Schema): Schema {
  documented.add(schema, { id, description });
  return schema;
}

export function text(wanted: string, pattern: RegExp): z.ZodType<string> {
  return described(wanted, z.string({ error: wanted }).regex(pattern, { error: wanted }));
}

export function textOf(least: number, most: number): z.ZodType<string> {
  const wanted = `a string of ${least} to ${most} characters`;
  const schema = z.string({ error: wanted }).min(least, { error: wanted }).max(most, { error: wanted });
  return described(wanted, schema);
}

export function integer(least: number, most: number): z.ZodType<number> {
  const wanted = `an integer from ${least} to ${most}`;
  const error = { error: wanted };
  return described(wanted, z.int(error).min(least, error).max(most, error));
}

/** An integer in a query, where everything is text. */
export function integerInQuery(least: number, most: number): z.ZodType<number> {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value),
    integer(least, most),
  );
}

export function flag(): z.ZodType<boolean> {
  return described('true or false', z.boolean({ error: 'true or false' }));
}

export function oneOf<const Value extends string>(values: readonly Value[]): z.ZodType<Value> {
  const wanted = values.map((value) => JSON.stringify(value)).join(' or ');
  return described(wanted, z.enum(values, { error: wanted }));
}

/** A list in a query, as `day,model`. */
export function listInQuery<const Value extends string>(
  values: readonly Value[],
): z.ZodType<readonly Value[]> {
  const wanted = `of ${values.map((value) => JSON.stringify(value)).join(', ')}, with commas between, each once`;
  const pattern = new RegExp(`^(?:${values.join('|')})(?:,(?:${values.join('|')}))*$`);
  const schema = z
    .string({ error: wanted })
    .regex(pattern, { error: wanted })
    .transform((list) => list.split(',').flatMap((name) => values.filter((value) => value === name)))
    .refine((list) => new Set(list).size === list.length, { error: wanted });
  return described(wanted, schema);
}

export const accountId: z.ZodType<string> = text(
  '1 to 64 characters A-Z a-z 0-9 _ -',
  /^[A-Za-z0-9_-]{1,64}$/,
);
export const keyId: z.ZodType<string> = text('1 to 64 characters A-Z a-z 0-9 _ -', /^[A-Za-z0-9_-]{1,64}$/);
/** The id of a grant or adjustment. */
export const paymentId: z.ZodType<string> = text(
  '1 to 128 printable ASCII characters without spaces',
  /^[\u0021-\u007e]{1,128}$/,
);

/** In what makes an account. */
export const recreate: z.ZodType<boolean> = described(
  'true: make an account again that the store has lost, without what it had. Otherwise that is refused with account_lost',
  z.boolean({ error: 'true or false' }),
);

const MOST = '9007199.254740991';
const AMOUNT_WANTED = `a decimal string of USD, more than 0 and at most ${MOST}, with at most 9 decimals, as "25.00"`;
const LIMIT_WANTED = `a decimal string of USD, at most ${MOST}, with at most 9 decimals, as "5.00"`;
const POSITIVE = /^\d{1,9}(\.\d{1,9})?$/;
const DELTA_WANTED = `a decimal string of USD, not 0 and at most ${MOST} up or down, with at most 9 decimals, as "-5.00"`;

/** An amount that is given: more than nothing. */
export const amount: z.ZodType<string> = money(AMOUNT_WANTED, POSITIVE, 1n, ['25.00']);
/** A correction, up or down. */
export const delta: z.ZodType<string> = money(DELTA_WANTED, /^-?\d{1,9}(\.\d{1,9})?$/, 1n, ['-5.00']);
/** A limit: it may be nothing. */
export const limit: z.ZodType<string> = money(LIMIT_WANTED, POSITIVE, 0n, ['5.00']);
/** An amount that is told. */
export const usd: z.ZodType<string> = described('USD, as a decimal string', z.string(), {
  examples: ['25.00'],
});

/** A time that is given. */
export const time: z.ZodType<string> = described(
  'a time as "2027-01-31T00:00:00Z"',
  z
    .string({ error: 'a time as "2027-01-31T00:00:00Z"' })
    .refine(isTime, { error: 'a time as "2027-01-31T00:00:00Z"' }),
  { format: 'date-time' },
);
/** A time that is told. */
export const at: z.ZodType<string> = described('a time, in UTC', z.string(), { format: 'date-time' });

/** A day in UTC. */
export const day: z.ZodType<string> = described(
  'a day as "2027-01-31", in UTC',
  z
    .string({ error: 'a day as "2027-01-31"' })
    .refine((value) => /^\d{4}-\d\d-\d\d$/.test(value) && isTime(`${value}T00:00:00Z`), {
      error: 'a day as "2027-01-31"',
    }),
  { format: 'date' },
);

export function described<Schema extends z.ZodType>(
  description: string,
  schema: Schema,
  more: Omit<Documentation, 'id' | 'description'> = {},
): Schema {
  documented.add(schema, { description, ...more });
  return schema;
}

function money(
  wanted: string,
  pattern: RegExp,
  least: bigint,
  examples: readonly string[],
): z.ZodType<string> {
  const schema = z
    .string({ error: wanted })
    .regex(pattern, { error: wanted })
    .refine((value) => isMoney(value, least), { error: wanted });
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
