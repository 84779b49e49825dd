/**
 * `npm run sim`: runs worlds of gateways, clients, providers and a store in which much goes wrong, a seed each.
 *
 * `SEED=7 npm run sim` runs that one again, and prints all that happened; `npm run sim -- --from 1 --count 100000`
 * runs many, on every core.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

import { type Report, simulate } from '../test/simulation/simulate.ts';

const SHOWN_LINES = 60;

const seed = process.env['SEED'];
if (!isMainThread) {
  const { from, count, step } = workerData as { from: number; count: number; step: number };
  for (let next = from; next < from + count; next += step) parentPort?.postMessage(await simulate(next));
} else if (seed !== undefined) {
  const report = await simulate(Number(seed), {}, Infinity);
  console.log(report.last.join('\n'));
  console.log(verdictOf(report));
  process.exit(report.violation === undefined ? 0 : 1);
} else {
  process.exit((await runMany()) ? 0 : 1);
}

async function runMany(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      from: { type: 'string', default: '1' },
      count: { type: 'string', default: '10000' },
      jobs: { type: 'string', default: String(availableParallelism()) },
    },
  });
  const [from, count, step] = [Number(values.from), Number(values.count), Number(values.jobs)];
  const startedAt = Date.now();
  const sums = { seeds: 0, failed: 0, events: 0, requests: 0, commands: 0, rollbacks: 0, virtualMs: 0 };
  const take = (report: Report): void => {
    sums.seeds += 1;
    for (const name of ['events', 'requests', 'commands', 'rollbacks', 'virtualMs'] as const) sums[name] += report[name];
    if (report.violation === undefined) return;
    sums.failed += 1;
    if (sums.failed <= 3) console.log(report.last.slice(-SHOWN_LINES).join('\n'));
    console.log(verdictOf(report));
  };
  await Promise.all(
    Array.from({ length: step }, async (_, job) => {
      const worker = new Worker(new URL(import.meta.url), { workerData: { from: from + job, count: count - job, step } });
      worker.on('message', take);
      await new Promise((resolve, reject) => {
        worker.on('exit', resolve);
        worker.on('error', reject);
      });
    }),
  );
  const seconds = (Date.now() - startedAt) / 1000;
  const rate = (sum: number): string => Math.round(sum / seconds).toLocaleString('en');
  console.log(
    `${sums.seeds} seeds, ${sums.failed} failed; ${sums.requests} requests, ${sums.commands} commands, ` +
      `${sums.rollbacks} rollbacks; ${seconds.toFixed(1)} s: ${rate(sums.seeds)} seeds and ` +
      `${rate(sums.events)} events a second, ${rate(sums.virtualMs / 1000)} times real time.`,
  );
  return sums.failed === 0;
}

function verdictOf({ seed, violation, hash }: Report): string {
  return violation === undefined ? `seed ${seed}: sound (${hash})` : `SEED=${seed} npm run sim: ${violation}`;
}
