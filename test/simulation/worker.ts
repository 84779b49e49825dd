import { parentPort, workerData } from 'node:worker_threads';

import { simulate } from './simulate.ts';

/** Which seeds a worker runs: each `step`-th from `from` on, up to and without `to`. */
export interface Share {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

// Nobody reads the stacks of the thousands of errors that are as they should be.
Error.stackTraceLimit = 0;
const { from, to, step } = workerData as Share;
for (let seed = from; seed < to; seed += step) {
  const report = await simulate(seed);
  // What happened last is wanted of failures only.
  // eslint-disable-next-line unicorn/require-post-message-target-origin -- a port, not a window
  parentPort?.postMessage(report.violation === undefined ? { ...report, last: [] } : report);
}
