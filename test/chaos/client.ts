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

/** How many replies had each status. */
export function statusesOf(replies: readonly Reply[]): Readonly<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
