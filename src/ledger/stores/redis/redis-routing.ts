import type { CostBatch, RoutingChange, RoutingState, RoutingStore } from '../../contract/routing.ts';
import { checkCostBatch, checkRoutingChange } from '../../engine/validate-routing.ts';
import { addCosts, readRouting, writeRouting } from './lua/routing.ts';
import type { ScriptRunner } from './script-runner.ts';

/** What operators change of the routing, in two hashes of one slot. */
export class RedisRouting implements RoutingStore {
  readonly #runner: ScriptRunner;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  async read(known = ''): Promise<RoutingState> {
    return this.#runner.run(readRouting, this.#runner.keys.routing(), [known]);
  }

  async write(change: RoutingChange): Promise<boolean> {
    checkRoutingChange(change);
    const { from, to, document } = change;
    const { reply } = await this.#runner.runDurably(writeRouting, this.#runner.keys.routing(), [
      from,
      to,
      document,
    ]);
    return reply;
  }

  async addCosts(batch: CostBatch): Promise<void> {
    checkCostBatch(batch);
    const { writer, number, costs } = batch;
    await this.#runner.run(addCosts, this.#runner.keys.routing(), [
      this.#runner.clock(),
      writer,
      String(number),
      ...costs.flatMap(({ provider, from, until, amount }) => [
        `${from} ${until} ${provider}`,
        String(amount),
      ]),
    ]);
  }
}
