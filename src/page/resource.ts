import { useState } from 'preact/hooks';

import { asApiError } from './api.ts';
import { clock } from './format.ts';
import { usePolling } from './polling.ts';
import type { Asking } from './session.ts';

export interface Resource<Data> {
  /** What was loaded last; undefined until then. */
  readonly data: Data | undefined;
  /** When it was loaded. */
  readonly at: number;
  /** For the notice of the view: the last error, and how old the data is. */
  readonly notice: string | undefined;
  /** Loads it now. */
  readonly reload: () => Promise<void>;
}

export interface ResourceQuery<Data> {
  /** Identifies what is asked for. */
  readonly subject: string;
  readonly everyMs: number;
  readonly ask: () => Promise<Data>;
}

interface Loaded<Data> {
  readonly data: Data;
  readonly at: number;
  readonly subject: string;
}

/** Loads what a view shows, and keeps it up to date. After an error it keeps what it has. */
export function useResource<Data>(
  session: Asking,
  { subject, everyMs, ask }: ResourceQuery<Data>,
): Resource<Data> {
  const [loaded, setLoaded] = useState<Loaded<Data>>();
  const [failure, setFailure] = useState<string>();
  const reload = usePolling({
    everyMs,
    isPaused: !session.canAsk,
    subject,
    ask,
    onAnswer(data) {
      setFailure(undefined);
      setLoaded({ data, at: Date.now(), subject });
    },
    onError(thrown) {
      const { status, message } = asApiError(thrown);
      if (status === 401) {
        setLoaded(undefined);
        setFailure(undefined);
        return;
      }
      setFailure(message);
    },
  });
  const current = loaded?.subject === subject ? loaded : undefined;
  const age = current ? ` Showing data as of ${clock(current.at)}.` : '';
  return {
    data: current?.data,
    at: current?.at ?? 0,
    notice: failure === undefined ? undefined : `${failure}${age} Retrying.`,
    reload,
  };
}
