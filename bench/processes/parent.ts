import type { Server } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { GCProfiler, getHeapStatistics } from 'node:v8';

/** What a process holds once its garbage was collected. */
export interface Memory {
  readonly rssBytes: number;
  readonly heapBytes: number;
}

type Answers = Readonly<Record<string, (argument: never) => unknown>>;

/** Tells the parent the port, then answers its questions: those below, and those given. */
export function answerParent(server: Server | undefined, answers: Answers = {}): void {
  const all: Answers = { cpuUs, memory, ...blockQuestions(), ...allocationQuestions(), ...answers };
  process.on('message', (message: { readonly question: string; readonly argument: never }) => {
    void Promise.resolve(all[message.question]?.(message.argument)).then((answer) =>
      process.send?.({ answer }),
    );
  });
  process.on('disconnect', () => process.exit());
  process.send?.({ answer: server ? portOf(server) : 0 });
}

export function portOf(server: Server): number {
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

/** Used since it began. No garbage is collected for it: that would be work that no request caused, and discard compiled code. */
function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function memory(): Memory {
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  return { rssBytes: rss, heapBytes: heapUsed };
}

/**
 * The longest time between two questions in which the event loop did not turn.
 *
 * It is watched only then: a timer of 1 ms costs a process that waits for its turn more than anything else does.
 */
function blockQuestions(): Answers {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  return {
    watchBlocks: async () => {
      delay.reset();
      delay.enable();
      await sleep(5); // the first tick is compared with none
    },
    longestBlockMs: () => {
      delay.disable();
      return delay.max / 1e6;
    },
  };
}

/**
 * What is allocated on V8's heap between two questions: how much the used heap grew between each two collections, summed up.
 *
 * Memory outside of the heap, so the bytes of buffers, is not in it.
 */
function allocationQuestions(): Answers {
  let profiler = new GCProfiler();
  let atStart = 0;
  return {
    watchAllocation: () => {
      profiler = new GCProfiler();
      profiler.start();
      atStart = getHeapStatistics().used_heap_size;
    },
    allocatedBytes: () => {
      let allocated = 0;
      let used = atStart;
      for (const { beforeGC, afterGC } of profiler.stop()?.statistics ?? []) {
        allocated += beforeGC.heapStatistics.usedHeapSize - used;
        used = afterGC.heapStatistics.usedHeapSize;
      }
      return allocated + getHeapStatistics().used_heap_size - used;
    },
  };
}
