import type { IncomingHttpHeaders } from 'node:http';

import { describe, expect, it } from 'vitest';

import type { Exchange } from '../../../src/http/exchange.ts';
import { webRequest } from '../../../src/http/web-message.ts';

const UNUSED = {} as Pick<Exchange, 'response'>['response'];

function requestOf(given: { readonly url?: string; readonly headers?: IncomingHttpHeaders }): Request {
  const exchange: Exchange = {
    id: 'gen-1',
    method: 'POST',
    url: '/v1/embeddings?a=b',
    headers: {},
    body: { kind: 'bytes', bytes: Buffer.alloc(0), exact: true },
    response: UNUSED,
    ...given,
  };
  return webRequest(exchange, Buffer.from('{}'), new AbortController().signal);
}

describe('the request that a metered handler gets', () => {
  it('has no headers of the connection, and no keys', () => {
    const connection = {
      connection: 'close, te',
      expect: '100-continue',
      'keep-alive': 'timeout=5',
      'proxy-connection': 'keep-alive',
      te: 'trailers',
      trailer: 'x-sum',
      'transfer-encoding': 'chunked',
      upgrade: 'h2c',
    };
    const keys = { authorization: 'Bearer sk', 'proxy-authorization': 'Basic x' };
    const headers = { ...connection, ...keys, 'content-type': 'application/json', 'x-tag': 'a' };
    expect(Object.fromEntries(requestOf({ headers }).headers)).toEqual({
      'content-type': 'application/json',
      'x-tag': 'a',
    });
  });

  it.each([
    ['api.example:8080', '/v1/embeddings?a=b', 'http://api.example:8080/v1/embeddings?a=b'],
    ['u:p@api.example', '/v1/embeddings', 'http://api.example/v1/embeddings'],
    ['api.example/path?', '/v1/embeddings', 'http://api.example/v1/embeddings'],
    ['no host', '/v1/embeddings', 'http://localhost/v1/embeddings'],
    [undefined, '//evil.example/', 'http://localhost//evil.example/'],
    ['api.example', 'http://u:p@other.example/v1/embeddings', 'http://other.example/v1/embeddings'],
    ['api.example', 'http://[/v1/embeddings', 'http://localhost/v1/embeddings'],
    ['api.example', 'https:[', 'http://localhost/https:['],
  ])('has a URL whatever the client sends: %s, %s', (host, url, wanted) => {
    expect(requestOf({ url, headers: { ...(host !== undefined && { host }) } }).url).toBe(wanted);
  });

  it('has the host of an HTTP/2 request', () => {
    const headers = { ':authority': 'api.example', ':path': '/v1/embeddings' };
    expect(requestOf({ headers }).url).toBe('http://api.example/v1/embeddings?a=b');
  });
});
