import { randomUUID } from 'node:crypto';

import type {
  FleetView,
  HealthReport,
  HealthState,
  LimitWord,
  NewSlot,
  ServedTurn,
  SlotReport,
  SlotState,
  TurnReport,
  TurnState,
} from '../../contract/fleet-view.ts';
import { shareTurns } from './lua/share-turns.ts';
import { syncHealth } from './lua/sync-health.ts';
import { syncSlot } from './lua/sync-slot.ts';
import type { ScriptRunner } from './script-runner.ts';

/** A hash for each slot, which expires a minute after its last use, one of ejected targets and used-up limits, and a list of turns. */
export class RedisFleetView implements FleetView {
  readonly #runner: ScriptRunner;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  sync(report: SlotReport): Promise<SlotState | NewSlot> {
    const { slot, member, epoch, seq, bucketMs, leaseMs, limits, used, wanted, sent, words } = report;
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
        String(sent.requests),
        String(sent.tokens),
        ...wordFields(words.requests),
        ...wordFields(words.tokens),
        ...used.flatMap(({ agoMs, requests, tokens }) => [agoMs, requests, tokens].map(String)),
      ],
    );
  }

  syncHealth({ member, leaseMs, changes, exhausted }: HealthReport): Promise<HealthState> {
    return this.#runner.run(
      syncHealth,
      [this.#runner.keys.health()],
      [
        this.#runner.clock(),
        member,
        String(leaseMs),
        ...changes.flatMap((each) =>
          each.type === 'ejected'
            ? [each.target, each.type, String(each.retryInMs), String(each.ejections)]
            : [each.target, each.type, '0', '0'],
        ),
        ...exhausted.flatMap(({ slot, forMs }) => [slot, 'exhausted', String(forMs), '0']),
      ],
    );
  }

  async shareTurns({ member, since, turns }: TurnReport): Promise<TurnState> {
    const told = turns.flatMap(({ account, turn, provider, model, key, forMs }) => [
      String(Math.ceil(forMs)),
      JSON.stringify([account, turn, provider, model, key]),
    ]);
    const state = await this.#runner.run(
      shareTurns,
      [this.#runner.keys.turns()],
      [this.#runner.clock(), member, String(since), ...told],
    );
    return { ...state, turns: state.turns.map(([forMs, text]) => turnOf(text, Number(forMs))) };
  }
}

function wordFields(word: LimitWord | undefined): string[] {
  return word ? [word.left, word.at ?? '', word.forMs].map(String) : ['', '', ''];
}

const ROOMS = ['requests', 'tokens', 'running'] as const;

/** As it is written above. */
type TurnFields = [account: string, turn: number, provider: string, model: string, key: string | null];

function turnOf(text: string, forMs: number): ServedTurn {
  const [account, turn, provider, model, key]: TurnFields = JSON.parse(text);
  return { account, turn, provider, model, key: key ?? undefined, forMs };
}
