import type * as z from 'zod';

import { InvalidRequestError } from '../errors.ts';
import { InvalidValueError, missing } from './errors.ts';

/**
 * A value as its schema wants it.
 *
 * @param where - what the value is, where it is wrong as a whole: `the body`
 * @throws a 400 that names the parameter, says what it must be, and what it is
 */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  where: string,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw issue ? refusal(issue, value, schema, where) : result.error;
}

function refusal(issue: z.core.$ZodIssue, value: unknown, schema: z.ZodType, where: string): Error {
  if (issue.code === 'unrecognized_keys') {
    const [name = ''] = issue.keys;
    const param = [...issue.path, name].join('.');
    const known = issue.path.length === 0 ? Object.keys(Reflect.get(schema, 'shape') ?? {}) : [];
    const served = known.length > 0 ? ` Known are ${known.join(', ')}.` : '';
    return new InvalidRequestError(
      'unsupported_parameter',
      `${quote(param)} is not known here.${served}`,
      param,
    );
  }
  const param = issue.path.join('.');
  if (param === '') return new InvalidRequestError('invalid_type', `${where} must be a JSON object.`);
  const got = issue.path.reduce<unknown>(
    (inside, key) => (typeof inside === 'object' && inside !== null ? Reflect.get(inside, key) : undefined),
    value,
  );
  if (got === undefined) return missing(param, `${param} is missing; it must be ${issue.message}.`);
  return new InvalidValueError(`${param} must be ${issue.message}, got ${quote(got)}.`, param);
}

/** Short, and on one line. */
function quote(value: unknown): string {
  const shown = JSON.stringify(value) ?? String(value);
  return shown.length > 100 ? `${shown.slice(0, 100)}…` : shown;
}
