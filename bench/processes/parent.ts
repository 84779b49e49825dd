import type { Server } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** What a process says of itself; times are since it began, but the longest block of its event loop is since it was last asked. */
export interface Usage {
  readonly cpuUs: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly blockMs: number;
}

type Answers = Readonly<Record<string, (argument: never) => unknown>>;

/** Tells the parent the port, then answers its questions: `usage`, and those given. */
export function answerParent(server: Server | undefined, answers: Answers = {}): void {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const usage = (): Usage => {
    globalThis.gc?.();
    const { user, system } = process.cpuUsage();
    const { rss, heapUsed } = process.memoryUsage();
    const blockMs = delay.max / 1e6;
    delay.reset();
    return { cpuUs: user + system, rssBytes: rss, heapBytes: heapUsed, blockMs };
  };
  const block = (): number => delay.max / 1e6;
  const all: Answers = { usage, block, ...answers };
  process.on('message', (message: { readonly question: string; readonly argument: never }) => {
    void Promise.resolve(all[message.question]?.(message.argument)).then((answer) =>
      process.send?.({ answer }),
    );
  });
  process.on('disconnect', () => process.exit());
  const address = server?.address();
  process.send?.({ answer: typeof address === 'object' && address ? address.port : 0 });
}
