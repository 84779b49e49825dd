import { parentPort, workerData } from 'node:worker_threads';

import { simulate } from './simulate.ts';

/** The seeds of a worker: every `step`-th from `from` up to, but excluding, `to`. */
export interface Share {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

// The stacks of the thousands of expected errors are never read.
Error.stackTraceLimit = 0;
const { from, to, step } = workerData as Share;
for (let seed = from; seed < to; seed += step) {
  const report = await simulate(seed);
  // The last events are only needed for failures.
  // eslint-disable-next-line unicorn/require-post-message-target-origin -- a port, not a window
  parentPort?.postMessage(report.violation === undefined ? { ...report, last: [] } : report);
}
