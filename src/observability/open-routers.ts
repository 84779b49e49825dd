import type { RouterGauges, TargetStatus } from './hooks.ts';

/** What the gauges of a target read. */
export type TargetGauges = Pick<TargetStatus, 'provider' | 'model' | 'state' | 'failuresInARow' | 'running'>;

const FROM_BEST: readonly TargetStatus['state'][] = ['healthy', 'probing', 'ejected'];

/** The routers whose gauges a metric reads, without those that were closed. */
export class OpenRouters {
  #routers: readonly RouterGauges[] = [];

  add(router: RouterGauges): void {
    this.#routers = [...this.all(), router];
  }

  all(): readonly RouterGauges[] {
    if (this.#routers.some((router) => router.isClosed())) {
      this.#routers = this.#routers.filter((router) => !router.isClosed());
    }
    return this.#routers;
  }

  /** A value of all of them together. */
  sum(read: (router: RouterGauges) => number): number {
    return this.all().reduce((total, router) => total + read(router), 0);
  }

  /** Their targets: one that several have has the requests of all, and the worst of their states. */
  targets(): readonly TargetGauges[] {
    const targets = new Map<string, TargetGauges>();
    for (const target of this.all().flatMap((router) => router.health())) {
      const name = JSON.stringify([target.provider, target.model]);
      const known = targets.get(name);
      targets.set(name, known ? together(known, target) : target);
    }
    return [...targets.values()];
  }
}

function together(one: TargetGauges, other: TargetGauges): TargetGauges {
  const isWorse = FROM_BEST.indexOf(other.state) > FROM_BEST.indexOf(one.state);
  return {
    ...one,
    state: isWorse ? other.state : one.state,
    failuresInARow: Math.max(one.failuresInARow, other.failuresInARow),
    running: one.running + other.running,
  };
}
