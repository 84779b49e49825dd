import { useState } from 'preact/hooks';

import { type Api, asApiError } from './api.ts';
import { usePolling } from './polling.ts';

/** Who has signed in, as `GET me` says it. */
export interface Caller {
  readonly name: string;
  readonly may: readonly string[];
}

/** What loads data needs of a session. */
export interface Asking {
  readonly api: Api;
  /** False while the page waits for a token, or the caller may see nothing. */
  readonly canAsk: boolean;
}

/** The session of a page: by a cookie, or by a token that the page asks for. */
export interface PageSession<Me extends Caller> extends Asking {
  /** Why the page asks for a token; undefined if it doesn't. */
  readonly prompt: 'required' | 'refused' | undefined;
  /** Undefined until the API has said it. */
  readonly me: Me | undefined;
  /** Why nothing can be shown; with a prompt, why the last token was refused, where the API says it. */
  readonly notice: string | undefined;
  /** What the caller may not do is not shown. */
  readonly may: (permission: Me['may'][number]) => boolean;
  /** Sends this token from now on; without one, tries again what the browser has. */
  readonly signIn: (token: string | undefined) => void;
  /** Removes the token and all data from the page. */
  readonly signOut: () => void;
}

interface SessionState<Me> {
  readonly prompt: PageSession<Caller>['prompt'];
  /** A token was entered, and the API has not answered yet. */
  readonly isChecking: boolean;
  readonly me: Me | undefined;
  readonly failure: string | undefined;
}

const REFRESH_MS = 60_000;
const RETRY_MS = 3000;

export function usePageSession<Me extends Caller>(api: Api): PageSession<Me> {
  const [{ prompt, isChecking, me, failure }, setState] = useState<SessionState<Me>>(() => ({
    // A request without credentials would be a 401, and an error in the browser's log.
    prompt: api.hasCredentials ? undefined : 'required',
    isChecking: false,
    me: undefined,
    failure: undefined,
  }));

  api.onRefused = (): void => {
    const hadToken = api.token !== undefined;
    api.setToken(undefined);
    setState((state) => {
      // Concurrent requests with the same token get their 401 one after another.
      if (!hadToken && state.prompt !== undefined) return state;
      const why = hadToken ? 'refused' : 'required';
      return { prompt: why, isChecking: false, me: undefined, failure: undefined };
    });
  };

  usePolling<Me>({
    everyMs: me ? REFRESH_MS : RETRY_MS,
    isPaused: prompt !== undefined && !isChecking,
    // The answer to an earlier token says nothing of this one.
    subject: `me ${api.token}`,
    ask: () => api.get('me'),
    onAnswer: (answer) => setState({ prompt: undefined, isChecking: false, me: answer, failure: undefined }),
    onError(thrown) {
      const { status, message } = asApiError(thrown);
      if (status === 403 && api.token !== undefined) {
        // Who the token is of is known, and may not come in: asking again would change nothing.
        api.setToken(undefined);
        setState({ prompt: 'refused', isChecking: false, me: undefined, failure: message });
        return;
      }
      // The views show their own errors.
      if (status !== 401 && !me)
        setState((state) => ({ ...state, prompt: undefined, failure: `${message} Retrying.` }));
    },
  });

  const may = (permission: string): boolean => me?.may.includes(permission) ?? false;
  const isBlind = me !== undefined && !may('read');
  return {
    api,
    prompt,
    me,
    canAsk: prompt === undefined && may('read'),
    notice: isBlind ? `${me.name} has no permission to read.` : failure,
    may,
    signIn(token) {
      api.setToken(token);
      setState((state) => ({ ...state, isChecking: true }));
    },
    signOut() {
      api.setToken(undefined);
      // Removes all data from the page.
      location.reload();
    },
  };
}
