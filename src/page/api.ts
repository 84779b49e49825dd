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

export interface List<Row> {
  readonly data: readonly Row[];
  readonly next_cursor?: string | null;
}

/** Such as the `…` of a token that was copied from where it is masked. */
const NOT_IN_A_HEADER = /[^\t\x20-\x7e\x80-\xff]/;

export interface ApiOptions {
  /** URL that the API is below, with or without a slash at its end. */
  readonly mount: string;
  /** Name of the token in the storage of this tab; undefined if no token is typed in. */
  readonly tokenName: string | undefined;
  /** The API takes no request without a token, a session of the browser included. */
  readonly isSignedOut: boolean;
  /** Asked before each request, unless a token was typed in. */
  readonly getToken?: (() => string | undefined | Promise<string | undefined>) | undefined;
}

/** Where a document was opened, as an API's mount: with or without a trailing slash. */
export function mountOf({ origin, pathname }: Location): string {
  return origin + pathname;
}

/** Client of a JSON API. */
export class Api {
  readonly #options: ApiOptions;
  readonly #mount: string;
  /** In memory too, for browsers that block storage. */
  #token: string | undefined;
  /** Called for each 401, unless another token was entered meanwhile. */
  onRefused: (() => void) | undefined;

  constructor(options: ApiOptions) {
    this.#options = options;
    this.#mount = options.mount.endsWith('/') ? options.mount : `${options.mount}/`;
    if (options.tokenName === undefined) return;
    try {
      this.#token = sessionStorage.getItem(options.tokenName) ?? undefined;
    } catch {}
  }

  get token(): string | undefined {
    return this.#token;
  }

  /** False if a request would be rejected for want of a token. */
  get hasCredentials(): boolean {
    return this.#token !== undefined || this.#options.getToken !== undefined || !this.#options.isSignedOut;
  }

  /** Stored for this tab only, until it is closed; undefined removes it. */
  setToken(token: string | undefined): void {
    const { tokenName } = this.#options;
    if (tokenName === undefined) return;
    this.#token = token;
    try {
      if (token === undefined) sessionStorage.removeItem(tokenName);
      else sessionStorage.setItem(tokenName, token);
    } catch {}
  }

  /** The token as a header; empty where the browser's session says it. */
  async authorization(): Promise<Readonly<Record<string, string>>> {
    const token = this.#token ?? (await this.#options.getToken?.());
    return token ? { authorization: `Bearer ${token}` } : {};
  }

  /** A path of the mount's origin as a whole URL. */
  urlOf(path: string): string {
    return new URL(path, this.#mount).href;
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
    const token = this.#token;
    const authorization = await this.authorization();
    const { authorization: given } = authorization;
    // The server's 401 would be an error in the browser's log; and what no header can have is not sent at all.
    if (given === undefined ? this.#options.isSignedOut : NOT_IN_A_HEADER.test(given)) {
      this.onRefused?.();
      throw new ApiError(401, 'There is no valid token.');
    }
    let response: Response;
    let body: string;
    try {
      response = await fetch(this.#mount + path, {
        method,
        headers: {
          accept: 'application/json',
          ...(sent && { 'content-type': 'application/json' }),
          ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
          ...authorization,
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
    if (response.status === 401) {
      if (token !== this.#token) throw new ApiError(0, 'The token was replaced meanwhile.');
      this.onRefused?.();
    }
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
