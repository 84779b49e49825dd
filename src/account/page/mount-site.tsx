import { render } from 'preact';

import { App } from './app.tsx';
import css from './shadow.css?inline';
import type { Site } from './site.ts';

/** What the styles say of narrow windows is meant of the page, which may be a column of a wide one. */
const WINDOW_WIDTH = /@media(?=\s*\((?:max-)?width)/g;

/**
 * Renders the page in a shadow root of the element, for a document of its own and for a host's.
 *
 * @throws {TypeError} if the element has a page already
 */
export function mountSite(element: HTMLElement, site: Site): { unmount: () => void } {
  const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' });
  if (root.childElementCount > 0) throw new TypeError('The element has an account page already');
  // No element, so that no Content-Security-Policy has to allow it.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css.replaceAll(WINDOW_WIDTH, '@container'));
  root.adoptedStyleSheets = [sheet];
  render(
    <div class="root">
      <App site={site} />
    </div>,
    root,
  );
  return { unmount: () => render(null, root) };
}
