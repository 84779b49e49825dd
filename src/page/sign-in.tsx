import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import type { Caller, PageSession } from './session.ts';

export interface SignInProps {
  readonly session: Pick<PageSession<Caller>, 'prompt' | 'signIn'>;
  /** What is asked for. */
  readonly label: string;
  /** Of the page, which has no other then. */
  readonly title?: string;
  /** Why it is asked for. */
  readonly required: string;
  /** Said once the API has rejected one. */
  readonly refused: string;
  readonly hint: string;
}

/** Asks for a token. */
export function SignIn({ session, label, title, required, refused, hint }: SignInProps): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);

  function submit(event: Event): void {
    event.preventDefault();
    if (!input.current) return;
    session.signIn(input.current.value.trim());
    input.current.value = '';
  }

  const isRefused = session.prompt === 'refused';
  return (
    <form id="sign-in" class="card sign-in" onSubmit={submit}>
      {title === undefined ? <h2>Sign in</h2> : <h1>{title}</h1>}
      <p id="sign-in-why" class={isRefused ? 'bad' : ''} role={isRefused ? 'alert' : undefined}>
        {isRefused ? refused : required}
      </p>
      <label htmlFor="token">{label}</label>
      <input id="token" ref={input} type="password" autocomplete="off" spellcheck={false} required />
      <p class="faint">{hint}</p>
      <button type="submit" class="primary">
        Sign in
      </button>
    </form>
  );
}
