import type { IncomingHttpHeaders } from 'node:http';

import type { ChatCompletionsRouter } from '../router/router.ts';
import type { AuditEvent } from './audit-log.ts';
import type { Operator } from './operator.ts';

/** The parts of a router that the admin API uses: all of them are public. */
export type AdministeredRouter = Pick<
  ChatCompletionsRouter,
  | 'accounts'
  | 'credits'
  | 'health'
  | 'keys'
  | 'modelPrices'
  | 'providers'
  | 'requestLog'
  | 'requests'
  | 'sessions'
  | 'status'
  | 'usage'
>;

export interface AdminRouterOptions {
  /**
   * Returns the operator's name, for the audit, who may do everything; `{ name, may: ['read', 'keys'] }`, who gets a 403 for all
   * else; or undefined for an unauthenticated client, who gets a 401.
   *
   * Called for each request, before anything else. Your app must limit failed attempts itself.
   */
  readonly authorize: (request: AdminRequest) => Authorized | Promise<Authorized>;
  /**
   * Called for every change that an operator made or tried to make, before the response is sent.
   *
   * @default a line of JSON on stderr
   */
  readonly onAudit?: (event: AuditEvent) => unknown;
  /**
   * Called for every internal error, including those of `authorize` and `onAudit`.
   *
   * @default a line on stderr
   */
  readonly onError?: (error: Error, context: { readonly requestId: string }) => unknown;
  /**
   * Path that the admin API is mounted at, for frameworks that leave the mount in the URL; removed from a URL that has it.
   * Only needed if the mount contains a word such as `accounts`, and to answer a mistyped path with 404.
   *
   * @default '/admin'
   */
  readonly basePath?: string;
}

type Authorized = string | Operator | undefined;

/** What `authorize` gets of a request. */
export interface AdminRequest {
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  /**
   * Without the mount, with parameters decoded, but for `/` (`%2F`) and `%` (`%25`): `/accounts/ann@example.com/grants`; the
   * page is `/`. A path that will get a 404 is unchanged.
   */
  readonly path: string;
}

/** @throws {TypeError} naming the invalid option */
export function checkAdminOptions(options: AdminRouterOptions): void {
  if (typeof options !== 'object' || options === null || typeof options.authorize !== 'function') {
    throw new TypeError(
      'createAdminRouter needs authorize, a function that returns the name of the operator, or undefined to reject the request',
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
