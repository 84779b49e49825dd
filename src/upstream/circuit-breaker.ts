import { Tally } from '../metering/evidence.ts';
import type { Target } from '../catalog/model.ts';
import type { HealthChange, TargetStatus } from '../observability/hooks.ts';
import { PerTarget } from '../catalog/per-target.ts';
import type { HealthChecks } from '../options/resolve-options.ts';

export interface CircuitBreakerOptions {
  /** Undefined: no target is ever set aside; times are kept all the same. */
  readonly settings: HealthChecks | undefined;
  readonly emit: (change: HealthChange) => void;
  /** From 0 to below 1. */
  readonly random?: () => number;
}

/** Cool-downs differ by up to this share, so that processes don't all come back at once. */
const JITTER = 0.2;

/** What all requests of a process know of the targets they go to. */
export class CircuitBreakers {
  readonly #byTarget: PerTarget<CircuitBreaker>;

  constructor(options: CircuitBreakerOptions) {
    this.#byTarget = new PerTarget((target) => new CircuitBreaker(target, options));
  }

  /** The same for two targets that are the same model of the same provider. */
  of(target: Target): CircuitBreaker {
    return this.#byTarget.of(target);
  }

  /** Of those of these targets that were ever asked, each once. */
  statuses(targets: readonly Target[]): TargetStatus[] {
    const now = Date.now();
    const asked = targets.flatMap((target) => this.#byTarget.find(target) ?? []);
    return [...new Set(asked)].map((health) => health.status(now));
  }
}

/**
 * One target: how it did lately, and whether it is to be asked.
 *
 * A customer can make requests that fail: those of one account set it aside for that account alone, and count for others up to half of
 * what is needed.
 */
export class CircuitBreaker {
  readonly #target: Target;
  readonly #options: CircuitBreakerOptions;
  readonly #latency = new PeakAverage();
  #failures = 0;
  /** Who met with them. */
  readonly #failingAccounts: Tally;
  #ejections = 0;
  #retryAt = 0;
  /** Who tried it last, in vain, and until when others come first. */
  #lastProbe = { account: '', until: 0 };
  /** The one that tries whether the target is back. */
  #probe: AttemptReport | undefined;
  #running = 0;

  constructor(target: Target, options: CircuitBreakerOptions) {
    this.#target = target;
    this.#options = options;
    this.#failingAccounts = new Tally(options.settings?.failures ?? Infinity);
  }

  /** Whether it may be asked before others: healthy for this account, or its cool-down is over and nobody is trying it. */
  isAvailable(now: number, account: string): boolean {
    if (this.#retryAt === 0 || !this.#failingAccounts.countsFor(account)) return true;
    return this.#mayProbe(now, account) && this.#probe === undefined;
  }

  /** When it is tried again, in ms since the epoch; 0 when it is healthy. */
  get retryAt(): number {
    return this.#retryAt;
  }

  /** What waiting for it costs, in ms times requests; 0 for one of which nothing is known, so that it is tried. */
  load(now: number): number {
    return this.#latency.at(now) * (this.#running + 1);
  }

  /** A request of this account goes to it now. What came of it is told to what this returns. */
  startAttempt(now: number, account: string): AttemptReport {
    const asked = new AttemptReport(this, now, account);
    if (this.#retryAt !== 0 && this.#mayProbe(now, account)) this.#probe ??= asked;
    this.#running += 1;
    return asked;
  }

  answered(asked: AttemptReport, now: number): void {
    this.#latency.add(now - asked.startedAt, now);
    this.#failures = 0;
    this.#failingAccounts.clear();
    if (this.#probe === asked) this.#probe = undefined;
    if (this.#retryAt === 0) return;
    this.#retryAt = 0;
    this.#ejections = 0;
    this.#emit('target_recovered');
  }

  failed(asked: AttemptReport, now: number, retryAfterMs = 0): void {
    const { settings, random = Math.random } = this.#options;
    const wasProbe = this.#probe === asked;
    if (wasProbe) this.#probe = undefined;
    this.#failures += 1;
    if (!settings) return;
    this.#failingAccounts.add(asked.account);
    // One that was asked before the ejection says nothing new.
    if (!wasProbe && (this.#retryAt !== 0 || !this.#failingAccounts.countsFor(asked.account))) return;
    const { coolDownMs, maxCoolDownMs } = settings;
    const doubled = Math.min(maxCoolDownMs, coolDownMs * 2 ** this.#ejections);
    const jittered = doubled * (1 - JITTER * random());
    this.#ejections += 1;
    const waitMs = Math.max(Math.round(jittered), Math.min(retryAfterMs, maxCoolDownMs));
    this.#retryAt = now + waitMs;
    if (wasProbe) this.#lastProbe = { account: asked.account, until: this.#retryAt + waitMs };
    this.#emit('target_ejected');
  }

  over(asked: AttemptReport): void {
    this.#running -= 1;
    if (this.#probe === asked) this.#probe = undefined;
  }

  /** Whether its cool-down is over; where it counts for all, whose try has failed lets others try first. */
  #mayProbe(now: number, account: string): boolean {
    const { account: last, until } = this.#lastProbe;
    return now >= this.#retryAt && (account !== last || now >= until || !this.#failingAccounts.countsForAll);
  }

  status(now: number): TargetStatus {
    const { provider, healthKey: model } = this.#target;
    const firstByteMs = this.#latency.at(now);
    return {
      provider: provider.name,
      model,
      state: this.#probe ? 'probing' : this.#retryAt === 0 ? 'healthy' : 'ejected',
      failuresInARow: this.#failures,
      ...(this.#retryAt !== 0 && { retryAt: this.#retryAt }),
      ...(firstByteMs > 0 && { firstByteMs: Math.round(firstByteMs) }),
      running: this.#running,
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

/** One request to a target, and what is told of it: how it went, once, and that it is over. */
export class AttemptReport {
  /** When it went out, in ms since the epoch. */
  readonly startedAt: number;
  /** Whose it is. */
  readonly account: string;
  readonly #breaker: CircuitBreaker;
  #isReported = false;
  #isOver = false;

  constructor(health: CircuitBreaker, at: number, account: string) {
    this.#breaker = health;
    this.startedAt = at;
    this.account = account;
  }

  /** The target did its part: an answer began, or the request itself was refused. */
  answered(now: number): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#breaker.answered(this, now);
  }

  /** @param retryAfterMs - how long the target asked to be left alone, if it did */
  failed(now: number, retryAfterMs?: number): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#breaker.failed(this, now, retryAfterMs);
  }

  /** An answer that had begun well broke. */
  broke(now: number): void {
    this.#breaker.failed(this, now);
  }

  over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#breaker.over(this);
  }
}

/** How slowly an average forgets, in ms. */
const DECAY_MS = 10_000;

/**
 * A moving average that follows a rise at once and a fall slowly, as Finagle's
 * peak EWMA: what became slow is avoided before its average says so.
 */
class PeakAverage {
  #value = 0;
  #at = 0;

  add(value: number, now: number): void {
    if (value >= this.#value) this.#value = value;
    else {
      const kept = Math.exp((this.#at - now) / DECAY_MS);
      this.#value = this.#value * kept + value * (1 - kept);
    }
    this.#at = now;
  }

  /** Fades while nothing is heard, so that what was slow once is tried again. */
  at(now: number): number {
    return this.#value * Math.exp(Math.min(0, this.#at - now) / (6 * DECAY_MS));
  }
}
