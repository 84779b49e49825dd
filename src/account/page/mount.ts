import { Api } from '../../page/api.ts';
import { mountSite } from './mount-site.tsx';
import { TOKEN_NAME } from './site.ts';

/** How the account page is mounted in a page of the host. */
export interface AccountPageOptions {
  /** URL of the account router on the page's own origin, such as `/account`; relative to the page. */
  readonly api: string;
  /** The host's name, as customers know it. @default 'Account' */
  readonly title?: string;
  /**
   * Returns the token of the host's session, or an API key, before each request; it is sent as `Authorization: Bearer`.
   * Without a token nothing is sent, and the page asks to sign in first. It must not throw.
   */
  readonly getToken?: () => string | undefined | Promise<string | undefined>;
  /**
   * Who signs in: `'key'` asks for an API key at once; `'session'` is the host's session, by its cookie or `getToken`, and
   * the page never asks for a key; `'either'` asks for a key once the API has rejected the session, and sends that key from then on.
   *
   * @default 'session' with `getToken`, else 'key'
   */
  readonly signIn?: 'key' | 'session' | 'either';
}

/** A mounted account page. */
export interface MountedAccountPage {
  /** Takes the page out of the element; it asks for nothing more. */
  unmount(): void;
}

/**
 * Shows the account page in an element of the host's page.
 *
 * It is in a shadow root: styles of the host don't reach it, and its own don't leave it. Its colors are custom properties that
 * the element inherits (`--account-accent` and others). It needs no inline script and no inline style, so a strict
 * `Content-Security-Policy` holds. Its views are in the fragment of the address, as `#/usage`.
 *
 * @param element - a `<div>`, `<section>` or other element that may have a shadow root; it is mounted once at a time
 * @throws {TypeError} if `api` is no URL, or the element has a page already
 */
export function mountAccountPage(element: HTMLElement, options: AccountPageOptions): MountedAccountPage {
  const { api: url, title = 'Account', getToken, signIn = getToken ? 'session' : 'key' } = options;
  if (!URL.canParse(url, location.href)) {
    throw new TypeError(`api must be a URL, got ${JSON.stringify(url)}`);
  }
  const api = new Api({
    mount: new URL(url, location.href).href,
    tokenName: signIn === 'session' ? undefined : TOKEN_NAME,
    isSignedOut: getToken !== undefined || signIn === 'key',
    getToken,
  });
  return mountSite(element, { api, title, takesKeys: signIn !== 'session', isDocument: false });
}
