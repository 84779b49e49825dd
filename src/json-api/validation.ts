import * as v from 'valibot';

import { InvalidRequestError } from '../errors/request-errors.ts';
import { capitalize, InvalidValueError, missingParameter } from './errors.ts';
import type { Schema } from './schema.ts';

/**
 * Parses a value by its schema.
 *
 * @param where - names the value if it is invalid as a whole, e.g. `the body`
 * @throws {RouterError} a 400 with the parameter, what it must be and what it is
 */
export function validate<Value>(schema: Schema<Value>, value: unknown, where: string): Value {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw validationError(result.issues[0], value, where);
}

function validationError(
  { expected, path, message }: v.BaseIssue<unknown>,
  value: unknown,
  where: string,
): Error {
  if (!path) return new InvalidRequestError('invalid_type', `${capitalize(where)} must be a JSON object.`);
  const keys = path.map(({ key }) => key);
  const param = keys.join('.');
  if (expected === 'never') {
    const unknown = `Unknown parameter ${abbreviate(param)}.${message}`;
    return new InvalidRequestError('unsupported_parameter', unknown, param);
  }
  const got = keys.reduce<unknown>(
    (inside, key) =>
      typeof inside === 'object' && inside !== null ? Reflect.get(inside, String(key)) : undefined,
    value,
  );
  if (got === undefined) return missingParameter(param, `${param} is missing; it must be ${message}.`);
  return new InvalidValueError(`${param} must be ${message}, got ${abbreviate(got)}.`, param);
}

/** JSON of at most 100 characters. */
function abbreviate(value: unknown): string {
  const shown = JSON.stringify(value) ?? String(value);
  return shown.length > 100 ? `${shown.slice(0, 100)}…` : shown;
}
