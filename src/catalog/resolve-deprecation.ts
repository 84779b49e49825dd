import type { ModelOptions } from '../options/model-options.ts';
import { optionError } from '../options/resolve-options.ts';
import type { Deprecation } from './model.ts';
import { isDay } from '../ledger/contract/usage.ts';

/** @throws {TypeError} naming the invalid option */
export function resolveDeprecation(given: ModelOptions, option: string): Deprecation | undefined {
  const deprecatedAt = parseMoment(given.deprecatedAt, `${option}.deprecatedAt`);
  const shutdownAt = parseMoment(given.shutdownDate, `${option}.shutdownDate`);
  const { replacement } = given;
  if (replacement !== undefined && (typeof replacement !== 'string' || replacement === '')) {
    throw optionError(`${option}.replacement`, 'the ID of a model', replacement);
  }
  if (deprecatedAt === undefined && shutdownAt === undefined) {
    if (replacement === undefined) return undefined;
    throw new TypeError(`${option}.replacement needs a deprecatedAt or shutdownDate beside it`);
  }
  if (deprecatedAt !== undefined && shutdownAt !== undefined && shutdownAt < deprecatedAt) {
    throw new TypeError(`${option}.shutdownDate must not be before its deprecatedAt`);
  }
  return {
    deprecatedAt,
    shutdownAt,
    replacement,
    headers: {
      ...(deprecatedAt !== undefined && { deprecation: `@${Math.floor(deprecatedAt / 1000)}` }),
      ...(shutdownAt !== undefined && { sunset: new Date(shutdownAt).toUTCString() }),
    },
  };
}

const ISO_8601 = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

function parseMoment(given: unknown, option: string): number | undefined {
  if (given === undefined) return undefined;
  const text = typeof given === 'string' && ISO_8601.test(given) ? given : undefined;
  const ms = given instanceof Date ? given.getTime() : text === undefined ? Number.NaN : Date.parse(text);
  // JavaScript parses 31 February as a day in March.
  const rolls = text !== undefined && Number.isFinite(ms) && !isDay(text.slice(0, 10));
  if (Number.isFinite(ms) && !rolls) return ms;
  throw optionError(option, "a Date, or a date as '2027-01-31' or '2027-01-31T12:00:00Z'", given);
}
