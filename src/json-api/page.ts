/** The page of an API: one document, which loads its numbers from there by relative URLs. */
export interface Page {
  readonly html: string;
  /** For a browser without valid credentials: it asks for a token at once, and nothing of the API before. */
  readonly signedOut: string;
  /** Allows only the page's own script and style: no other origin, and no frame around it. */
  readonly contentSecurityPolicy: string;
}

/**
 * @param html - it contains no data, so it may be served to unauthenticated clients
 * @param scriptHash - of its script, as `sha256-…`
 * @param styleHash - of its style
 */
export function pageOf(html: string, scriptHash: string, styleHash: string): Page {
  return {
    html,
    signedOut: html.replace('<html ', '<html data-session="none" '),
    contentSecurityPolicy: [
      "default-src 'none'",
      `script-src '${scriptHash}'`,
      `style-src '${styleHash}'`,
      "connect-src 'self'",
      'img-src data:',
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join('; '),
  };
}
