import type { Api } from '../../page/api.ts';

/** Of the API key that has signed in, in the storage of the tab. */
export const TOKEN_NAME = 'chat-completions-router-account-key';

/** What the page is in: a document of its own, or an element of a host's page. */
export interface Site {
  readonly api: Api;
  /** Of the host, as customers know it. */
  readonly title: string;
  /** An API key signs in; false if only the host's own session does. */
  readonly takesKeys: boolean;
  /** Owns the document: its landmarks, and light or dark. */
  readonly isDocument: boolean;
}
