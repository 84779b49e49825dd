import { useCallback, useLayoutEffect, useRef } from 'preact/hooks';

/** A pause is at least this many times as long as the answer took. */
const PAUSE_RATIO = 20;

export interface Poll<Answer> {
  ask(): Promise<Answer>;
  onAnswer(answer: Answer): void | Promise<void>;
  onError(thrown: unknown): void;
  readonly everyMs: number;
  readonly isPaused: boolean;
  /** Names what is asked for. Where it changes, it is asked for at once, and an answer to what was asked before is dropped. */
  readonly subject: string;
}

/**
 * Asks again and again while the page is visible: one question at a time, and less often what takes long to answer.
 *
 * @returns asks now, unless a question is under way
 */
export function usePolling<Answer>(poll: Poll<Answer>): () => Promise<void> {
  const latest = useRef(poll);
  latest.current = poll;
  const round = useRef(async () => {});
  // Right after the subject has changed: no answer may be taken for another question's.
  useLayoutEffect(() => {
    if (poll.isPaused) return undefined;
    const rounds = startRounds(() => latest.current);
    round.current = rounds.next;
    return rounds.stop;
  }, [poll.isPaused, poll.subject]);
  return useCallback(() => round.current(), []);
}

function startRounds<Answer>(poll: () => Poll<Answer>): { next: () => Promise<void>; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsking = false;
  let isStopped = false;

  async function next(): Promise<void> {
    clearTimeout(timer);
    if (document.hidden || isAsking || isStopped) return;
    isAsking = true;
    const askedAt = Date.now();
    try {
      const answer = await poll().ask();
      if (!isStopped) await poll().onAnswer(answer);
    } catch (thrown) {
      if (!isStopped) poll().onError(thrown);
    }
    isAsking = false;
    if (isStopped) return;
    timer = setTimeout(() => void next(), Math.max(poll().everyMs, PAUSE_RATIO * (Date.now() - askedAt)));
  }

  const onVisibilityChange = (): void => void next();
  document.addEventListener('visibilitychange', onVisibilityChange);
  void next();
  return {
    next,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisibilityChange);
    },
  };
}
