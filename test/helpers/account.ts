import * as http from 'node:http';

import { onTestFinished } from 'vitest';

import { type AccountRouterOptions, type AuditEvent, createAccountRouter } from '../../src/account.ts';
import type { Asked } from './admin.ts';
import { type Gateway, type GatewayOptions, listen, startGateway } from './gateway.ts';

/** The account API of a gateway whose account is `acct`. */
export interface AccountDoor {
  readonly gateway: Gateway;
  readonly baseURL: string;
  /** What `onAudit` was told, in order. */
  readonly audits: AuditEvent[];
  /** What `onError` was told, in order. */
  readonly errors: Error[];
  /** With the gateway's API key unless `headers` has others, and with JSON. */
  readonly ask: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<Asked>;
  readonly fetch: (path: string, init?: RequestInit) => Promise<Response>;
}

export const SESSION_SECRET = 'a secret of the tests, of 32 characters or more';

/** By the cookie of the host's session, as an app would look it up. */
export const BY_COOKIE: NonNullable<AccountRouterOptions['whoIs']> = ({ headers }) =>
  /^session=(\w+)$/.exec(headers.cookie ?? '')?.[1];

export async function startAccount(
  options: AccountRouterOptions = {},
  gatewayOptions: GatewayOptions = {},
  { sessions = true }: { readonly sessions?: boolean } = {},
): Promise<AccountDoor> {
  const gateway = await startGateway({
    ...(sessions && { sessions: { secret: SESSION_SECRET } }),
    ...gatewayOptions,
  });
  const audits: AuditEvent[] = [];
  const errors: Error[] = [];
  const account = createAccountRouter(gateway.router, {
    onAudit: (event) => audits.push(event),
    onError: (error) => errors.push(error),
    ...options,
  });
  const mounted = await listen(http.createServer(account), '/account');
  const { baseURL } = mounted;
  onTestFinished(async () => {
    await mounted.close();
    await gateway.close();
  });
  return {
    gateway,
    baseURL,
    audits,
    errors,
    fetch: (path, init) => fetch(baseURL + path, init),
    ask: async (method, path, body, headers = { authorization: `Bearer ${gateway.key}` }) => {
      const response = await fetch(baseURL + path, {
        method,
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = response.headers.get('content-type') === 'application/json';
      return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    },
  };
}

export const COOKIE = { cookie: 'session=acct' };
export const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });
