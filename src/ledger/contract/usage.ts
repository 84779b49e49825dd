import type { NanoDollars } from './money.ts';

/** What a request consumed, as recorded in the journal. Optional members are absent where unknown. */
export interface SettledUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  /** Where the counts come from. */
  readonly source: 'upstream' | 'estimated' | 'none';
  /** What the provider bills; undefined where unknown. */
  readonly cost?: NanoDollars;
  /** Name of the price that was used. */
  readonly price: string;
  readonly ending: Ending;
  /** Name, in the options, of the provider that answered. */
  readonly provider?: string;
  /** The provider's name for the model, where it differs from the model's ID. */
  readonly upstreamModel?: string;
  /** From the request's arrival to the first byte of the answer; undefined without an answer. */
  readonly firstByteMs?: number;
  /** From the request's arrival to its end. */
  readonly durationMs?: number;
  /** As reported by the provider, e.g. `stop`; `error` where the answer is an error. */
  readonly finishReason?: string;
  readonly streamed?: boolean;
  /** Included in `promptTokens`. */
  readonly cacheWriteTokens?: number;
  /** Web searches. */
  readonly webSearches?: number;
  /** The provider was called with the client's own key (BYOK). */
  readonly byok?: boolean;
  /** What else was consumed, in units of the model: images, minutes, pages. */
  readonly units?: number;
}

/** How a request ended. */
export type Ending =
  | 'finished'
  | 'client_gone'
  | 'upstream_cut'
  | 'upstream_error'
  | 'timeout'
  | 'closed'
  /** A stream used up its hold, and the balance did not cover a larger one. */
  | 'credits_exhausted'
  /** The app's guard refused it while it ran. */
  | 'refused'
  | 'failed';

/** All endings, for readers of stored records. */
export const ENDINGS: readonly Ending[] = [
  'finished',
  'client_gone',
  'upstream_cut',
  'upstream_error',
  'timeout',
  'closed',
  'credits_exhausted',
  'refused',
  'failed',
];

/** Ended requests of an account, aggregated by UTC day of arrival, key and model. */
export interface UsageRow extends UsageCounts {
  /** UTC day of the request's id, in the store's time: `2026-11-21`. */
  readonly day: string;
  readonly key: string;
  /** Empty where unknown. */
  readonly model: string;
}

/** Ended requests of an account that have one value of a dimension, aggregated by UTC day of arrival. */
export interface DimensionRow extends UsageCounts {
  /** As in `UsageRow`. */
  readonly day: string;
  /** `user`, `provider`, or `tag:` and the tag's name. */
  readonly dimension: string;
  /** Empty for all beyond `MAX_DIMENSION_VALUES`, together. */
  readonly value: string;
}

/**
 * What a request is counted by, beside its key and model: the value of each dimension that it has, of 1 to 128 characters.
 * As `{ user: 'u-17', 'tag:feature': 'search' }`.
 */
export type Dimensions = Readonly<Record<string, string>>;

/** Values of a dimension that an account has rows for on a day: further ones share a row. */
export const MAX_DIMENSION_VALUES = 1000;
/** Tags that a request can have. */
export const MAX_TAGS = 4;
/** The longest value of a tag, in UTF-16 units. */
export const MAX_TAG_LENGTH = 64;

/** The name of a tag's dimension. */
export type TagDimension = `tag:${string}`;

export function tagDimension(tag: string): TagDimension {
  return `tag:${tag}`;
}

/** The tag of a dimension; undefined if it is no tag's. */
export function tagOf(dimension: string): string | undefined {
  return dimension.startsWith('tag:') ? dimension.slice('tag:'.length) : undefined;
}

/** Whether it can be the value of a tag: 1 to 64 visible characters, with spaces between them. */
export function isTagValue(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.length <= MAX_TAG_LENGTH &&
    /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+$/u.test(value) &&
    value.trim() !== ''
  );
}

export const TAG_VALUE_WANTED: string = `1 to ${MAX_TAG_LENGTH} visible characters`;

/** Dimensions that a request can have: its end user, its provider, its tags. */
export const MAX_DIMENSIONS: number = 2 + MAX_TAGS;

/** Whether it is the name of a dimension: `user`, `provider`, or `tag:` and 1 to 32 letters, digits, `_` and `-`, a letter first. */
export function isDimension(name: unknown): name is string {
  return typeof name === 'string' && /^(?:user|provider|tag:[A-Za-z][A-Za-z0-9_-]{0,31})$/.test(name);
}

export interface UsageCounts {
  /** Admitted requests that have ended. */
  readonly requests: number;
  /** Of those, the failed ones: no answer, a broken one, or the gateway died. */
  readonly errors: number;
  /** Of those, the ones whose client disconnected before the end. */
  readonly aborted: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly charged: NanoDollars;
  /** What providers bill, as far as known. */
  readonly cost: NanoDollars;
}

export const DAY_MS = 86_400_000;

/** The UTC day of a time, as `2026-11-21`. */
export function dayOf(time: number): string {
  const number = Math.floor(time / DAY_MS);
  if (number !== latest.number) latest = { number, day: new Date(time).toISOString().slice(0, 10) };
  return latest.day;
}

/** The last day that was asked for: almost every request asks for the same one. */
let latest = { number: Number.NaN, day: '' };

/** Whether the value is a calendar day, as `2026-11-21`. */
export function isDay(day: unknown): boolean {
  if (typeof day !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(day)) return false;
  const time = Date.parse(day);
  return !Number.isNaN(time) && dayOf(time) === day;
}

/** Whether the text is a time with `Z` or an offset, as `2026-11-21T12:00Z`: without one it would be that of the machine. */
export function isTime(text: string): boolean {
  const [, day] = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  // `Date` reads the 31st of February as the 3rd of March.
  return isDay(day) && !Number.isNaN(Date.parse(text));
}
