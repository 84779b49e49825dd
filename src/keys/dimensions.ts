import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import { type Dimensions, isTagValue, TAG_VALUE_WANTED, tagDimension } from '../ledger/contract/usage.ts';
import { commandError, isEndUser } from '../ledger/engine/validate-commands.ts';
import type { DimensionSettings } from '../options/resolve-dimensions.ts';
import type { Caller } from './caller.ts';

/** Whom a request is for, and what it is counted by. */
export interface CountedAs {
  /** Its limits count, whether or not usage is counted by end user. */
  readonly endUser: string | undefined;
  /** Undefined if there are none. */
  readonly dimensions: Dimensions | undefined;
}

/**
 * @param said - by the request; what its caller has comes first
 * @param provider - if it is known before the request is over
 */
export function countedAs(
  { endUser: own, tags }: Pick<Caller, 'endUser' | 'tags'>,
  said: Dimensions | undefined,
  settings: DimensionSettings | undefined,
  provider?: string,
): CountedAs {
  const endUser = own ?? said?.['user'];
  if (!settings) return { endUser, dimensions: undefined };
  const dimensions: Record<string, string> = {};
  if (settings.user && endUser !== undefined) dimensions['user'] = endUser;
  for (const { dimension } of settings.tags) {
    const value = tags?.[dimension] ?? said?.[dimension];
    if (value !== undefined) dimensions[dimension] = value;
  }
  const found = Object.keys(dimensions).length > 0 ? dimensions : undefined;
  return { endUser, dimensions: provider === undefined ? found : countedAt(provider, found, settings) };
}

/** Dimensions with the provider, if usage is counted by it. */
export function countedAt(
  provider: string,
  dimensions: Dimensions | undefined,
  settings: DimensionSettings | undefined,
): Dimensions | undefined {
  // A longer name can't be counted: its row is the empty one.
  return settings?.provider && isEndUser(provider) ? { ...dimensions, provider } : dimensions;
}

/** @throws {TypeError} that calls it `what` */
export function checkedEndUser(user: unknown, what: string): string {
  if (isEndUser(user)) return user;
  throw commandError(what, `a text of 1 to ${MAX_END_USER_LENGTH} characters`, user);
}

/**
 * Tags by the names of their dimensions.
 *
 * @throws {TypeError} that names the invalid one, as a member of `what`
 */
export function tagDimensions(tags: Readonly<Record<string, string | undefined>>, what: string): Dimensions {
  if (typeof tags !== 'object' || tags === null || Array.isArray(tags)) {
    throw commandError(what, 'an object of texts', tags);
  }
  const dimensions: Record<string, string> = {};
  for (const [name, value] of Object.entries(tags)) {
    if (value === undefined) continue;
    if (!isTagValue(value)) throw commandError(`${JSON.stringify(name)} in ${what}`, TAG_VALUE_WANTED, value);
    dimensions[tagDimension(name)] = value;
  }
  return dimensions;
}
