import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

/** The body of a request for a completion; other members than these are there too. */
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
  /** Names and values in turn, as they were written. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** The body, parsed when it is asked for; throws where it is not JSON. */
  readonly json: RequestFields;
  /** Resolves once the other side closes before its answer is complete: to when, in ms since the epoch. */
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
