import type { AttemptStats } from '../observability/provider-status.ts';

/** How far back a history goes. */
const HISTORY_MINUTES = 60;
const MINUTE_MS = 60_000;

/** Steps of the histogram of times to the first byte: from 5 ms on, four to each doubling, the last ends at five minutes. */
const STEPS = { firstMs: 5, perDoubling: 4, number: 64 };

/** What an attempt adds to sums. */
export interface AttemptCounts {
  /** Negative without an answer. */
  readonly firstByteMs: number;
  /** Of a stream that ended; 0 if not known. */
  readonly tokens: number;
  /** From its first byte to its end. */
  readonly streamMs: number;
  /** As the provider counts them; 0 if not known. */
  readonly promptTokens: number;
  /** Of those, the ones that it read from its cache. */
  readonly cachedTokens: number;
}

/** What a target did in each of the last 60 minutes. A request allocates nothing but the first of a minute, for an hour. */
export class TargetHistory {
  /** By minute, modulo 60; an old one is used again. */
  readonly #minutes: (AttemptSums | undefined)[] = Array.from({ length: HISTORY_MINUTES }, () => undefined);

  /**
   * Counts an attempt in the minute of its end.
   *
   * @param now - in ms since the epoch
   */
  add(now: number, failed: boolean, attempt: AttemptCounts): void {
    const minute = Math.floor(now / MINUTE_MS);
    const slot = minute % HISTORY_MINUTES;
    const sums = (this.#minutes[slot] ??= new AttemptSums(minute));
    if (sums.minute !== minute) sums.restart(minute);
    sums.count(failed, attempt);
  }

  /** Undefined without a request in that minute. */
  at(minute: number): AttemptSums | undefined {
    const sums = this.#minutes[minute % HISTORY_MINUTES];
    return sums?.minute === minute ? sums : undefined;
  }
}

/** Sums over attempts, with a histogram of fixed size. */
export class AttemptSums {
  /** Minutes since the epoch. */
  minute: number;
  requests = 0;
  errors = 0;
  #tokens = 0;
  #streamMs = 0;
  #promptTokens = 0;
  #cachedTokens = 0;
  readonly #firstBytes = new Uint32Array(STEPS.number);

  constructor(minute: number) {
    this.minute = minute;
  }

  restart(minute: number): void {
    this.minute = minute;
    this.requests = 0;
    this.errors = 0;
    this.#tokens = 0;
    this.#streamMs = 0;
    this.#promptTokens = 0;
    this.#cachedTokens = 0;
    this.#firstBytes.fill(0);
  }

  count(failed: boolean, { firstByteMs, tokens, streamMs, promptTokens, cachedTokens }: AttemptCounts): void {
    this.#promptTokens += promptTokens;
    this.#cachedTokens += cachedTokens;
    this.requests += 1;
    if (failed) this.errors += 1;
    if (firstByteMs >= 0) this.#countFirstByte(stepOf(firstByteMs), 1);
    if (tokens > 0 && streamMs > 0) {
      this.#tokens += tokens;
      this.#streamMs += streamMs;
    }
  }

  add(others: AttemptSums): void {
    this.requests += others.requests;
    this.errors += others.errors;
    this.#tokens += others.#tokens;
    this.#streamMs += others.#streamMs;
    this.#promptTokens += others.#promptTokens;
    this.#cachedTokens += others.#cachedTokens;
    for (const [step, times] of others.#firstBytes.entries()) this.#countFirstByte(step, times);
  }

  stats(): AttemptStats {
    const { requests, errors } = this;
    const p50 = this.#percentile(0.5);
    const p95 = this.#percentile(0.95);
    return {
      requests,
      errors,
      ...(requests > 0 && { errorRate: rounded(errors / requests, 4) }),
      ...(p50 !== undefined && { firstByteP50Ms: p50 }),
      ...(p95 !== undefined && { firstByteP95Ms: p95 }),
      ...(this.#promptTokens > 0 && { promptTokens: this.#promptTokens, cachedTokens: this.#cachedTokens }),
      ...(this.#streamMs > 0 && { tokensPerSecond: rounded((this.#tokens / this.#streamMs) * 1000, 1) }),
    };
  }

  #countFirstByte(step: number, times: number): void {
    this.#firstBytes[step] = (this.#firstBytes[step] ?? 0) + times;
  }

  /** The upper end of the step that holds it. */
  #percentile(share: number): number | undefined {
    const total = this.#firstBytes.reduce((sum, times) => sum + times, 0);
    let seen = 0;
    for (const [step, times] of this.#firstBytes.entries()) {
      seen += times;
      if (seen > 0 && seen >= total * share) return endOfStep(step);
    }
    return undefined;
  }
}

/** The sums of some histories over the minutes that end now. */
export function sumsOf(histories: readonly TargetHistory[], now: number, minutes: number): AttemptSums {
  const last = Math.floor(now / MINUTE_MS);
  const sums = new AttemptSums(last);
  for (let minute = last - minutes + 1; minute <= last; minute++) {
    for (const history of histories) {
      const found = history.at(minute);
      if (found) sums.add(found);
    }
  }
  return sums;
}

/** The sums of each minute with requests, oldest first. */
export function minutesOf(histories: readonly TargetHistory[], now: number): AttemptSums[] {
  return Array.from({ length: HISTORY_MINUTES }, (_none, n) =>
    sumsOf(histories, now - (HISTORY_MINUTES - 1 - n) * MINUTE_MS, 1),
  ).filter(({ requests }) => requests > 0);
}

export function startOf({ minute }: AttemptSums): Date {
  return new Date(minute * MINUTE_MS);
}

function stepOf(ms: number): number {
  const { firstMs, perDoubling, number } = STEPS;
  if (ms <= firstMs) return 0;
  return Math.min(Math.ceil(Math.log2(ms / firstMs) * perDoubling), number - 1);
}

function endOfStep(step: number): number {
  return Math.round(STEPS.firstMs * 2 ** (step / STEPS.perDoubling));
}

function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}
