import { useState } from 'preact/hooks';

import type { Me } from '../../client/admin-api.generated.ts';
import { type Api, asApiError } from './api.ts';
import { usePolling } from './polling.ts';

export type Permission = Me['may'][number];

/** The operator's session: by a cookie, or by a token that the page asks for. */
export interface Session {
  readonly api: Api;
  /** Why the page asks for a token; undefined if it doesn't. */
  readonly prompt: 'required' | 'refused' | undefined;
  /** The operator's name; undefined until the API has said it. */
  readonly operator: string | undefined;
  /** False while the page waits for a token, or the operator may see nothing. */
  readonly canAsk: boolean;
  /** Why nothing can be shown. */
  readonly notice: string | undefined;
  /** What the operator may not do is not shown. */
  readonly may: (permission: Permission) => boolean;
  /** Sends this token from now on. */
  readonly signIn: (token: string) => void;
  /** Removes the token and all data from the page. */
  readonly signOut: () => void;
}

interface SessionState {
  readonly prompt: Session['prompt'];
  /** A token was entered, and the API has not answered yet. */
  readonly isChecking: boolean;
  readonly me: Me | undefined;
  readonly failure: string | undefined;
}

const REFRESH_MS = 60_000;
const RETRY_MS = 3000;

export function useSession(api: Api): Session {
  const [{ prompt, isChecking, me, failure }, setState] = useState<SessionState>(() => ({
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
    subject: 'me',
    ask: () => api.get('me'),
    onAnswer: (answer) => setState({ prompt: undefined, isChecking: false, me: answer, failure: undefined }),
    onError(thrown) {
      const { status, message } = asApiError(thrown);
      // The views show their own errors.
      if (status !== 401 && !me)
        setState((state) => ({ ...state, prompt: undefined, failure: `${message} Retrying.` }));
    },
  });

  const may = (permission: Permission): boolean => me?.may.includes(permission) ?? false;
  const isBlind = me !== undefined && !may('read');
  return {
    api,
    prompt,
    operator: me?.name,
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
