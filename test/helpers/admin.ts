import * as http from 'node:http';

import {
  type AdminRouter,
  type AdminRouterOptions,
  type AuditEvent,
  createAdminRouter,
} from '../../src/admin.ts';
import {
  type ChatCompletionsRouter,
  type ChatCompletionsRouterOptions,
  createChatCompletionsRouter,
} from '../../src/index.ts';
import { listen, type Mounted } from './gateway.ts';

/** Puts an admin router behind a server of some framework. */
export type AdminMount = (admin: AdminRouter) => Promise<Mounted>;

/** An admin door in a test, before a router with credits in memory. */
export interface AdminDoor {
  readonly router: ChatCompletionsRouter;
  readonly baseURL: string;
  /** What `onAudit` was told, in order. */
  readonly audits: AuditEvent[];
  /** What `onError` was told, in order. */
  readonly errors: Error[];
  /** As the operator, with JSON. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Asked>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  close(): Promise<void>;
}

export interface Asked {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- what it is, is what tests say
  readonly body: any;
}

const SESSIONS = { secret: 'a secret of the tests, of 32 characters or more' };

export const OPERATOR_TOKEN = 'operator-token';

export const mountAdminOnNode: AdminMount = (admin) => listen(http.createServer(admin), '/admin');

export async function startAdmin(
  options: Partial<AdminRouterOptions> & {
    readonly mount?: AdminMount;
    readonly router?: ChatCompletionsRouter;
    readonly store?: NonNullable<ChatCompletionsRouterOptions['store']>;
    readonly providers?: ChatCompletionsRouterOptions['providers'];
    readonly models?: ChatCompletionsRouterOptions['models'];
  } = {},
): Promise<AdminDoor> {
  const {
    mount = mountAdminOnNode,
    store = 'memory:',
    providers = {},
    models = {},
    router: given,
    ...adminOptions
  } = options;
  const router = given ?? createChatCompletionsRouter({ store, providers, models, sessions: SESSIONS });
  const audits: AuditEvent[] = [];
  const errors: Error[] = [];
  const admin = createAdminRouter(router, {
    authorize: ({ headers }) => (headers.authorization === `Bearer ${OPERATOR_TOKEN}` ? 'ada' : undefined),
    onAudit: (event) => audits.push(event),
    onError: (error) => errors.push(error),
    ...adminOptions,
  });
  const mounted = await mount(admin);
  const { baseURL } = mounted;
  return {
    router,
    baseURL,
    audits,
    errors,
    fetch: (path, init) => fetch(baseURL + path, init),
    ask: async (method, path, body, headers) => {
      const response = await fetch(baseURL + path, {
        method,
        headers: {
          authorization: `Bearer ${OPERATOR_TOKEN}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: text === '' ? '' : JSON.parse(text),
      };
    },
    close: async () => {
      await mounted.close();
      if (!given) await router.close();
    },
  };
}
