import { backoff } from '../async/backoff.ts';
import { Tally } from '../metering/evidence.ts';
import { type Target, PerTarget } from '../catalog/model.ts';
import type { Usage } from '../metering/usage-dialects.ts';
import type { HealthChange, TargetStatus } from '../observability/hooks.ts';
import type { EjectionByHand, ProviderTargetStatus } from '../observability/provider-status.ts';
import type { HealthChecks } from '../options/resolve-options.ts';
import { EjectionsByHand } from './ejections-by-hand.ts';
import type { FleetBreaker, FleetHealth } from './fleet-health.ts';
import {
  type AttemptSums,
  RECENT_MINUTES,
  type Speed,
  speedOf,
  sumsOf,
  TargetHistory,
  UNKNOWN_SPEED,
} from './target-history.ts';
import { WeightsByHand } from './weights-by-hand.ts';

export interface CircuitBreakerOptions {
  /** Undefined: no target is ever ejected; latencies are still measured. */
  readonly settings: HealthChecks | undefined;
  readonly emit: (change: HealthChange) => void;
  /** Undefined: other processes learn nothing. */
  readonly fleet?: FleetHealth | undefined;
  /** Returns 0 to below 1. */
  readonly random?: () => number;
}

/** Jitter of cool-downs, as a share, so that processes don't all come back at once. */
const JITTER = 0.2;

/** How long a measured speed holds. */
const SPEED_MS = 1000;
/** With fewer requests, a share of failures says nothing. */
const MIN_REQUESTS = 10;
/** Share of failed requests from which a target is degraded. */
const DEGRADED = 0.1;

/** The circuit breakers of all targets, shared by all requests of a router. */
export class CircuitBreakers {
  readonly #byTarget: PerTarget<CircuitBreaker>;
  readonly byHand: EjectionsByHand;
  readonly weights: WeightsByHand = new WeightsByHand();

  constructor(options: CircuitBreakerOptions) {
    this.byHand = new EjectionsByHand(options.emit);
    this.#byTarget = new PerTarget((target) => {
      const breaker = new CircuitBreaker(target, options);
      options.fleet?.add(breaker);
      return breaker;
    });
  }

  /** The same breaker for two targets with the same provider and model. */
  of(target: Target): CircuitBreaker {
    return this.#byTarget.of(target);
  }

  /** Undefined if the target was never considered. */
  find(target: Target): CircuitBreaker | undefined {
    return this.#byTarget.find(target);
  }

  /** Statuses of those targets that were ever used, each once. */
  statuses(targets: readonly Target[]): TargetStatus[] {
    const now = Date.now();
    const breakers = new Map<CircuitBreaker, EjectionByHand | undefined>();
    for (const target of targets) {
      const breaker = this.#byTarget.find(target);
      if (breaker && !breakers.has(breaker)) breakers.set(breaker, this.byHand.of(target, now));
    }
    return [...breakers].map(([breaker, byHand]) => breaker.status(byHand));
  }
}

/** As the fleet calls the breaker of a target. */
export function breakerName({ provider, healthKey }: Target): string {
  return JSON.stringify([provider.name, healthKey]);
}

/** The circuit breaker of one target, with its latency.
 *
 * A customer can send requests that fail: failures of one account eject the target for that account only, and count for
 * other accounts up to half of the threshold.
 */
export class CircuitBreaker implements FleetBreaker {
  readonly #target: Target;
  readonly #options: CircuitBreakerOptions;
  readonly #latency = new PeakAverage();
  #failures = 0;
  /** Accounts with recent failures. */
  readonly #failingAccounts: Tally;
  #ejections = 0;
  #retryAt = 0;
  /** When `#retryAt` was set. */
  #ejectedAt = 0;
  /** When it was first used, was ejected, or recovered, in ms since the epoch; 0 before. */
  #since = 0;
  /** The first of the failures in a row. */
  #failingSince = 0;
  /** Undefined before the first request. */
  #history: TargetHistory | undefined;
  /** Of a second at most, or until the next answer if it says little. */
  #speed: { readonly speed: Speed; readonly at: number } | undefined;
  /** The account of the last failed probe, and until when other accounts may probe first. */
  #lastProbe = { account: '', until: 0 };
  /** The running probe of an ejected target. */
  #probe: AttemptReport | undefined;
  #running = 0;
  /** The fleet says that it is ejected for all. */
  #isFleetsEjection = false;
  /** Another process probes, or will. */
  #isProbedElsewhere = false;

