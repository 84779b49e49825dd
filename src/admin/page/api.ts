import type { Browser } from './browser.ts';

/** A row of `GET usage`: the members that it was grouped by, and sums. */
export interface UsageRow {
  readonly day?: string;
  readonly account?: string;
  readonly key?: string;
  readonly model?: string;
  readonly requests: number;
  readonly errors: number;
  readonly aborted: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly charged: string;
  /** As far as it is known. */
  readonly cost?: string;
}

export interface AccountRow {
  readonly id: string;
  readonly balance: string;
  readonly held: string;
  readonly granted: string;
  readonly frozen: boolean;
}

export interface TargetRow {
  readonly provider: string;
  readonly model: string;
  readonly state: 'healthy' | 'ejected' | 'probing';
  readonly failures_in_a_row: number;
  readonly retry_at?: string;
  readonly first_byte_ms?: number;
  readonly running: number;
}

export interface LiveRow {
  readonly account: string;
  readonly key: string;
  readonly started_at: string;
  /** Not known while the request's body is on its way, and nobody was asked. */
  readonly model?: string;
  readonly streaming?: boolean;
  readonly provider?: string;
}

export interface List<Row> {
  readonly data: readonly Row[];
  readonly next_cursor?: string | null;
}

/** What went wrong, in words for people; `status` is 0 where there was no answer. */
export interface ApiFailure {
  readonly status: number;
  readonly message: string;
}

/** Asks the admin door that served this page, by addresses beside the page's own. */
export interface Api {
  list<Row>(path: string, query?: Readonly<Record<string, string>>): Promise<List<Row>>;
  /** What `list` threw, as it is told. */
  failure(error: unknown): ApiFailure;
  readonly token: string | undefined;
  /** Kept for as long as this tab lives, and nowhere else; undefined forgets it. */
  useToken(token: string | undefined): void;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createApi(browser: Browser): Api {
  const TOKEN = 'chat-completions-router-token';
  const { origin, pathname } = browser.location;
  // The mount is a folder, whether it was written with its slash or without.
  const mount = origin + (pathname.endsWith('/') ? pathname : `${pathname}/`);

  class Failure extends Error implements ApiFailure {
    readonly status: number;
    constructor(status: number, message: string) {
      super(message);
      this.status = status;
    }
  }

  /** Where storage is forbidden, a tab keeps its token in memory. */
  let token: string | undefined;
  try {
    token = browser.sessionStorage.getItem(TOKEN) ?? undefined;
  } catch {}

  function explain(status: number, body: string): string {
    try {
      const { error }: { error?: { message?: unknown; code?: unknown } } = JSON.parse(body);
      if (error?.code === 'credit_store_unavailable') return 'The credit store is away.';
      if (typeof error?.message === 'string') return error.message;
    } catch {}
    return `The server answered ${status}.`;
  }

  async function ask(url: string): Promise<string> {
    let response;
    let body;
    try {
      response = await browser.fetch(url, {
        headers: { accept: 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
        credentials: 'same-origin',
        cache: 'no-store',
        redirect: 'error',
      });
      body = await response.text();
    } catch {
      throw new Failure(0, 'The server does not answer.');
    }
    if (!response.ok) throw new Failure(response.status, explain(response.status, body));
    return body;
  }

  return {
    async list<Row>(path: string, query: Readonly<Record<string, string>> = {}) {
      const search = new URLSearchParams(query).toString();
      const body = await ask(mount + path + (search && `?${search}`));
      try {
        const list: List<Row> = JSON.parse(body);
        return list;
      } catch {
        throw new Failure(0, 'The server sent what this page can not read.');
      }
    },
    failure(error) {
      if (error instanceof Failure) return error;
      console.error(error);
      return { status: 0, message: 'This page has failed: its console says how.' };
    },
    get token() {
      return token;
    },
    useToken(given) {
      token = given;
      try {
        if (given === undefined) browser.sessionStorage.removeItem(TOKEN);
        else browser.sessionStorage.setItem(TOKEN, given);
      } catch {}
    },
  };
}
