import { describe, expect, it } from 'vitest';

import { PAST_BUGS } from '../simulation/past-bugs.ts';
import { type Plant, PLANTS } from '../simulation/plants.ts';
import { type Report, simulate } from '../simulation/simulate.ts';
import { simulateMany } from '../simulation/simulate-many.ts';

/** Worlds of ten minutes each. `SEED=n npm run sim` shows all that happens in one of them. */
const SEEDS = 2000;
const SHOWN_LINES = 60;
/** A bug that takes longer to be found than this is one that could come back. */
const SEEDS_PER_BUG = 400;

describe('gateways, store, clients and providers in trouble', () => {
  const counts = new Map<string, number>();

  it(`keep every invariant in ${SEEDS} worlds`, { timeout: 240_000 }, async () => {
    const failed: Report[] = [];
    await simulateMany(1, SEEDS, (report) => {
      if (report.violation !== undefined) failed.push(report);
      for (const [what, count] of report.counts) counts.set(what, (counts.get(what) ?? 0) + count);
    });
    expect(
      failed.map(({ seed, violation }) => `SEED=${seed} npm run sim: ${violation}`).join('\n'),
      shown(failed[0]),
    ).toBe('');
  });

  it.each([
    ['admit exists', 100],
    ['admit done', 50],
    ['admit stale', 50],
    ['admit rolled_back', 50],
    ['admit no_funds', 1000],
    ['admit budget', 50],
    ['admit concurrency', 100],
    ['admit revoked', 50],
    ['extend closed', 100],
    ['extend unknown', 50],
    ['settle duplicate', 1000],
    ['settle no_account', 50],
    ['void planted', 100],
    ['grant duplicate', 100],
    ['event overrun', 50],
    ['event write_off', 10],
    ['event rollback', 100],
    ['event account_lost', 50],
    ['event outbox_failed', 50],
  ])('meet all that can happen: %s', (what, least) => {
    expect(counts.get(what)).toBeGreaterThan(least);
  });

  it('do the same again for the same seed', async () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      expect((await simulate(seed)).hash).toBe((await simulate(seed)).hash);
    }
  });

  it('do something else for another seed', async () => {
    expect((await simulate(1)).hash).not.toBe((await simulate(2)).hash);
  });
});

describe('a bug that is put into them', () => {
  it.each(Object.entries({ ...PLANTS, ...PAST_BUGS }))(
    'is found: %s',
    { timeout: 60_000 },
    async (_name, plant) => {
      expect(await firstFound(plant)).toBeLessThanOrEqual(SEEDS_PER_BUG);
    },
  );
});

/** The first world that is sound without a bug and unsound with it. */
async function firstFound(plant: Plant): Promise<number> {
  const { focus = [], swarm } = plant;
  for (let seed = 1; seed <= SEEDS_PER_BUG; seed++) {
    const { violation } = await simulate(seed, plant);
    if (violation === undefined) continue;
    if ((await simulate(seed, { focus, ...(swarm && { swarm }) })).violation === undefined) return seed;
  }
  return Infinity;
}

/** What happened last in a world that failed. */
function shown(report: Report | undefined): string {
  return report
    ? `${report.last.slice(-SHOWN_LINES).join('\n')}\nSEED=${report.seed} npm run sim: ${report.violation}`
    : '';
}
