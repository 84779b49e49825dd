/**
 * `npm run sim`: runs worlds of gateways, clients, providers and a store in which much goes wrong, a seed each.
 *
 * `SEED=7 npm run sim` runs that one again, and prints all that happened; `npm run sim -- --from 1 --count 100000`
 * runs many, on every core.
 */
import { parseArgs } from 'node:util';

import { type Report, simulate } from '../test/simulation/simulate.ts';
import { simulateMany } from '../test/simulation/simulate-many.ts';

const SHOWN_LINES = 60;
const SHOWN_FAILURES = 3;

const seed = process.env['SEED'];
process.exit((await (seed === undefined ? runMany() : runOne(Number(seed)))) ? 0 : 1);

async function runOne(seed: number): Promise<boolean> {
  const report = await simulate(seed, {}, Infinity);
  console.log(report.last.join('\n'));
  console.log(verdictOf(report));
  return report.violation === undefined;
}

async function runMany(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      from: { type: 'string', default: '1' },
      count: { type: 'string', default: '10000' },
      jobs: { type: 'string' },
    },
  });
  const startedAt = performance.now();
  const sums = { events: 0, requests: 0, rollbacks: 0, virtualMs: 0 };
  const count = Number(values.count);
  let failed = 0;
  const take = (report: Report): void => {
    for (const name of ['events', 'requests', 'rollbacks', 'virtualMs'] as const) sums[name] += report[name];
    if (report.violation === undefined) return;
    failed += 1;
    if (failed <= SHOWN_FAILURES) console.log(report.last.slice(-SHOWN_LINES).join('\n'));
    console.log(verdictOf(report));
  };
  await simulateMany(
    Number(values.from),
    count,
    take,
    values.jobs === undefined ? undefined : Number(values.jobs),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const rate = (sum: number): string => Math.round(sum / seconds).toLocaleString('en');
  console.log(
    `${count} seeds, ${failed} failed; ${sums.requests} requests, ${sums.rollbacks} rollbacks. ` +
      `${seconds.toFixed(1)} s: ${rate(count)} seeds and ${rate(sums.events)} events a second, ` +
      `${rate(sums.virtualMs / 1000)} times real time.`,
  );
  return failed === 0;
}

function verdictOf({ seed, violation, hash }: Report): string {
  return violation === undefined ? `seed ${seed}: sound (${hash})` : `SEED=${seed} npm run sim: ${violation}`;
}
