import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import { type Dimensions, isTagValue, TAG_VALUE_WANTED } from '../ledger/contract/usage.ts';
import type { TagSettings } from '../options/resolve-dimensions.ts';
import { invalidType } from './field-errors.ts';

/** Whom and what a request is for, by its body. */
export interface DimensionFields {
  /** The client's `safety_identifier`, else its `user`, if they are read; undefined if missing, null or empty. */
  readonly endUser?: string;
  /** The client's `metadata`, of the tags that are read: by the names of their dimensions. */
  readonly tags?: Dimensions;
}

/**
 * Returns a string of the body, whose text is undefined if it is too long; undefined if it is missing or null.
 *
 * @throws {InvalidRequestError} for any other value
 */
type ReadString = (
  name: string,
  wanted: string,
  path?: string,
) => { readonly text: string | undefined } | undefined;

/** @throws {InvalidRequestError} for a value that is no end user, or no tag */
export function dimensionFields(tags: readonly TagSettings[], read: ReadString): DimensionFields {
  const endUser = endUserIn(read);
  return {
    ...(endUser !== undefined && { endUser: endUser.toWellFormed() }),
    ...(tags.length > 0 && { tags: tagsIn(tags, read) }),
  };
}

function endUserIn(read: ReadString): string | undefined {
  const texts = ['safety_identifier', 'user'].map((name) => {
    const value = read(name, 'a string');
    if (value && (value.text === undefined || value.text.length > MAX_END_USER_LENGTH)) {
      throw invalidType(name, `a string of at most ${MAX_END_USER_LENGTH} characters, or null`);
    }
    return value?.text;
  });
  return texts.find((text) => text !== undefined && text !== '');
}

function tagsIn(tags: readonly TagSettings[], read: ReadString): Dimensions {
  const dimensions: Record<string, string> = {};
  const wanted = `a string of ${TAG_VALUE_WANTED}`;
  for (const { name, dimension } of tags) {
    const value = read(dimension, wanted, `metadata.${name}`);
    if (!value || value.text === '') continue;
    if (!isTagValue(value.text)) throw invalidType(`metadata.${name}`, `${wanted} or null`);
    dimensions[dimension] = value.text;
  }
  return dimensions;
}
