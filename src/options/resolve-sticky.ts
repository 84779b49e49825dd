import { assertObject, milliseconds, optionError } from './option-checks.ts';
import type { ModelStickyOptions, StickyOptions } from './sticky-options.ts';

/** How conversations are kept where they were served. */
export interface StickySettings {
  /** In the order of looking. */
  readonly by: readonly ConversationSource[];
  readonly ttlMs: number;
  /** Some source is in the body. */
  readonly readsBody: boolean;
  /** The messages are a source. */
  readonly readsMessages: boolean;
}

/** Where the name of a conversation is read from. */
export interface ConversationSource {
  /** As in the options. */
  readonly name: string;
  /** In lower case; undefined for the other kinds. */
  readonly header: string | undefined;
}

const DEFAULT_TTL_MS = 600_000;
const MAX_SOURCES = 8;
const HEADER = /^header:([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64})$/;
const IN_BODY = ['prompt_cache_key', 'user', 'prefix'];
const WANTED = `one of header:NAME, ${IN_BODY.join(', ')}`;

/** @throws {TypeError} naming the invalid option */
export function resolveSticky(given: StickyOptions | undefined): StickySettings | undefined {
  if (given === undefined) return undefined;
  assertObject(given, 'sticky', { by: true, ttlMs: true });
  const { by, ttlMs = DEFAULT_TTL_MS } = given;
  if (!Array.isArray(by) || by.length === 0 || by.length > MAX_SOURCES) {
    throw optionError('sticky.by', `a list of 1 to ${MAX_SOURCES} sources`, by);
  }
  const sources = by.map((source: unknown, n) => sourceOf(source, `sticky.by[${n}]`));
  const names = sources.map(({ name }) => name);
  for (const [n, name] of names.entries()) {
    if (names.indexOf(name) < n)
      throw optionError(`sticky.by[${n}]`, 'another source than those before', name);
  }
  const prefixAt = names.indexOf('prefix');
  if (prefixAt !== -1 && prefixAt < names.length - 1) {
    throw optionError(`sticky.by[${prefixAt}]`, 'the last source, as every request has messages', 'prefix');
  }
  return {
    by: sources,
    ttlMs: milliseconds(ttlMs, 'sticky.ttlMs'),
    readsBody: sources.some(({ header }) => header === undefined),
    readsMessages: prefixAt !== -1,
  };
}

/** @throws {TypeError} naming the invalid option */
export function resolveModelSticky(
  given: ModelStickyOptions | false | undefined,
  router: StickySettings | undefined,
  option: string,
): StickySettings | undefined {
  if (given === undefined) return router;
  if (given === false) return undefined;
  assertObject(given, option, { ttlMs: true });
  const ttlMs = milliseconds(given.ttlMs, `${option}.ttlMs`);
  if (!router)
    throw new TypeError(`${option} needs the router's sticky, which says what a conversation is known by`);
  return { ...router, ttlMs };
}

function sourceOf(given: unknown, option: string): ConversationSource {
  if (typeof given !== 'string') throw optionError(option, WANTED, given);
  const header = HEADER.exec(given)?.[1]?.toLowerCase();
  if (header !== undefined) return { name: `header:${header}`, header };
  if (IN_BODY.includes(given)) return { name: given, header: undefined };
  throw optionError(option, WANTED, given);
}
