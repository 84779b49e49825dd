import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import type { Session } from './session.ts';

/** Asks for a token. */
export function SignIn({ session }: { readonly session: Session }): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);

  function submit(event: Event): void {
    event.preventDefault();
    if (!input.current) return;
    session.signIn(input.current.value);
    input.current.value = '';
  }

  const isRefused = session.prompt === 'refused';
  return (
    <form id="sign-in" class="card sign-in" onSubmit={submit}>
      <h2>Sign in</h2>
      <p id="sign-in-why" class={isRefused ? 'bad' : ''}>
        {isRefused ? 'The admin API rejected this token.' : 'The admin API requires a token.'}
      </p>
      <label htmlFor="token">Token</label>
      <input id="token" ref={input} type="password" autocomplete="off" spellcheck={false} required />
      <p class="faint">Sent as a bearer token. Stored in this tab until it is closed.</p>
      <button type="submit" class="primary">
        Sign in
      </button>
    </form>
  );
}
