import { QUESTION } from '../helpers/gateway.ts';

/** Where requests go. */
export interface Door {
  readonly baseURL: string;
  readonly key: string;
}

/** What a client got for a request. */
export interface Reply {
  /** 0 where the connection broke before there was one. */
  readonly status: number;
  readonly requestId: string;
  /** All of it arrived. */
  readonly isWhole: boolean;
  readonly body: string;
  /** When it ended, by `performance.now`. */
  readonly endedAt: number;
}

/** Sends a request and reads its answer to the end, whatever that is. */
export async function ask(
  { baseURL, key }: Door,
  fields: Readonly<Record<string, unknown>> = {},
  { signal, onText }: { readonly signal?: AbortSignal; readonly onText?: (text: string) => void } = {},
): Promise<Reply> {
  let status = 0;
  let requestId = '';
  let body = '';
  try {
    const response = await fetch(`${baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...QUESTION, ...fields }),
      ...(signal && { signal }),
    });
    status = response.status;
    requestId = response.headers.get('x-request-id') ?? '';
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) {
      const piece = decoder.decode(bytes, { stream: true });
      body += piece;
      onText?.(piece);
    }
    return { status, requestId, isWhole: true, body, endedAt: performance.now() };
  } catch {
    return { status, requestId, isWhole: false, body, endedAt: performance.now() };
  }
}

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
  return {
    replies,
    succeeded: (more) => reached(more, ({ status }) => status === 200),
    answered: (more) => reached(more, () => true),
    stop: async () => {
      stopping.abort();
      for (const look of waiting) look();
      await Promise.all(running);
      return replies;
    },
  };
}

/** How many replies had each status. */
export function statusesOf(replies: readonly Reply[]): Readonly<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
