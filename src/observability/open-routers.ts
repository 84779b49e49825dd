import type { RouterGauges } from './hooks.ts';

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
}
