import type { EjectedTarget, TargetChange } from '../ledger/contract/fleet-view.ts';

/** The circuit breaker of a target, as the fleet sees it. */
export interface FleetBreaker {
  /** Of provider and target. */
  readonly name: string;
  /** When it is probed, in ms since the epoch; 0 if it is healthy. */
  readonly retryAt: number;
  /** In a row. */
  readonly ejections: number;
  readonly isProbing: boolean;
  /** For all accounts, by this process or another. */
  readonly isEjectedForAll: boolean;
  /** Another process ejected it, or this one did. */
  heardEjected(retryAt: number, ejections: number, mayProbe: boolean): void;
  /** It works for another process. */
  heardRecovered(now: number): void;
  /** Nothing is known of other processes. */
  heardNothing(): void;
}

/** Which targets are ejected for all accounts, in every process of a fleet. */
export class FleetHealth {
  readonly #breakers = new Map<string, FleetBreaker>();
  #changed = new Set<FleetBreaker>();
  /** Not answered yet. */
  #reported: ReadonlySet<FleetBreaker> = new Set();
  /** By the last word of the fleet. */
  #ejected: ReadonlyMap<string, EjectedTarget> = new Map();
  #heardAt = 0;
  /** Targets that an operator has readmitted, which the fleet doesn't know yet; and those of them that were reported. */
  readonly #readmitted = new Set<string>();
  #reportedReadmitted: readonly string[] = [];

  /** A target is used for the first time, or again after a change of its provider. */
  add(breaker: FleetBreaker): void {
    this.#breakers.set(breaker.name, breaker);
    const known = this.#ejected.get(breaker.name);
    if (known && !this.#readmitted.has(breaker.name))
      breaker.heardEjected(this.#heardAt + known.retryInMs, known.ejections, known.mayProbe);
  }

  /** The breaker was ejected for all accounts, or recovered. */
  changed(breaker: FleetBreaker): void {
    this.#changed.add(breaker);
  }

  /** An operator has readmitted the target, which this process may never have used. @param name - as of its breaker */
  readmitted(name: string): void {
    this.#readmitted.add(name);
  }

  /** What changed since the last report. */
  report(now: number): TargetChange[] {
    this.#reportedReadmitted = [...this.#readmitted];
    const changes = this.#reportedReadmitted.map((target): TargetChange => ({ target, type: 'recovered' }));
    for (const { name: target, retryAt, ejections } of this.#changed) {
      const retryInMs = Math.max(0, retryAt - now);
      changes.push(
        retryAt === 0 ? { target, type: 'recovered' } : { target, type: 'ejected', retryInMs, ejections },
      );
    }
    this.#reported = this.#changed;
    this.#changed = new Set();
    for (const target of this.#ejected.keys()) {
      if (this.#breakers.get(target)?.isProbing) changes.push({ target, type: 'probing' });
    }
    return changes;
  }

  hear(ejected: readonly EjectedTarget[], now: number): void {
    for (const name of this.#reportedReadmitted) this.#readmitted.delete(name);
    const before = this.#ejected;
    this.#ejected = new Map(ejected.map((each) => [each.target, each]));
    this.#heardAt = now;
    for (const [target, { retryInMs, ejections, mayProbe }] of this.#ejected) {
      const breaker = this.#breakers.get(target);
      // The next report has what changed meanwhile.
      if (breaker && !this.#changed.has(breaker)) breaker.heardEjected(now + retryInMs, ejections, mayProbe);
    }
    for (const target of before.keys()) {
      const breaker = this.#ejected.has(target) ? undefined : this.#breakers.get(target);
      if (breaker && !this.#changed.has(breaker)) breaker.heardRecovered(now);
    }
  }

  /** The report was not answered. Each process probes by itself, and says later what is ejected. */
  alone(): void {
    this.#ejected = new Map();
    for (const breaker of this.#reported) this.#changed.add(breaker);
    for (const breaker of this.#breakers.values()) {
      breaker.heardNothing();
      if (breaker.isEjectedForAll) this.#changed.add(breaker);
    }
  }
}
