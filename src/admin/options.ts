import type { ChatCompletionsRouter } from '../router/router.ts';
import { checkApiOptions, type ApiOptions } from '../json-api/api-options.ts';
import type { ApiRequest } from '../json-api/host-view.ts';
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

export interface AdminRouterOptions extends ApiOptions {
  /**
   * Returns the operator's name, for the audit, who may do everything; `{ name, may: ['read', 'keys'] }`, who gets a 403 for all
   * else; or undefined for an unauthenticated client, who gets a 401.
   *
   * Called for each request, before anything else. Your app must limit failed attempts itself.
   */
  readonly authorize: (request: AdminRequest) => Authorized | Promise<Authorized>;
}

type Authorized = string | Operator | undefined;

/** What `authorize` gets of a request. */
export type AdminRequest = ApiRequest;

/** @throws {TypeError} naming the invalid option */
export function checkAdminOptions(options: AdminRouterOptions): void {
  if (typeof options !== 'object' || options === null || typeof options.authorize !== 'function') {
    throw new TypeError(
      'createAdminRouter needs authorize, a function that returns the name of the operator, or undefined to reject the request',
    );
  }
  checkApiOptions('createAdminRouter', options, ['authorize']);
}
