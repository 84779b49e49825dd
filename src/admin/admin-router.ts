import { answerOfHook, serveApi } from '../json-api/api.ts';
import type { ApiHandler } from '../json-api/host-view.ts';
import { UnauthorizedError } from '../json-api/errors.ts';
import type { ApiDescription } from '../json-api/host-view.ts';
import { endpoints } from './endpoints.ts';
import { operatorOf } from './operator.ts';
import { type AdministeredRouter, type AdminRouterOptions, checkAdminOptions } from './options.ts';
import { PAGE } from './page.ts';

export type AdminRouter = ApiHandler;

/** For the OpenAPI document. */
export const ADMIN_API: ApiDescription = {
  name: 'admin API',
  about: 'Accounts, API keys, credits and usage of a chat-completions-router.',
  page: 'The console, for browsers. A browser without valid credentials gets it too, and it asks for a token; a program gets a 401',
  token: {
    name: 'operator',
    about: 'Or any other credentials that the authorize option of this server accepts.',
  },
};

/**
 * Creates the admin API: the router's own functions over HTTP, for accounts, keys, credits, usage and provider health.
 *
 * It is served only where your app mounts it, and only to requests that `authorize` accepts.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createAdminRouter(router: AdministeredRouter, options: AdminRouterOptions): AdminRouter {
  checkAdminOptions(options);
  const { authorize, basePath = '/admin' } = options;
  return serveApi(
    {
      description: ADMIN_API,
      endpoints,
      services: router,
      page: PAGE,
      basePath,
      idPrefix: 'adm',
      authorize: async (request) => {
        const operator = await answerOfHook(async () => operatorOf(await authorize(request)));
        if (operator) return operator;
        throw new UnauthorizedError('Unauthorized: the admin API needs the credentials of an operator.');
      },
    },
    options,
  );
}
