import { serveApi } from '../json-api/api.ts';
import type { ApiHandler } from '../json-api/host-view.ts';
import type { ApiDescription } from '../json-api/host-view.ts';
import type { Endpoint } from './endpoint.ts';
import { TooManyCallsError } from './errors.ts';
import { endpoints } from './endpoints.ts';
import { type AccountRouterOptions, accountServices, type HeldRouter } from './options.ts';
import { accountPage } from './page.ts';
import { holderOf } from './sign-in.ts';

export type AccountRouter = ApiHandler;

/** For the OpenAPI document. */
export const ACCOUNT_API: ApiDescription = {
  name: 'account API',
  about: 'The credits, usage, requests and API keys of one account, for its holder.',
  page: 'The account page, for browsers. A browser without valid credentials gets it too, and it asks for an API key; a program gets a 401',
  token: {
    name: 'key',
    about: 'An API key of the account; or a session of the site, by the whoIs option of this server.',
  },
};

/**
 * Creates the account API and its page: credits, usage, requests, statements and API keys of one account, for the holder of
 * an API key or of your own session.
 *
 * It is served only where your app mounts it. A holder sees its own account alone, and nothing of providers and costs.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createAccountRouter(router: HeldRouter, options: AccountRouterOptions = {}): AccountRouter {
  const services = accountServices(router, options);
  const bound = boundCalls();
  return serveApi(
    {
      description: ACCOUNT_API,
      endpoints: endpoints.map(bound),
      services,
      page: accountPage(options),
      basePath: options.basePath ?? '/account',
      idPrefix: 'acc',
      authorize: (request) => holderOf(request, router, options),
    },
    options,
  );
}

/** Calls of an account at a time, in a process: some read the whole journal of the account. */
const MAX_CALLS = 8;

/** Makes endpoints refuse further calls of an account that has too many running. */
function boundCalls(): (endpoint: Endpoint) => Endpoint {
  const running = new Map<string, number>();
  return (endpoint) => ({
    ...endpoint,
    prepare(sent) {
      const call = endpoint.prepare(sent);
      return {
        body: call.body,
        async run(services, holder) {
          const { account } = holder;
          const before = running.get(account) ?? 0;
          if (before >= MAX_CALLS) throw new TooManyCallsError(MAX_CALLS);
          running.set(account, before + 1);
          try {
            return await call.run(services, holder);
          } finally {
            const rest = (running.get(account) ?? 1) - 1;
            if (rest === 0) running.delete(account);
            else running.set(account, rest);
          }
        },
      };
    },
  });
}
