import { useState } from 'preact/hooks';

import type { Api } from './api.ts';

/** The operator's session: by a cookie, or by a token that the page asks for. */
export interface Session {
  readonly api: Api;
  /** Why the page asks for a token; undefined if it doesn't. */
  readonly prompt: 'required' | 'refused' | undefined;
  /** False while the page waits for a token. */
  readonly canAsk: boolean;
  /** Sends this token from now on. */
  readonly signIn: (token: string) => void;
  /** Removes the token and all data from the page. */
  readonly signOut: () => void;
  /** The API has answered. */
  readonly accepted: () => void;
  /** The API has answered 401. */
  readonly refused: () => void;
}

interface SessionState {
  readonly prompt: Session['prompt'];
  /** A token was entered, and the API has not answered yet. */
  readonly isChecking: boolean;
}

const SIGNED_IN: SessionState = { prompt: undefined, isChecking: false };

export function useSession(api: Api): Session {
  const [{ prompt, isChecking }, setState] = useState(SIGNED_IN);
  return {
    api,
    prompt,
    canAsk: prompt === undefined || isChecking,
    signIn(token) {
      api.setToken(token);
      setState((state) => ({ ...state, isChecking: true }));
    },
    signOut() {
      api.setToken(undefined);
      // Removes all data from the page.
      location.reload();
    },
    accepted() {
      setState((state) => (state.prompt === undefined ? state : SIGNED_IN));
    },
    refused() {
      const hadToken = api.token !== undefined;
      api.setToken(undefined);
      setState((state) => {
        // Concurrent requests with the same token get their 401 one after another.
        if (!hadToken && state.prompt !== undefined) return state;
        return { prompt: hadToken ? 'refused' : 'required', isChecking: false };
      });
    },
  };
}
