import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import { hrefOf } from '../../page/route.ts';
import { SignIn } from '../../page/sign-in.tsx';
import { ThemeButton } from '../../page/theme-button.tsx';
import type { Site } from './site.ts';
import { Loading } from './view-body.tsx';
import type { Session } from './view-props.ts';

interface FrameProps {
  readonly site: Site;
  readonly session: Session;
  /** That the caller may see; none before it has signed in. */
  readonly views: readonly { readonly name: string; readonly text: string }[];
  readonly current: string | undefined;
  readonly children: JSX.Element;
}

/** The page around a view. In a host's page it has no landmarks of its own, which that page has. */
export function Frame({ site, session, views, current, children }: FrameProps): JSX.Element {
  const { title, isDocument } = site;
  const Head = isDocument ? 'header' : 'div';
  const Body = isDocument ? 'main' : 'div';
  return (
    <div class="page">
      <Head class="head">
        <div class="bar">
          {isDocument && <span class="brand">{title}</span>}
          {views.length > 0 && <Links title={title} views={views} current={current} />}
          <div class="controls">
            {session.me && <span class="faint operator">{session.me.name || session.me.account}</span>}
            {session.me && session.api.token !== undefined && (
              <button type="button" id="sign-out" class="plain" onClick={session.signOut}>
                Sign out
              </button>
            )}
            {isDocument && <ThemeButton />}
          </div>
        </div>
      </Head>
      <Body class="body">{children}</Body>
    </div>
  );
}

/** The link of the current view is scrolled to, where not all of them fit. */
function Links({
  title,
  views,
  current,
}: Pick<FrameProps, 'views' | 'current'> & Pick<Site, 'title'>): JSX.Element {
  const nav = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const link = nav.current?.querySelector<HTMLElement>('[aria-current]');
    if (!nav.current || !link) return;
    nav.current.scrollLeft = link.offsetLeft + link.offsetWidth / 2 - nav.current.offsetWidth / 2;
  }, [current]);
  return (
    <nav ref={nav} aria-label={title}>
      {views.map(({ name, text }) => (
        <a key={name} href={hrefOf(name)} aria-current={name === current ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

/** Before there is a view: asks for a key, says what is missing, or waits. */
export function Welcome({
  site: { title, takesKeys },
  session,
}: Pick<FrameProps, 'site' | 'session'>): JSX.Element {
  const { prompt, notice } = session;
  if (prompt !== undefined && takesKeys) {
    return (
      <SignIn
        session={session}
        title={`Sign in to ${title}`}
        label="API key"
        required="Enter one of your API keys to see your credits and usage."
        refused={notice ?? 'This API key is not valid, or not any more. Check it, or enter another one.'}
        hint="The key stays in this tab and is gone when you close it."
      />
    );
  }
  if (prompt !== undefined) {
    return (
      <section class="card sign-in" id="sign-in" aria-label="Sign in">
        <h1>You are signed out</h1>
        <p id="sign-in-why">{`Sign in to ${title} first, then reload.`}</p>
        <button type="button" class="primary" onClick={() => session.signIn(undefined)}>
          Reload
        </button>
      </section>
    );
  }
  if (notice !== undefined) {
    return (
      <div id="notice" class="notice bad" role="status">
        {notice}
      </div>
    );
  }
  return <Loading />;
}
