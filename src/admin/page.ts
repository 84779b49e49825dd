import { HTML, SCRIPT_HASH, STYLE_HASH } from './page.generated.ts';

/** The console. */
export interface Page {
  readonly html: string;
  /** For a browser without valid credentials: it asks for a token at once, and nothing of the API before. */
  readonly signedOut: string;
  /** Allows only the page's own script and style: no other origin, and no frame around it. */
  readonly contentSecurityPolicy: string;
}

/**
 * The console: one document that loads its numbers from the admin API, by relative URLs.
 *
 * It contains no data, so it may be served to unauthenticated clients.
 */
export const PAGE: Page = {
  html: HTML,
  signedOut: HTML.replace('<html ', '<html data-session="none" '),
  contentSecurityPolicy: [
    "default-src 'none'",
    `script-src '${SCRIPT_HASH}'`,
    `style-src '${STYLE_HASH}'`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
};
