import { HTML, SCRIPT_HASH, STYLE_HASH } from './page.generated.ts';

/** The usage page, as it is served. */
export interface Page {
  readonly html: string;
  /** Allows what stands in the page and nothing else: no other script or style, no other origin, no frame around it. */
  readonly contentSecurityPolicy: string;
}

/**
 * The usage page: one document that asks the admin door for its numbers, by addresses beside its own.
 *
 * It holds no data, so that it may be served to anybody.
 */
export const PAGE: Page = {
  html: HTML,
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
