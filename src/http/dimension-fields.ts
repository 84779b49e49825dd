import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import { type Dimensions, isTagValue, TAG_VALUE_WANTED } from '../ledger/contract/usage.ts';
import type { TagSettings } from '../options/resolve-dimensions.ts';
import { invalidType } from './field-errors.ts';

/** Whom and what a request is for, by its body. */
export interface DimensionFields {
  /** The client's `safety_identifier`, else its `user`, if they are read; undefined if missing, null or empty. */
  readonly endUser: string | undefined;
  /** The client's `metadata`, of the tags that are read: by the names of their dimensions; undefined if none is. */
  readonly tags: Dimensions | undefined;
}

interface StringMembers {
  /**
   * Returns a string of the body, whose text is undefined if it is too long; undefined if it is missing or null.
   *
   * @throws {InvalidRequestError} for any other value
   */
  stringMember(
    name: string,
    wanted: string,
    path?: string,
  ): { readonly text: string | undefined } | undefined;
}

/** In the order in which they count. */
const END_USER_FIELDS = ['safety_identifier', 'user'];

/** @throws {InvalidRequestError} for a value that is no end user */
export function endUserIn(members: StringMembers): string | undefined {
  let endUser: string | undefined;
  for (const name of END_USER_FIELDS) {
    const value = members.stringMember(name, 'a string');
    if (!value) continue;
    if (value.text === undefined || value.text.length > MAX_END_USER_LENGTH) {
      throw invalidType(name, `a string of at most ${MAX_END_USER_LENGTH} characters, or null`);
    }
    if (value.text !== '') endUser ??= value.text.toWellFormed();
  }
  return endUser;
}

/** @throws {InvalidRequestError} for a value that is no tag */
export function tagsIn(tags: readonly TagSettings[], members: StringMembers): Dimensions | undefined {
  if (tags.length === 0) return undefined;
  const dimensions: Record<string, string> = {};
  const wanted = `a string of ${TAG_VALUE_WANTED}`;
  for (const { name, dimension } of tags) {
    const value = members.stringMember(dimension, wanted, `metadata.${name}`);
    if (!value || value.text === '') continue;
    if (!isTagValue(value.text)) throw invalidType(`metadata.${name}`, `${wanted} or null`);
    dimensions[dimension] = value.text;
  }
  return dimensions;
}
