import type { OutgoingHttpHeaders } from 'node:http';

import { respond, type Script } from './script.ts';

export interface ErrorFields {
  readonly message?: string;
  readonly type?: string;
  readonly param?: string | null;
  readonly code?: string | null;
  /** Headers of the answer, e.g. `{ 'retry-after-ms': '20' }`. */
  readonly headers?: OutgoingHttpHeaders;
}

/** An error in OpenAI's shape; for other shapes use `respond(status, body, headers)`. */
export function error(status: number, fields: ErrorFields = {}): Script {
  const { message = `The fake provider answers ${status}.`, param = null, code = null, headers } = fields;
  const { type = status < 500 ? 'invalid_request_error' : 'server_error' } = fields;
  return respond(status, { error: { message, type, param, code } }, headers);
}

/** 429, with `retry-after` if seconds are given. */
export function rateLimited(retryAfterSeconds?: number): Script {
  return error(429, {
    message: 'Rate limit reached.',
    type: 'requests',
    code: 'rate_limit_exceeded',
    ...(retryAfterSeconds !== undefined && { headers: { 'retry-after': String(retryAfterSeconds) } }),
  });
}

/** An HTML page, as a proxy in front of a provider sends it when the provider is unavailable. */
export function html(status: number, page: string = `<html><body><h1>${status}</h1></body></html>`): Script {
  return respond(status, page, { 'content-type': 'text/html' });
}
