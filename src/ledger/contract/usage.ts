import type { NanoDollars } from './money.ts';

/** What was consumed, as the journal keeps it. What is optional may not be known. */
export interface SettledUsage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  /** Where the counts come from. */
  readonly source: 'upstream' | 'estimated' | 'none';
  /** What the provider bills for it; undefined where that isn't known. */
  readonly cost?: NanoDollars;
  /** Names the price that was used. */
  readonly price: string;
  readonly ending: Ending;
  /** Which provider answered, by its name in the options. */
  readonly provider?: string;
  /** The provider's name for the model, where it isn't the model's ID. */
  readonly upstreamModel?: string;
  /** From the request's arrival to the first byte of an answer; undefined where there was none. */
  readonly firstByteMs?: number;
  /** From the request's arrival to its end. */
  readonly durationMs?: number;
  /** As the provider said it, e.g. `stop`; `error` where the answer said that it is one. */
  readonly finishReason?: string;
  readonly streamed?: boolean;
  /** Among `promptTokens`. */
  readonly cacheWriteTokens?: number;
  /** Searches of the Web. */
  readonly webSearches?: number;
  /** The provider was asked with the client's own key. */
  readonly byok?: boolean;
}

/** How a request ended. */
export type Ending =
  | 'finished'
  | 'client_gone'
  | 'upstream_cut'
  | 'upstream_error'
  | 'timeout'
  | 'closed'
  /** A stream reached what was held, and no more was to be had. */
  | 'credits_exhausted'
  | 'failed';

/** All of them, for those who read what was written. */
export const ENDINGS: readonly Ending[] = [
  'finished',
  'client_gone',
  'upstream_cut',
  'upstream_error',
  'timeout',
  'closed',
  'credits_exhausted',
  'failed',
];

/** Requests of an account, counted by the UTC day they were made in, their key and their model. */
export interface UsageRow extends UsageCounts {
  /** By the request's id, in the store's time: `2026-11-21`. */
  readonly day: string;
  readonly key: string;
  /** Empty where no command said it. */
  readonly model: string;
}

export interface UsageCounts {
  /** Those that were admitted and are over. */
  readonly requests: number;
  /** Of them, those that failed: nothing came, or it broke, or their gateway died. */
  readonly errors: number;
  /** Of them, those whose client left before the end. */
  readonly aborted: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly charged: NanoDollars;
  /** What providers bill, as far as it is known. */
  readonly cost: NanoDollars;
}

/** The UTC day of a time, as `2026-11-21`. */
export function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}

/** Whether it is a day of the calendar, as `2026-11-21`. */
export function isDay(day: unknown): boolean {
  if (typeof day !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(day)) return false;
  const time = Date.parse(day);
  return !Number.isNaN(time) && dayOf(time) === day;
}
