import type { List } from './api-rows.ts';

const TOKEN = 'chat-completions-router-token';

/** A failed request, with a message for operators; `status` is 0 if there was no response. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Any thrown value as an error with a message for operators. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  console.error(thrown);
  return new ApiError(0, 'Unexpected error on this page; see the browser console.');
}

/** Client of the admin API that served this page, by URLs relative to the page. */
export class Api {
  readonly #mount: string;
  /** In memory too, for browsers that block storage. */
  #token: string | undefined;
  /** Called for each 401. */
  onRefused: (() => void) | undefined;
  readonly #isSignedOut: boolean;

  constructor({ origin, pathname }: Location, { documentElement }: Document) {
    this.#isSignedOut = documentElement.dataset['session'] === 'none';
    // The mount may be opened with or without a trailing slash.
    this.#mount = origin + (pathname.endsWith('/') ? pathname : `${pathname}/`);
    try {
      this.#token = sessionStorage.getItem(TOKEN) ?? undefined;
    } catch {}
  }

  get token(): string | undefined {
    return this.#token;
  }

  /** False if the server has served this page to a browser without credentials, and there is no token either. */
  get hasCredentials(): boolean {
    return this.#token !== undefined || !this.#isSignedOut;
  }

  /** Stored for this tab only, until it is closed; undefined removes it. */
  setToken(token: string | undefined): void {
    this.#token = token;
    try {
      if (token === undefined) sessionStorage.removeItem(TOKEN);
      else sessionStorage.setItem(TOKEN, token);
    } catch {}
  }

  /** @throws {ApiError} */
  async list<Row>(path: string, query: Readonly<Record<string, string>> = {}): Promise<List<Row>> {
    return this.get<List<Row>>(path, query);
  }

  /** @throws {ApiError} */
  async get<Answer>(path: string, query: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return parsed<Answer>(await this.text(path, query));
  }

  /** The body of an answer that is not JSON. @throws {ApiError} */
  async text(path: string, query: Readonly<Record<string, string>> = {}): Promise<string> {
    const search = new URLSearchParams(query).toString();
    return this.#send('GET', path + (search && `?${search}`));
  }

  /**
   * Makes a change.
   *
   * @param idempotencyKey - the same for each try of one change
   * @throws {ApiError}
   */
  async change<Answer>(
    method: 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: object,
    idempotencyKey?: string,
  ): Promise<Answer> {
    return parsed<Answer>(await this.#send(method, path, body, idempotencyKey));
  }

  async #send(method: string, path: string, sent?: object, idempotencyKey?: string): Promise<string> {
    let response: Response;
    let body: string;
    try {
      response = await fetch(this.#mount + path, {
        method,
        headers: {
          accept: 'application/json',
          ...(sent && { 'content-type': 'application/json' }),
          ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
          ...(this.#token && { authorization: `Bearer ${this.#token}` }),
        },
        credentials: 'same-origin',
        cache: 'no-store',
        redirect: 'error',
        ...(sent && { body: JSON.stringify(sent) }),
      });
      body = await response.text();
    } catch {
      throw new ApiError(0, 'The server does not answer.');
    }
    if (response.status === 401) this.onRefused?.();
    if (!response.ok) throw new ApiError(response.status, messageOf(response.status, body));
    return body;
  }
}

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows what it asked for
function parsed<Answer>(body: string): Answer {
  try {
    const answer: Answer = JSON.parse(body);
    return answer;
  } catch {
    throw new ApiError(0, 'The server sent an invalid response.');
  }
}

function messageOf(status: number, body: string): string {
  try {
    const { error }: { error?: { message?: unknown; code?: unknown } } = JSON.parse(body);
    if (error?.code === 'credit_store_unavailable') return 'The credit store is unavailable.';
    if (typeof error?.message === 'string') return error.message;
  } catch {}
  return `The server answered ${status}.`;
}
