import { randomUUID } from 'node:crypto';

import type { FleetView, NewSlot, SlotReport, SlotState } from '../../contract/fleet-view.ts';
import { syncSlot } from './lua/sync-slot.ts';
import type { ScriptRunner } from './script-runner.ts';

/** A hash for each slot, which expires when nobody has used it for a minute. */
export class RedisFleetView implements FleetView {
  readonly #runner: ScriptRunner;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  sync(report: SlotReport): Promise<SlotState | NewSlot> {
    const { slot, member, epoch, seq, bucketMs, leaseMs, limits, used, wanted } = report;
    return this.#runner.run(
      syncSlot,
      [this.#runner.keys.slot(slot)],
      [
        this.#runner.clock(),
        epoch,
        randomUUID(),
        member,
        String(seq),
        String(bucketMs),
        String(leaseMs),
        ...ROOMS.map((name) => String(limits[name] ?? '')),
        ...ROOMS.map((name) => String(wanted[name])),
        String(report.leastTokens),
        String(report.running),
        report.isLeaving ? '1' : '0',
        ...used.flatMap(({ agoMs, requests, tokens }) => [agoMs, requests, tokens].map(String)),
      ],
    );
  }
}

const ROOMS = ['requests', 'tokens', 'running'] as const;
