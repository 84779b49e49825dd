import { useCallback, useLayoutEffect, useRef } from 'preact/hooks';

/** Minimum ratio of the pause to the duration of the last request. */
const PAUSE_RATIO = 20;
/** It pauses no longer for a slow request: one that a computer slept through took hours. */
const MAX_SLOW_PAUSE_MS = 120_000;
/** After an error it asks again this soon. */
const RETRY_MS = 3000;

export interface Poll<Answer> {
  ask(): Promise<Answer>;
  onAnswer(answer: Answer): void | Promise<void>;
  onError(thrown: unknown): void;
  readonly everyMs: number;
  readonly isPaused: boolean;
  /** Identifies the query. A change starts a new request at once and drops the response to the previous one. */
  readonly subject: string;
}

/**
 * Polls while the page is visible: one request at a time, and slower requests less often.
 *
 * @returns a function that sends a request now; where one is running, after it, whose answer may be of before
 */
export function usePolling<Answer>(poll: Poll<Answer>): () => Promise<void> {
  const latest = useRef(poll);
  latest.current = poll;
  const round = useRef(async () => {});
  // A layout effect, so that no response to the previous subject is shown for the new one.
  useLayoutEffect(() => {
    if (poll.isPaused) return undefined;
    const rounds = startRounds(() => latest.current);
    round.current = rounds.askAgain;
    return rounds.stop;
  }, [poll.isPaused, poll.subject]);
  return useCallback(() => round.current(), []);
}

function startRounds<Answer>(poll: () => Poll<Answer>): { askAgain: () => Promise<void>; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running: Promise<void> | undefined;
  let isStopped = false;

  /** The round that is running, else another one. */
  async function next(): Promise<void> {
    clearTimeout(timer);
    if (document.hidden || isStopped) return;
    running ??= round().finally(() => (running = undefined));
    await running;
  }

  async function askAgain(): Promise<void> {
    await running;
    await next();
  }

  async function round(): Promise<void> {
    const askedAt = Date.now();
    let pauseMs = poll().everyMs;
    try {
      const answer = await poll().ask();
      if (!isStopped) await poll().onAnswer(answer);
    } catch (thrown) {
      pauseMs = Math.min(pauseMs, RETRY_MS);
      if (!isStopped) poll().onError(thrown);
    }
    if (isStopped) return;
    const slowPauseMs = Math.min(PAUSE_RATIO * (Date.now() - askedAt), MAX_SLOW_PAUSE_MS);
    timer = setTimeout(() => void next(), Math.max(pauseMs, slowPauseMs));
  }

  const onVisibilityChange = (): void => void next();
  document.addEventListener('visibilitychange', onVisibilityChange);
  void next();
  return {
    askAgain,
    stop() {
      isStopped = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisibilityChange);
    },
  };
}
