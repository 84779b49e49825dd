import { onTestFinished } from 'vitest';

import { ask, type Door, type Reply } from './client.ts';

/** Clients that ask one request after the other until they are stopped. */
export interface Load {
  readonly replies: readonly Reply[];
  /** Resolves when so many more were answered with 200. */
  succeeded(more: number): Promise<void>;
  /** Resolves when so many more were answered at all. */
  answered(more: number): Promise<void>;
  stop(): Promise<readonly Reply[]>;
}

/** @param doors - where the n-th client asks is the n-th of them, and so on in turn */
export function startLoad(
  doors: readonly Door[],
  clients: number,
  fields: Readonly<Record<string, unknown>> = {},
): Load {
  const replies: Reply[] = [];
  const stopping = new AbortController();
  const waiting = new Set<() => void>();
  const reached = (more: number, counts: (reply: Reply) => boolean): Promise<void> => {
    const count = (): number => replies.filter(counts).length;
    const goal = count() + more;
    return new Promise((resolve) => {
      const look = (): void => {
        if (count() < goal && !stopping.signal.aborted) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
    });
  };
  const running = Array.from({ length: clients }, async (_, n) => {
    const door = doors[n % doors.length]!;
    while (!stopping.signal.aborted) {
      const reply = await ask(door, fields);
      replies.push(reply);
      for (const look of waiting) look();
      if (reply.status !== 200) await new Promise((resolve) => setTimeout(resolve, 10));
    }
  });
  const stop = async (): Promise<readonly Reply[]> => {
    stopping.abort();
    for (const look of waiting) look();
    await Promise.all(running);
    return replies;
  };
  onTestFinished(async () => void (await stop()));
  return {
    replies,
    succeeded: (more) => reached(more, ({ status }) => status === 200),
    answered: (more) => reached(more, () => true),
    stop,
  };
}
