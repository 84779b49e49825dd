import { useState } from 'preact/hooks';

import { asApiError } from '../../../page/api.ts';
import { usePolling } from '../../../page/polling.ts';
import type { Session } from '../session.ts';
import { type AccountLine, accountLine } from './account-lines.ts';
import type { RangeUsage } from '../../../page/usage/range-usage.ts';
import { type LiveData, UsageData } from './data.ts';

const RANGE_MS = 60_000;
const LIVE_MS = 3000;

/** The filters of the view. */
export interface UsageQuery {
  readonly days: number;
  /** `''` for all. */
  readonly account: string;
}

export interface LoadedRange {
  readonly usage: RangeUsage;
  /** Account that the usage is filtered by; `''` for all. */
  readonly account: string;
  readonly at: number;
}

export interface LoadedLive extends LiveData {
  readonly at: number;
}

export interface UsageState {
  /** The data that was loaded last, possibly for earlier filters. */
  readonly range: LoadedRange | undefined;
  /** All accounts; there may be thousands, so they come after the usage. */
  readonly lines: readonly AccountLine[] | undefined;
  readonly live: LoadedLive | undefined;
  /** Error of the last request; undefined once the range was loaded again. */
  readonly failure: string | undefined;
}

/** Loads the data of the view, and keeps it up to date. */
export function useUsage(session: Session, { days, account }: UsageQuery): UsageState {
  const [data] = useState(() => new UsageData(session.api));
  const [range, setRange] = useState<LoadedRange>();
  const [lines, setLines] = useState<readonly AccountLine[]>();
  const [live, setLive] = useState<LoadedLive>();
  const [failure, setFailure] = useState<string>();
  const isPaused = !session.canAsk;

  function onError(thrown: unknown): void {
    const { status, message } = asApiError(thrown);
    if (status !== 401) {
      setFailure(message);
      return;
    }
    setFailure(undefined);
    setRange(undefined);
    setLines(undefined);
    setLive(undefined);
  }

  const readRange = usePolling({
    everyMs: RANGE_MS,
    isPaused,
    subject: JSON.stringify([days, account]),
    ask: () => data.range(days, account),
    onAnswer(usage) {
      setFailure(undefined);
      setRange({ usage, account, at: Date.now() });
    },
    onError,
  });

  const readLines = usePolling({
    everyMs: RANGE_MS,
    isPaused: isPaused || range === undefined,
    subject: String(days),
    ask: () => data.accounts(days),
    onAnswer: (accounts) => setLines(accounts.map(accountLine)),
    onError,
  });

  usePolling({
    everyMs: LIVE_MS,
    isPaused,
    subject: account,
    ask: () => data.live(account),
    async onAnswer(answer) {
      setLive({ ...answer, at: Date.now() });
      if (failure !== undefined) await Promise.all([readRange(), readLines()]);
    },
    onError,
  });

  return { range, lines, live, failure };
}
