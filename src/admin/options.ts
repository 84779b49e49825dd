import type { IncomingHttpHeaders } from 'node:http';

import type { ChatCompletionsRouter } from '../router/router.ts';
import type { AuditEvent } from './audit-log.ts';

/** What the admin door uses of a router: nothing but what its host could use itself. */
export type AdministeredRouter = Pick<
  ChatCompletionsRouter,
  'accounts' | 'credits' | 'health' | 'keys' | 'requests' | 'usage'
>;

export interface AdminRouterOptions {
  /**
   * Who asks: the operator's name, for the audit, or undefined for a stranger, who gets a 401.
   *
   * Called for each request, before anything else. How often somebody may try is for the host to limit.
   */
  readonly authorize: (request: AdminRequest) => string | undefined | Promise<string | undefined>;
  /**
   * Told of every change that an operator made or tried to make, before it is answered.
   *
   * @default a line of JSON on stderr
   */
  readonly onAudit?: (event: AuditEvent) => unknown;
  /**
   * Told of what broke, in `authorize` and `onAudit` too.
   *
   * @default a line on stderr
   */
  readonly onError?: (error: Error, context: { readonly requestId: string }) => unknown;
  /**
   * Path that the admin router is mounted at, where its host leaves that in the URL. It is taken off if it is there.
   * Without it all works but what needs to be told from the mount: words as `accounts` in it, and a mistyped path.
   *
   * @default '/admin'
   */
  readonly basePath?: string;
}

/** What `authorize` can know an operator by. */
export interface AdminRequest {
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  /**
   * What is served, without the mount and with its parameters decoded: `/accounts/acme/grants`; the page is `/`. A path
   * that stands for nothing, and gets a 404, is as it came.
   */
  readonly path: string;
}

/** @throws {TypeError} naming the option that can't be right */
export function checkAdminOptions(options: AdminRouterOptions): void {
  if (typeof options !== 'object' || options === null || typeof options.authorize !== 'function') {
    throw new TypeError(
      'createAdminRouter needs authorize, a function that returns the name of an operator, or undefined for a stranger',
    );
  }
  for (const name of ['onAudit', 'onError'] as const) {
    const hook: unknown = options[name];
    if (hook !== undefined && typeof hook !== 'function') {
      throw new TypeError(`${name} must be a function, got ${typeof hook}`);
    }
  }
  const { basePath = '' }: { readonly basePath?: unknown } = options;
  if (typeof basePath !== 'string' || !/^(\/|$)/.test(basePath)) {
    throw new TypeError(`basePath must begin with a slash, got ${JSON.stringify(basePath)}`);
  }
  for (const name of Object.keys(options)) {
    if (!['authorize', 'onAudit', 'onError', 'basePath'].includes(name)) {
      throw new TypeError(`createAdminRouter has no option ${JSON.stringify(name)}`);
    }
  }
}
