import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

import type { Report } from './simulate.ts';
import type { Share } from './worker.ts';

/** Runs `count` seeds, starting at `from`, on all cores, and passes each report on when it is ready. */
export async function simulateMany(
  from: number,
  count: number,
  onReport: (report: Report) => void,
  jobs: number = availableParallelism(),
): Promise<void> {
  await Promise.all(
    Array.from({ length: jobs }, async (_, job) => {
      const share: Share = { from: from + job, to: from + count, step: jobs };
      const worker = new Worker(new URL('worker.ts', import.meta.url), { workerData: share });
      worker.on('message', onReport);
      await new Promise<void>((resolve, reject) => {
        worker.on('error', reject);
        worker.on('exit', () => resolve());
      });
    }),
  );
}
