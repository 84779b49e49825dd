import { isDimension, MAX_TAGS, type TagDimension, tagDimension } from '../ledger/contract/usage.ts';
import { assertObject, optionError } from './option-checks.ts';
import type { DimensionOptions, EndUserSource, TagSource } from './router-options.ts';

/** Where the dimensions of a request are read from. */
export interface DimensionSettings {
  /** Undefined if requests are not counted by end user. */
  readonly user: DimensionSource | undefined;
  readonly tags: readonly TagSettings[];
  /** Requests are counted by provider. */
  readonly provider: boolean;
}

/** Beside its field in the body. */
export interface DimensionSource {
  /** In lower case. */
  readonly header: string | undefined;
}

export interface TagSettings extends DimensionSource {
  readonly name: string;
  /** In usage: `tag:` and the name. */
  readonly dimension: TagDimension;
}

export function resolveDimensions(given: DimensionOptions = {}): DimensionSettings | undefined {
  assertObject(given, 'dimensions', { user: true, tags: true, provider: true });
  const { tags = [], provider = false } = given;
  if (typeof provider !== 'boolean') throw optionError('dimensions.provider', 'a boolean', provider);
  const user = resolveUser(given.user);
  if (!Array.isArray(tags) || tags.length > MAX_TAGS) {
    throw optionError('dimensions.tags', `a list of at most ${MAX_TAGS} tags`, tags);
  }
  const resolved = tags.map(resolveTag);
  const twice = resolved.find(({ name }, n) => resolved.findIndex((other) => other.name === name) < n);
  if (twice) throw optionError('dimensions.tags', 'tags of different names', twice.name);
  return user || provider || resolved.length > 0 ? { user, tags: resolved, provider } : undefined;
}

/** The names of the dimensions, as usage is grouped by them. */
export function dimensionNames(settings: DimensionSettings | undefined): readonly string[] {
  if (!settings) return [];
  const { user, provider, tags } = settings;
  const own = [...(user ? ['user'] : []), ...(provider ? ['provider'] : [])];
  return [...own, ...tags.map(({ dimension }) => dimension)];
}

function resolveUser(user: boolean | EndUserSource = false): DimensionSource | undefined {
  if (user === false) return undefined;
  if (user === true) return { header: undefined };
  assertObject(user, 'dimensions.user', { header: true });
  return { header: headerName(user.header, 'dimensions.user.header') };
}

function resolveTag(given: string | TagSource, n: number): TagSettings {
  const where = `dimensions.tags[${n}]`;
  if (typeof given === 'string') return { ...tagNamed(given, where), header: undefined };
  assertObject(given, where, { name: true, header: true });
  return { ...tagNamed(given.name, `${where}.name`), header: headerName(given.header, `${where}.header`) };
}

function tagNamed(name: string, where: string): Pick<TagSettings, 'name' | 'dimension'> {
  const dimension = tagDimension(name);
  if (typeof name === 'string' && isDimension(dimension)) return { name, dimension };
  throw optionError(where, '1 to 32 letters, digits, "_" and "-", a letter first', name);
}

function headerName(header: unknown, where: string): string {
  if (typeof header !== 'string' || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/.test(header)) {
    throw optionError(where, 'the name of a header', header);
  }
  return header.toLowerCase();
}
