/** The body of every error, in OpenAI's shape; errors about credits add members. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
    readonly [extra: string]: unknown;
  };
}

/**
 * An error that a client can see: one class per cause, a stable `code`, OpenAI's body.
 *
 * The message states what happened, with numbers; it never contains a key, a request's content or a provider's URL.
 */
export abstract class RouterError extends Error {
  /** HTTP status sent to the client, 4xx or 5xx. */
  abstract readonly status: number;
  /** Stable, documented, safe to branch on; never reworded. */
  abstract readonly code: string;
  /** OpenAI's coarse class of the error, e.g. `invalid_request_error`. */
  abstract readonly type: string;
  /** Name in `providers` of the provider that failed: for `onError`, never sent to the client. */
  declare readonly provider?: string;
  /** The provider's name for the model: for `onError`. */
  declare readonly model?: string;
  /** Number of the attempt that failed, from 1; undefined if nothing was sent: for `onError`. */
  declare readonly attempt?: number;
  /** The invalid request field (`'model'`), or null. */
  readonly param: string | null = null;
  /** Whether a retry of the same request can succeed; official clients follow it (`x-should-retry`). */
  readonly shouldRetry: boolean = false;

  override get name(): string {
    return this.constructor.name;
  }

  /** Additional headers for this error, e.g. `allow`. */
  get headers(): Readonly<Record<string, string>> {
    return {};
  }

  toJSON(): ErrorBody {
    const { message, type, param, code } = this;
    return { error: { message, type, param, code } };
  }
}

/** The router is closing: running requests finish, new ones are rejected. */
export class RouterClosingError extends RouterError {
  readonly status = 503;
  readonly code = 'router_closing';
  readonly type = 'server_error';
  override readonly shouldRetry = true;

  constructor() {
    super('This server is shutting down. Try again in a second.');
  }

  override get headers(): Readonly<Record<string, string>> {
    return retryAfter(1000);
  }
}

/** A bug in the router: `hooks.onError` gets the cause, the client no details. */
export class InternalError extends RouterError {
  readonly status = 500;
  readonly code = 'internal_error';
  readonly type = 'server_error';

  constructor(cause: unknown) {
    super('The router failed on this request. Its operator has been notified.', { cause });
  }
}

/** Quotes a part of the client's request in a message: on one line, at most 200 characters. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

/** The two headers that say when to retry. */
export function retryAfter(ms: number): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(ms / 1000))), 'retry-after-ms': String(ms) };
}
