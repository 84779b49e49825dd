/** The admin or the account API refused a call, or did not answer it. */
export class AdminApiError extends Error {
  override readonly name = 'AdminApiError';
  /** HTTP status; 0 without an answer: a change may have been made. */
  readonly status: number;
  /** Code of the error, as `account_not_found`; `no_answer`, or `invalid_answer` if it isn't one of the admin API. */
  readonly code: string;
  /** Name of the invalid parameter, in snake_case. */
  readonly param: string | undefined;
  /** `x-request-id` of the answer, for the audit log; undefined without one. */
  readonly requestId: string | undefined;
  /** Whether the same call can succeed later. */
  readonly shouldRetry: boolean;

  constructor(
    message: string,
    details: Pick<AdminApiError, 'status' | 'code'> &
      Partial<Pick<AdminApiError, 'param' | 'requestId' | 'shouldRetry'>>,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.status = details.status;
    this.code = details.code;
    this.param = details.param;
    this.requestId = details.requestId;
    this.shouldRetry = details.shouldRetry ?? false;
  }
}

/** The error of an answer with any status but 2xx. */
export function errorOfAnswer({ status, headers }: Response, body: string): AdminApiError {
  const requestId = headers.get('x-request-id') ?? undefined;
  const { message, code, param } = readError(body);
  if (typeof message !== 'string' || typeof code !== 'string') {
    return invalidAnswer(status, requestId, 'an error that is none of this API');
  }
  return new AdminApiError(message, {
    status,
    code,
    param: typeof param === 'string' ? param : undefined,
    requestId,
    shouldRetry: headers.get('x-should-retry') === 'true',
  });
}

/** @param what - what was answered */
export function invalidAnswer(status: number, requestId: string | undefined, what: string): AdminApiError {
  const message = `The server answered with status ${status} and ${what}. Check baseURL: it ends with the mount of the API.`;
  return new AdminApiError(message, { status, code: 'invalid_answer', requestId });
}

function readError(body: string): {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly param?: unknown;
} {
  try {
    const parsed: { readonly error?: object } | null = JSON.parse(body);
    return parsed?.error ?? {};
  } catch {
    return {};
  }
}
