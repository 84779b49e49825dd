import type { IncomingHttpHeaders } from 'node:http';

/** Longest wait that is accepted from a provider. */
const MAX_WAIT_MS = 3_600_000;
/** Wait if a provider doesn't say when its limit resets. */
const DEFAULT_WAIT_MS = 1000;
/** More than this is plenty. Sums of it are exact in numbers, and in Redis. */
const MAX_LEFT = 1e12;
/** Longer header values are not parsed. */
const MAX_LENGTH = 64;
/** Go durations: `2m59.56s`, `6m0s`, `120ms`. */
const DURATION =
  /^(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?$/;

/** The provider's `retry-after`, in ms; undefined if it is missing or in an unknown form. */
export function retryAfterMs(headers: IncomingHttpHeaders, now: number = Date.now()): number | undefined {
  const { 'retry-after-ms': ms, 'retry-after': seconds } = headers;
  if (typeof ms === 'string' && ms !== '' && Number(ms) >= 0) return Number(ms);
  if (seconds === undefined) return undefined;
  if (seconds !== '' && Number(seconds) >= 0) return Number(seconds) * 1000;
  const date = Date.parse(seconds);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** What an answer's headers say of the rate limits of its key. */
export interface LimitsLeft {
  /** Until all limits have requests or tokens left, in ms; 0 if they do now. */
  readonly exhaustedMs: number;
  /** The limit of requests that has the fewest left. */
  readonly requests?: LimitLeft;
  /** The limit of tokens that has the fewest left. */
  readonly tokens?: LimitLeft;
}

export interface LimitLeft {
  readonly left: number;
  /** The whole limit, if the provider names it. */
  readonly limit?: number;
  /** Until the limit resets. */
  readonly resetMs: number;
}

const NOTHING_SAID: LimitsLeft = { exhaustedMs: 0 };

/**
 * Reads all pairs of headers whose names differ only in `remaining` and `reset`: `x-ratelimit-remaining-tokens`
 * (OpenAI, Azure, Groq, xAI, Together), `anthropic-ratelimit-requests-remaining`, `x-ratelimit-remaining-requests-day`
 * (Cerebras), `x-ratelimit-remaining` (OpenRouter), `ratelimit-remaining` (the IETF's draft).
 */
export function limitsLeft(headers: IncomingHttpHeaders, now: number = Date.now()): LimitsLeft {
  let said = NOTHING_SAID;
  for (const name in headers) {
    if (!name.includes('ratelimit') || !name.includes('remaining')) continue;
    const left = numberIn(headers[name]);
    if (left === undefined) continue;
    const reset = headers[name.replace('remaining', 'reset')];
    const ms = typeof reset === 'string' ? untilReset(reset, now) : undefined;
    const resetMs = Math.min(ms ?? DEFAULT_WAIT_MS, MAX_WAIT_MS);
    if (left <= 0) said = { ...said, exhaustedMs: Math.max(said.exhaustedMs, resetMs) };
    const kind = kindOf(name);
    if (!kind || (said[kind]?.left ?? Infinity) <= left) continue;
    const limit = numberIn(headers[name.replace('remaining', 'limit')]);
    const counted = Math.min(MAX_LEFT, Math.max(0, Math.floor(left)));
    said = { ...said, [kind]: { left: counted, ...(limit !== undefined && { limit }), resetMs } };
  }
  return said;
}

/** Tokens of the prompt or of the answer alone: only a zero counts, as the estimate of a request is of both. */
const ONE_SIDED = /(?:input|output|prompt|completion)-tokens|tokens-(?:input|output|prompt|generated|cached)/;

function kindOf(name: string): 'requests' | 'tokens' | undefined {
  if (name.includes('tokens')) return ONE_SIDED.test(name) ? undefined : 'tokens';
  return name.includes('requests') || name.endsWith('ratelimit-remaining') ? 'requests' : undefined;
}

/** `exhaustedMs` of `limitsLeft`. */
export function exhaustedMs(headers: IncomingHttpHeaders, now?: number): number {
  return limitsLeft(headers, now).exhaustedMs;
}

/** What is left of one rate limit. */
export interface RateLimitLeft {
  /** The header's own words beside `ratelimit` and `remaining`: `requests`, `tokens-day`; `requests` if it has none. */
  readonly name: string;
  readonly limit?: number;
  readonly remaining: number;
  /** In ms, from the answer on. */
  readonly resetMs?: number;
}

/** All rate limits that the headers name, in their order. @param receivedAt - in ms since the epoch */
export function rateLimitsIn(headers: IncomingHttpHeaders, receivedAt: number): RateLimitLeft[] {
  return Object.entries(headers).flatMap(([name, left]) => {
    if (!name.includes('ratelimit') || !name.includes('remaining')) return [];
    const remaining = numberIn(left);
    if (remaining === undefined) return [];
    const limit = numberIn(
      headers[name.replace('remaining', 'limit')] ?? headers[name.replace('-remaining', '')],
    );
    const reset = headers[name.replace('remaining', 'reset')];
    const resetMs = typeof reset === 'string' ? untilReset(reset, receivedAt) : undefined;
    return {
      name: name.replace(/^.*ratelimit-?|-?remaining-?/g, '') || 'requests',
      ...(limit !== undefined && { limit }),
      remaining,
      ...(resetMs !== undefined && { resetMs }),
    };
  });
}

function numberIn(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string' || header === '' || header.length > MAX_LENGTH) return undefined;
  const number = Number(header);
  return Number.isFinite(number) ? number : undefined;
}

/** How long not to use a key after a 429, in ms. */
export function limitedMs(headers: IncomingHttpHeaders): number {
  const ms = retryAfterMs(headers) ?? (exhaustedMs(headers) || DEFAULT_WAIT_MS);
  return Math.min(Math.max(ms, 1), MAX_WAIT_MS);
}

/** Parses a duration, seconds, a Unix time in seconds or milliseconds, or a date. */
function untilReset(reset: string, now: number): number | undefined {
  if (reset === '' || reset.length > MAX_LENGTH) return undefined;
  const number = Number(reset);
  if (number > 1e12) return Math.max(0, number - now);
  if (number > 1e9) return Math.max(0, number * 1000 - now);
  if (number >= 0) return number * 1000;
  const parts = DURATION.exec(reset);
  if (parts) {
    const [, hours = '0', minutes = '0', seconds = '0', ms = '0'] = parts;
    return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000 + Number(ms);
  }
  const date = Date.parse(reset);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
