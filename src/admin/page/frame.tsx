import type { ComponentChildren, JSX } from 'preact';

import { hrefOf } from '../../page/route.ts';
import { SignIn } from '../../page/sign-in.tsx';
import type { Session } from './session.ts';
import { ThemeButton } from '../../page/theme-button.tsx';

export interface FrameProps {
  /** Of the view, in the address. */
  readonly name: string;
  readonly title: string;
  readonly session: Session;
  /** The last error. */
  readonly notice?: string | undefined;
  /** Shown beside the title. */
  readonly status?: string | undefined;
  /** Filters of the view. */
  readonly controls?: ComponentChildren;
  /** The view; undefined until it has something to show. */
  readonly children?: JSX.Element | undefined;
}

/** Header and body of a view. The body is the view, the sign-in form, or before either is ready only the notice. */
export function Frame({ name, title, session, notice, status, controls, children }: FrameProps): JSX.Element {
  const view = session.prompt === undefined ? children : undefined;
  const shown = session.notice ?? notice;
  return (
    <>
      <header>
        <div class="bar">
          <Mark />
          {session.prompt === undefined && <Links current={name} />}
          <h1>{title}</h1>
          <p id="updated" class="faint">
            {view && status}
          </p>
          <div id="controls" class="controls">
            {view && controls}
            <ThemeButton />
            {session.me && <span class="faint operator wide">{session.me.name}</span>}
            {view && session.api.token !== undefined && (
              <button type="button" id="sign-out" class="plain" onClick={session.signOut}>
                Sign out
              </button>
            )}
          </div>
        </div>
      </header>
      <main class="body" data-waiting={view ? undefined : ''}>
        <div id="notice" class="notice bad" role="status" hidden={shown === undefined}>
          {shown}
        </div>
        {session.prompt && (
          <SignIn
            session={session}
            label="Token"
            required="The admin API requires a token."
            refused="The admin API rejected this token."
            hint="Sent as a bearer token. Stored in this tab until it is closed."
          />
        )}
        {view}
      </main>
    </>
  );
}

const LINKS = [
  { name: 'overview', text: 'Overview', href: '#' },
  { name: 'accounts', text: 'Accounts', href: hrefOf('accounts') },
  { name: 'keys', text: 'Keys', href: hrefOf('keys') },
  { name: 'requests', text: 'Requests', href: hrefOf('requests') },
  { name: 'providers', text: 'Providers', href: hrefOf('providers') },
  { name: 'models', text: 'Models', href: hrefOf('models') },
  { name: 'health', text: 'Health', href: hrefOf('health') },
];

/** @param current - name of the view */
function Links({ current }: { readonly current: string }): JSX.Element {
  return (
    <nav aria-label="Views">
      {LINKS.map(({ name, text, href }) => (
        <a key={name} href={href} aria-current={name === current ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M9 23v-6m7 6V9m7 14v-9" />
    </svg>
  );
}
