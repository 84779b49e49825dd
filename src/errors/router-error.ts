/** The body of every error, in OpenAI's shape; refusals about credits add keys beside the four. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
    readonly [extra: string]: unknown;
  };
}

export abstract class RouterError extends Error {
  /** HTTP status sent to the client, 4xx or 5xx. */
  abstract readonly status: number;
  /** Stable, documented, safe to branch on; never reworded. */
  abstract readonly code: string;
  /** OpenAI's coarse class of the error, e.g. `invalid_request_error`. */
  abstract readonly type: string;
  /** The provider that failed, by its name in `providers`: for `onError`, never sent to the client. */
  declare readonly provider?: string;
  /** The provider's own name of the model that was asked: for `onError`. */
  declare readonly model?: string;
  /** Which attempt of the request failed, from 1; undefined where nothing was sent: for `onError`. */
  declare readonly attempt?: number;
  /** Request field at fault (`'model'`), or null when none is. */
  readonly param: string | null = null;
  /** Whether sending the same request again can help; official clients obey it (`x-should-retry`). */
  readonly shouldRetry: boolean = false;

  override get name(): string {
    return this.constructor.name;
  }

  /** Headers that belong to this error beside the usual ones, e.g. `allow`. */
  get headers(): Readonly<Record<string, string>> {
    return {};
  }

  toJSON(): ErrorBody {
    const { message, type, param, code } = this;
    return { error: { message, type, param, code } };
  }
}

/** A piece of the client's own request in a message: short, on one line, never a whole body. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

/** The two headers that say when to come again. */
export function retryAfter(ms: number): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(ms / 1000))), 'retry-after-ms': String(ms) };
}
