import type { AttemptStats } from '../observability/provider-status.ts';
import { Histogram, type HistogramSteps } from './histogram.ts';

/** How far back a history goes. */
const HISTORY_MINUTES = 60;
const MINUTE_MS = 60_000;
/** What is recent, for operators and for sorting. */
export const RECENT_MINUTES = 5;

/** Of times to the first event: from 5 ms to five minutes. */
const LATENCIES: HistogramSteps = { first: 5, perDoubling: 4, number: 64 };
/** Of tokens a second: from 1 to 16,000. */
const SPEEDS: HistogramSteps = { first: 1, perDoubling: 4, number: 57 };

/** What an attempt adds to sums. */
export interface AttemptCounts {
  readonly isStream: boolean;
  /** To the first event of a stream, or the first byte of another answer. Negative without an answer. */
  readonly latencyMs: number;
  /** Of an answer that ended well, read by its client as it came; 0 if not known. */
  readonly tokens: number;
  /** Of a stream from its first event to its end; of an answer that came at once from the request to its end. */
  readonly outputMs: number;
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

/** Sums over attempts, with histograms of fixed size. */
export class AttemptSums {
  /** Minutes since the epoch. */
  minute: number;
  requests = 0;
  errors = 0;
  #tokens = 0;
  #outputMs = 0;
  #promptTokens = 0;
  #cachedTokens = 0;
  /** Of streams. Each histogram is made for the first value. */
  #streams: Histogram | undefined;
  /** Of other answers, which begin when they are complete. */
  #wholes: Histogram | undefined;
  #speeds: Histogram | undefined;

  constructor(minute: number) {
    this.minute = minute;
  }

  restart(minute: number): void {
    this.minute = minute;
    this.requests = 0;
    this.errors = 0;
    this.#tokens = 0;
    this.#outputMs = 0;
    this.#promptTokens = 0;
    this.#cachedTokens = 0;
    for (const each of [this.#streams, this.#wholes, this.#speeds]) each?.clear();
  }

  count(failed: boolean, attempt: AttemptCounts): void {
    const { isStream, latencyMs, tokens, outputMs } = attempt;
    this.#promptTokens += attempt.promptTokens;
    this.#cachedTokens += attempt.cachedTokens;
    this.requests += 1;
    if (failed) this.errors += 1;
    if (latencyMs >= 0) {
      if (isStream) (this.#streams ??= new Histogram(LATENCIES)).count(latencyMs);
      else (this.#wholes ??= new Histogram(LATENCIES)).count(latencyMs);
    }
    if (tokens > 0 && outputMs > 0) {
      this.#tokens += tokens;
      this.#outputMs += outputMs;
      (this.#speeds ??= new Histogram(SPEEDS)).count((tokens / outputMs) * 1000);
    }
  }

  add(others: AttemptSums): void {
    this.requests += others.requests;
    this.errors += others.errors;
    this.#tokens += others.#tokens;
    this.#outputMs += others.#outputMs;
    this.#promptTokens += others.#promptTokens;
    this.#cachedTokens += others.#cachedTokens;
    if (others.#streams) (this.#streams ??= new Histogram(LATENCIES)).add(others.#streams);
    if (others.#wholes) (this.#wholes ??= new Histogram(LATENCIES)).add(others.#wholes);
    if (others.#speeds) (this.#speeds ??= new Histogram(SPEEDS)).add(others.#speeds);
  }

  /** Times to the first event, in ms: of streams alone if there are any, as other answers begin when they are complete. */
  get latencies(): Histogram | undefined {
    return this.#streams && this.#streams.total > 0 ? this.#streams : this.#wholes;
  }

  /** Tokens a second of answers that ended well. */
  get speeds(): Histogram | undefined {
    return this.#speeds;
  }

  stats(): AttemptStats {
    const { requests, errors } = this;
    const answers = new Histogram(LATENCIES);
    for (const each of [this.#streams, this.#wholes]) if (each) answers.add(each);
    const p50 = answers.percentile(0.5);
    const p95 = answers.percentile(0.95);
    return {
      requests,
      errors,
      ...(requests > 0 && { errorRate: rounded(errors / requests, 4) }),
      ...(p50 !== undefined && { firstByteP50Ms: p50 }),
      ...(p95 !== undefined && { firstByteP95Ms: p95 }),
      ...(this.#promptTokens > 0 && { promptTokens: this.#promptTokens, cachedTokens: this.#cachedTokens }),
      ...(this.#outputMs > 0 && { tokensPerSecond: rounded((this.#tokens / this.#outputMs) * 1000, 1) }),
    };
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

/** The median of a target's last answers. */
export interface Measure {
  /** Of the last five minutes, or of the last hour if these say little; undefined without an answer. */
  readonly median: number | undefined;
  /** The last five minutes say enough. */
  readonly isRecent: boolean;
}

/** How fast a target answers. */
export interface Speed {
  /** To the first event, in ms. */
  readonly latency: Measure;
  /** Tokens a second. */
  readonly throughput: Measure;
  /** It had a request in the last hour. */
  readonly wasTried: boolean;
}

const UNKNOWN: Measure = { median: undefined, isRecent: false };

/** The speed of a target without a history. */
export const UNKNOWN_SPEED: Speed = { latency: UNKNOWN, throughput: UNKNOWN, wasTried: false };

/** Answers of the last five minutes that say enough. */
const ENOUGH = 3;

/** How fast a target answers, of its last five minutes, or of its last hour. */
export function speedOf(history: TargetHistory, now: number): Speed {
  const recent = sumsOf([history], now, RECENT_MINUTES);
  let hour: AttemptSums | undefined;
  const measure = (of: (sums: AttemptSums) => Histogram | undefined): Measure => {
    const last = of(recent);
    if (last && last.total >= ENOUGH) return { median: last.percentile(0.5), isRecent: true };
    hour ??= sumsOf([history], now, HISTORY_MINUTES);
    return { median: of(hour)?.percentile(0.5), isRecent: false };
  };
  const latency = measure((sums) => sums.latencies);
  const throughput = measure((sums) => sums.speeds);
  return { latency, throughput, wasTried: recent.requests > 0 || (hour?.requests ?? 0) > 0 };
}

function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}
