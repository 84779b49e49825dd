import type { Server } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** What a process holds once its garbage was collected. */
export interface Memory {
  readonly rssBytes: number;
  readonly heapBytes: number;
}

type Answers = Readonly<Record<string, (argument: never) => unknown>>;

/** Tells the parent the port, then answers its questions: `cpuUs`, `memory`, `block`, and those given. */
export function answerParent(server: Server | undefined, answers: Answers = {}): void {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  /** Used since it began. Nothing is collected for it: that would be work that no request has made, and undo its compiling. */
  const cpuUs = (): number => {
    const { user, system } = process.cpuUsage();
    return user + system;
  };
  const memory = (): Memory => {
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    return { rssBytes: rss, heapBytes: heapUsed };
  };
  /** The longest time, since it was last asked, in which the event loop did not turn; in ms. */
  const block = (): number => {
    const longest = delay.max / 1e6;
    delay.reset();
    return longest;
  };
  const all: Answers = { cpuUs, memory, block, ...answers };
  process.on('message', (message: { readonly question: string; readonly argument: never }) => {
    void Promise.resolve(all[message.question]?.(message.argument)).then((answer) =>
      process.send?.({ answer }),
    );
  });
  process.on('disconnect', () => process.exit());
  const address = server?.address();
  process.send?.({ answer: typeof address === 'object' && address ? address.port : 0 });
}
