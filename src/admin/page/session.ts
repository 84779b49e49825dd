import { useState } from 'preact/hooks';

import type { Api } from './api.ts';

/** The operator's: by a cookie, or by a token that the page asks for. */
export interface Session {
  readonly api: Api;
  /** Why a token is asked for; undefined where none is. */
  readonly prompt: 'required' | 'refused' | undefined;
  /** False while a token is waited for. */
  readonly canAsk: boolean;
  /** Asks with this token from now on. */
  readonly signIn: (token: string) => void;
  /** Forgets the token, and all that was shown. */
  readonly signOut: () => void;
  /** The API has answered. */
  readonly accepted: () => void;
  /** The API has answered 401. */
  readonly refused: () => void;
}

interface SessionState {
  readonly prompt: Session['prompt'];
  /** A token was given, and the API has not answered yet. */
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
      // Nothing of what was shown stays behind.
      location.reload();
    },
    accepted() {
      setState((state) => (state.prompt === undefined ? state : SIGNED_IN));
    },
    refused() {
      const hadToken = api.token !== undefined;
      api.setToken(undefined);
      setState((state) => {
        // Several requests of one moment are refused one after another.
        if (!hadToken && state.prompt !== undefined) return state;
        return { prompt: hadToken ? 'refused' : 'required', isChecking: false };
      });
    },
  };
}
