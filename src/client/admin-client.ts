import type { AccountClient, AdminClient } from './admin-api.generated.ts';
import { AdminApiError, errorOfAnswer, invalidAnswer } from './admin-api-error.ts';
import type { ChangeOptions } from './call-options.ts';
import { ACCOUNT_OPERATIONS, OPERATIONS } from './operations.generated.ts';

export interface AdminClientOptions {
  /** Where the admin API is mounted: `https://api.example.com/admin`. */
  readonly baseURL: string;
  /** Sent as `authorization: Bearer …`. */
  readonly token: string;
  /** @default the global `fetch` */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export interface AccountClientOptions extends Omit<AdminClientOptions, 'token'> {
  /** An API key of the account. Without it the request has the cookies of the page's own origin: a session of the host's. */
  readonly apiKey?: string;
}

/** An operation as requests need it. */
export interface Operation {
  readonly method: string;
  /** Below the mount, with parameters in braces. */
  readonly path: string;
  /** Whether what is not in the path is the body; else it is the query. */
  readonly hasBody: boolean;
  /** Sent with each call. */
  readonly query?: Readonly<Record<string, string>>;
  readonly answer: 'json' | 'text';
}

type Input = Readonly<Record<string, unknown>>;

/**
 * Creates a client of the admin API: a function for each operation, by its `operationId`. It needs `fetch` alone, and so runs
 * in Node, browsers and at the edge. Nothing is sent twice.
 *
 * Each function rejects with an `AdminApiError`, or a `TypeError` that names an invalid parameter of the path; then nothing was sent.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createAdminClient(options: AdminClientOptions): AdminClient {
  checkOptions('createAdminClient', options, 'token');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- generated from one table: a test calls each function
  return functionsOf(OPERATIONS, createSender(options, options.token, 'admin API')) as AdminClient;
}

/**
 * Creates a client of the account API, as `createAdminClient` does of the admin API.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createAccountClient(options: AccountClientOptions): AccountClient {
  checkOptions('createAccountClient', options, 'apiKey');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- generated from one table: a test calls each function
  return functionsOf(
    ACCOUNT_OPERATIONS,
    createSender(options, options.apiKey, 'account API'),
  ) as AccountClient;
}

function functionsOf(table: Readonly<Record<string, Operation>>, send: Send): object {
  const functions = Object.entries(table).map(([name, operation]) => [
    name,
    async (input: Input = {}, call: ChangeOptions = {}) => await send(operation, input, call),
  ]);
  return Object.fromEntries(functions);
}

type Send = (operation: Operation, input: Input, call: ChangeOptions) => Promise<unknown>;

function createSender(
  { baseURL, fetch: ask = fetch }: Pick<AdminClientOptions, 'baseURL' | 'fetch'>,
  token: string | undefined,
  api: string,
): Send {
  const base = baseURL.endsWith('/') ? baseURL.slice(0, -1) : baseURL;
  return async (operation, input, { signal, idempotencyKey }) => {
    const { path, rest } = fillPath(operation.path, input);
    const query = { ...operation.query, ...(operation.hasBody ? {} : definedTexts(rest)) };
    const search = new URLSearchParams(query).toString();
    const url = `${base}${path}${search && `?${search}`}`;
    const request: RequestInit = {
      method: operation.method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        accept: 'application/json',
        ...(operation.hasBody && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      // A redirect could take the token elsewhere.
      redirect: 'manual',
      ...(operation.hasBody && { body: JSON.stringify(rest) }),
      ...(signal && { signal }),
    };
    const [response, body] = await exchange(() => ask(url, request), api, signal);
    if (!response.ok) throw errorOfAnswer(response, body);
    return operation.answer === 'text' ? body : parseAnswer(response, body);
  };
}

/** @throws {AdminApiError} `no_answer`; the signal's reason if it ended the call */
async function exchange(
  send: () => Promise<Response>,
  api: string,
  signal: AbortSignal | undefined,
): Promise<[Response, string]> {
  try {
    const response = await send();
    return [response, await response.text()];
  } catch (error) {
    signal?.throwIfAborted();
    throw new AdminApiError(
      `The ${api} did not answer: ${reasonOf(error)}`,
      { status: 0, code: 'no_answer', shouldRetry: true },
      { cause: error },
    );
  }
}

/** Of Node's `fetch failed`, the cause says what failed. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message !== '' ? error.cause.message : error.message;
}

function parseAnswer({ status, headers }: Response, body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw invalidAnswer(status, headers.get('x-request-id') ?? undefined, 'a body that is not JSON');
  }
}

/**
 * The path with its parameters, and the input that is not in it.
 *
 * @throws {TypeError} naming an invalid parameter. An empty one, or dots, would make the path that of another operation
 */
function fillPath(pattern: string, input: Input): { readonly path: string; readonly rest: Input } {
  const rest = { ...input };
  const path = pattern.replace(/\{(\w+)\}/g, (_whole, name: string) => {
    const value = rest[name];
    delete rest[name];
    if (typeof value !== 'string' || /^\.{0,2}$/.test(value)) {
      const got = value === undefined ? 'nothing' : JSON.stringify(value);
      throw new TypeError(`${name} must be a string with more than dots, got ${got}`);
    }
    return encodeURIComponent(value);
  });
  return { path, rest };
}

/** A list becomes its members, with commas between them. */
function definedTexts(input: Input): Record<string, string> {
  const given = Object.entries(input).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}

/** @throws {TypeError} naming the invalid option */
function checkOptions(
  maker: string,
  options: AdminClientOptions | AccountClientOptions,
  credentials: 'token' | 'apiKey',
): void {
  for (const name of Object.keys(options)) {
    if (!['baseURL', credentials, 'fetch'].includes(name)) {
      throw new TypeError(`${maker} has no option ${JSON.stringify(name)}`);
    }
  }
  const { baseURL, fetch: ask }: { readonly baseURL?: unknown; readonly fetch?: unknown } = options;
  if (
    typeof baseURL !== 'string' ||
    !/^https?:\/\/[^/?#@]+(?:\/[^?#]*)?$/.test(baseURL) ||
    !URL.canParse(baseURL)
  ) {
    // What stands before an @ may be a password: it is not shown.
    const got = JSON.stringify(baseURL)?.replace(/^"[^]*@/, '"***@');
    throw new TypeError(
      `baseURL must be an absolute http(s) URL without a query and without a password, got ${got}`,
    );
  }
  const given: unknown = Reflect.get(options, credentials);
  const isMissing = given === undefined && credentials === 'apiKey';
  // What is given may be a secret with a typo: it is not shown.
  if (!isMissing && (typeof given !== 'string' || !/^[!-~]+$/.test(given))) {
    throw new TypeError(`${credentials} must be a string of printable ASCII characters without spaces`);
  }
  if (ask !== undefined && typeof ask !== 'function') {
    throw new TypeError(`fetch must be a function, got ${typeof ask}`);
  }
}
