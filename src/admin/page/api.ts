import type { List } from './api-rows.ts';

const TOKEN = 'chat-completions-router-token';

/** What went wrong, in words for people; `status` is 0 where there was no answer. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** What an operator is told of anything thrown. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  console.error(thrown);
  return new ApiError(0, 'This page has failed: its console says how.');
}

/** Asks the admin API that served this page, by addresses beside the page's own. */
export class Api {
  readonly #mount: string;
  /** Where storage is forbidden, a tab keeps its token in memory. */
  #token: string | undefined;

  constructor({ origin, pathname }: Location) {
    // The mount is a folder, whether it was written with its slash or without.
    this.#mount = origin + (pathname.endsWith('/') ? pathname : `${pathname}/`);
    try {
      this.#token = sessionStorage.getItem(TOKEN) ?? undefined;
    } catch {}
  }

  get token(): string | undefined {
    return this.#token;
  }

  /** Kept for as long as this tab lives, and nowhere else; undefined forgets it. */
  setToken(token: string | undefined): void {
    this.#token = token;
    try {
      if (token === undefined) sessionStorage.removeItem(TOKEN);
      else sessionStorage.setItem(TOKEN, token);
    } catch {}
  }

  /** @throws {ApiError} */
  async list<Row>(path: string, query: Readonly<Record<string, string>> = {}): Promise<List<Row>> {
    const search = new URLSearchParams(query).toString();
    const body = await this.#get(this.#mount + path + (search && `?${search}`));
    try {
      const list: List<Row> = JSON.parse(body);
      return list;
    } catch {
      throw new ApiError(0, 'The server sent what this page can not read.');
    }
  }

  async #get(url: string): Promise<string> {
    let response: Response;
    let body: string;
    try {
      response = await fetch(url, {
        headers: {
          accept: 'application/json',
          ...(this.#token && { authorization: `Bearer ${this.#token}` }),
        },
        credentials: 'same-origin',
        cache: 'no-store',
        redirect: 'error',
      });
      body = await response.text();
    } catch {
      throw new ApiError(0, 'The server does not answer.');
    }
    if (!response.ok) throw new ApiError(response.status, messageOf(response.status, body));
    return body;
  }
}

function messageOf(status: number, body: string): string {
  try {
    const { error }: { error?: { message?: unknown; code?: unknown } } = JSON.parse(body);
    if (error?.code === 'credit_store_unavailable') return 'The credit store is away.';
    if (typeof error?.message === 'string') return error.message;
  } catch {}
  return `The server answered ${status}.`;
}
