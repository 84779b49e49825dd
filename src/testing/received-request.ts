import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

/** The body of a completion request; other members are accessible too. */
export interface RequestFields {
  readonly model?: string;
  readonly messages?: readonly { readonly role: string; readonly content?: unknown }[];
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly [name: string]: unknown;
}

/** A request as it arrived, with its whole body. */
export interface ReceivedRequest {
  readonly method: string;
  /** Path and query, e.g. `/v1/chat/completions?api-version=v1`. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Alternating names and values, as they were sent. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** The body, parsed on access; throws a `SyntaxError` if it is not JSON. */
  readonly json: RequestFields;
  /** Resolves when the client disconnects before the answer is complete: to the time, in ms since the epoch. */
  readonly aborted: Promise<number>;
}

/** Reads a request to its end; undefined if it breaks off. */
export async function receive(
  request: IncomingMessage,
  response: ServerResponse,
): Promise<ReceivedRequest | undefined> {
  const aborted = new Promise<number>((resolve) => {
    response.once('close', () => {
      if (!response.writableFinished) resolve(Date.now());
    });
  });
  const body = await buffer(request).catch(() => undefined);
  if (!body) return undefined;
  const { method = '', url = '', headers, rawHeaders } = request;
  return {
    method,
    url,
    headers,
    rawHeaders,
    body,
    get json() {
      const fields: RequestFields = JSON.parse(body.toString());
      return fields;
    },
    aborted,
  };
}