  constructor(target: Target, options: CircuitBreakerOptions) {
    this.#target = target;
    this.#options = options;
    this.#failingAccounts = new Tally(options.settings?.failures ?? Infinity);
  }

  /** Whether the target is healthy for this account, or may be probed: its cool-down is over and no probe runs. */
  isAvailable(now: number, account: string): boolean {
    if (this.#retryAt === 0 || !(this.#isFleetsEjection || this.#failingAccounts.countsFor(account)))
      return true;
    return this.#mayProbe(now, account) && this.#probe === undefined;
  }

  /** When an ejected target is probed, in ms since the epoch; 0 if it is healthy. */
  get retryAt(): number {
    return this.#retryAt;
  }

  /** Expected wait: latency in ms times running requests; 0 for an unknown target, so that it is tried. */
  get load(): number {
    return this.#latency.now * (this.#running + 1);
  }

  /** What it did in the minutes that end now, at most 60. */
  sums(now: number, minutes: number): AttemptSums {
    return sumsOf(this.#history ? [this.#history] : [], now, minutes);
  }

  /** How fast it answers. */
  speed(now: number): Speed {
    if (!this.#history) return UNKNOWN_SPEED;
    if (!this.#speed || now >= this.#speed.at + SPEED_MS || now < this.#speed.at) {
      this.#speed = { speed: speedOf(this.#history, now), at: now };
    }
    return this.#speed.speed;
  }

  /** It has a running request. */
  get isRunning(): boolean {
    return this.#running > 0;
  }

  /** Registers a request of this account. The caller reports its result to the returned object. */
  startAttempt(now: number, account: string): AttemptReport {
    const report = new AttemptReport(this, account);
    if (this.#retryAt !== 0 && this.#mayProbe(now, account)) this.#probe ??= report;
    this.#running += 1;
    this.#history ??= new TargetHistory();
    if (this.#since === 0) this.#since = now;
    return report;
  }

  /** Undefined before the first request. */
  get history(): TargetHistory | undefined {
    return this.#history;
  }

  answered(report: AttemptReport, now: number): void {
    this.#latency.add(performance.now() - report.sentAt);
    this.#failures = 0;
    this.#failingAccounts.clear();
    if (this.#probe === report) this.#probe = undefined;
    if (this.#retryAt !== 0) this.#recover(now);
  }

  /** An operator says that the target works. */
  readmit(now: number): void {
    this.#failures = 0;
    this.#failingAccounts.clear();
    if (this.#retryAt !== 0) this.#recover(now);
  }

  get name(): string {
    return breakerName(this.#target);
  }

  get ejections(): number {
    return this.#ejections;
  }

  get isProbing(): boolean {
    return this.#probe !== undefined;
  }

  get isEjectedForAll(): boolean {
    return this.#retryAt !== 0 && (this.#isFleetsEjection || this.#failingAccounts.countsForAll);
  }

  heardEjected(retryAt: number, ejections: number, mayProbe: boolean): void {
    if (!this.#options.settings) return;
    const isNews = this.#retryAt === 0;
    this.#isFleetsEjection = true;
    this.#isProbedElsewhere = !mayProbe;
    this.#retryAt = Math.round(retryAt);
    this.#ejectedAt = Date.now();
    this.#ejections = ejections;
    if (!isNews) return;
    this.#since = this.#ejectedAt;
    this.#emit('target_ejected');
  }

  heardRecovered(now: number): void {
    if (!this.#isFleetsEjection) return;
    this.#failures = 0;
    this.#failingAccounts.clear();
    if (this.#retryAt !== 0) this.#recover(now, true);
  }

  heardNothing(): void {
    this.#isProbedElsewhere = false;
  }

  #recover(now: number, isKnown = false): void {
    this.#retryAt = 0;
    this.#ejections = 0;
    this.#since = now;
    this.#isFleetsEjection = false;
    this.#isProbedElsewhere = false;
    if (!isKnown) this.#options.fleet?.changed(this);
    this.#emit('target_recovered');
  }

  failed(report: AttemptReport, now: number, retryAfterMs = 0): void {
    const { settings, random = Math.random } = this.#options;
    const wasProbe = this.#probe === report;
    if (wasProbe) this.#probe = undefined;
    if (this.#failures === 0) this.#failingSince = now;
    this.#failures += 1;
    if (!settings) return;
    this.#failingAccounts.add(report.account);
    // A failure of a request from before the ejection adds nothing.
    if (!wasProbe && (this.#retryAt !== 0 || !this.#failingAccounts.countsFor(report.account))) {
      if (this.isEjectedForAll && !this.#isFleetsEjection) this.#options.fleet?.changed(this);
      return;
    }
    const { coolDownMs, maxCoolDownMs } = settings;
    const delay = backoff(this.#ejections, {
      firstMs: coolDownMs,
      maxMs: maxCoolDownMs,
      jitter: JITTER,
      random,
    });
    if (this.#retryAt === 0) this.#since = now;
    this.#ejections += 1;
    const waitMs = Math.max(Math.round(delay), Math.min(retryAfterMs, maxCoolDownMs));
    this.#retryAt = now + waitMs;
    this.#ejectedAt = now;
    if (wasProbe) this.#lastProbe = { account: report.account, until: this.#retryAt + waitMs };
    if (this.isEjectedForAll) this.#options.fleet?.changed(this);
    this.#emit('target_ejected');
  }

  over(report: AttemptReport): void {
    this.#running -= 1;
    if (this.#probe === report) this.#probe = undefined;
    if (report.result === 'none') return;
    this.#history?.add(Date.now(), report.result === 'failed', report);
    const { latency, throughput } = this.#speed?.speed ?? UNKNOWN_SPEED;
    if (!latency.isRecent || !throughput.isRecent) this.#speed = undefined;
  }

  /** Whether the cool-down is over. If the target is ejected for all, the account of a failed probe gives way to others. */
  #mayProbe(now: number, account: string): boolean {
    const { account: last, until } = this.#lastProbe;
    if (this.#isProbedElsewhere) return false;
    // The clock was set back, by which a cool-down would be longer.
    if (now < this.#ejectedAt) return true;
    return now >= this.#retryAt && (account !== last || now >= until || !this.#failingAccounts.countsForAll);
  }

  /** @param byHand - its ejection by an operator */
  status(byHand: EjectionByHand | undefined): TargetStatus {
    const { provider, healthKey: model } = this.#target;
    const retryAt = byHand ? byHand.until?.getTime() : this.#retryAt;
    const isEjected = byHand !== undefined || this.#retryAt !== 0;
    return {
      provider: provider.name,
      model,
      state: !isEjected ? 'healthy' : this.#probe && !byHand ? 'probing' : 'ejected',
      failuresInARow: this.#failures,
      ...(isEjected && retryAt !== undefined && { retryAt }),
      ...(this.#latency.isKnown && { firstByteMs: Math.round(this.#latency.now) }),
      running: this.#running,
    };
  }

  /** The same, with its history. */
  details(now: number, byHand: EjectionByHand | undefined): ProviderTargetStatus {
    const sums = this.sums(now, RECENT_MINUTES);
    const { requests, errors } = sums;
    const status = this.status(byHand);
    const isEjected = status.state !== 'healthy';
    const isDegraded = this.#failures > 0 || (requests >= MIN_REQUESTS && errors >= requests * DEGRADED);
    const changedAt = isDegraded && !isEjected && this.#failures > 0 ? this.#failingSince : this.#since;
    const since = byHand?.at ?? (changedAt === 0 ? undefined : new Date(changedAt));
    const { model, failuresInARow, running, retryAt } = status;
    return {
      model,
      state: isEjected ? 'ejected' : isDegraded ? 'degraded' : 'healthy',
      ...(since && { since }),
      ...(retryAt !== undefined && { retryAt: new Date(retryAt), retryInMs: Math.max(0, retryAt - now) }),
      ...(byHand && { ejection: byHand }),
      ...(isEjected && !byHand && !this.isEjectedForAll && { someAccountsOnly: true }),
      failuresInARow,
      ...(status.state === 'probing' && { probing: true }),
      running,
      recent: sums.stats(),
    };
  }

  #emit(type: HealthChange['type']): void {
    const { provider, healthKey: model } = this.#target;
    this.#options.emit({
      type,
      provider: provider.name,
      model,
      failuresInARow: this.#failures,
      ...(this.#retryAt !== 0 && { retryAt: this.#retryAt }),
    });
  }
}

type PromptUsage = Pick<Usage, 'promptTokens' | 'cachedTokens'>;

/** Reports one request to its breaker: its result, once, and its end. */
export class AttemptReport {
  readonly account: string;
  /** From `performance.now()`. */
  readonly sentAt: number = performance.now();
  readonly #breaker: CircuitBreaker;
  result: 'none' | 'answered' | 'failed' = 'none';
  isStream = false;
  /** Negative without an answer that was relayed. */
  latencyMs = -1;
  /** Tokens of an answer that ended well, as the provider counts them. */
  tokens = 0;
  /** See `AttemptCounts`. */
  outputMs = 0;
  /** Tokens of the prompt, as the provider counts them, and those of them that it read from its cache. */
  promptTokens = 0;
  cachedTokens = 0;
  #isOver = false;

  constructor(breaker: CircuitBreaker, account: string) {
    this.#breaker = breaker;
    this.account = account;
  }

  /** The target works: an answer began, or the request itself was rejected. */
  answered(now: number): void {
    if (this.result !== 'none') return;
    this.result = 'answered';
    this.#breaker.answered(this, now);
  }

  /** @param retryAfterMs - the target's `retry-after`, if it sent one */
  failed(now: number, retryAfterMs?: number): void {
    if (this.result !== 'none') return;
    this.result = 'failed';
    this.#breaker.failed(this, now, retryAfterMs);
  }

  /**
   * The answer was relayed, for the history.
   *
   * @param beganAt - its first event, or first byte if it is no stream, from `performance.now()`
   * @param tokens - as the provider counts them, if it ended well and was read as it came
   * @param usage - as the provider reported it
   */
  relayed(beganAt: number, isStream: boolean, tokens: number, usage?: PromptUsage): void {
    this.isStream = isStream;
    this.latencyMs = beganAt - this.sentAt;
    this.tokens = tokens;
    if (tokens > 0) this.outputMs = outputMs(performance.now(), isStream ? beganAt : undefined, this.sentAt);
    if (!usage) return;
    this.promptTokens = usage.promptTokens;
    this.cachedTokens = usage.cachedTokens;
  }

  /** The answer has an error in it: for the history alone, as a client can provoke some. */
  hadError(): void {
    this.result = 'failed';
  }

  /** An answer that had begun broke off. */
  broke(now: number): void {
    this.result = 'failed';
    this.#breaker.failed(this, now);
  }

  over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#breaker.over(this);
  }
}

/** A stream that comes in a smaller share of its time was made before its first event was sent. */
const STREAMED = 0.1;

/** How long an output took, all from `performance.now()`. @param firstEventAt - undefined if it is no stream */
function outputMs(now: number, firstEventAt: number | undefined, sentAt: number): number {
  const whole = now - sentAt;
  const streamed = firstEventAt === undefined ? 0 : now - firstEventAt;
  return streamed >= whole * STREAMED ? streamed : whole;
}

/** Decay time constant of the average, in ms. */
const DECAY_MS = 10_000;

/** A moving average that rises at once and falls slowly, like Finagle's peak EWMA:
 * a target that became slow is avoided before its average shows it.
 */
class PeakAverage {
  #value = 0;
  /** From `performance.now()`; negative before the first value. */
  #at = -1;

  get isKnown(): boolean {
    return this.#at >= 0;
  }

  add(value: number): void {
    const now = performance.now();
    if (value >= this.#value) this.#value = value;
    else {
      const kept = Math.exp((this.#at - now) / DECAY_MS);
      this.#value = this.#value * kept + value * (1 - kept);
    }
    this.#at = now;
  }

  /** Decays without new values, so that a target that was slow once is tried again. */
  get now(): number {
    return this.#value * Math.exp((this.#at - performance.now()) / (6 * DECAY_MS));
  }
}
