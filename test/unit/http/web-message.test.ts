import type { IncomingHttpHeaders } from 'node:http';

import { describe, expect, it } from 'vitest';

import type { Exchange } from '../../../src/http/exchange.ts';
import { lazyRequest, webRequest } from '../../../src/http/web-message.ts';

const UNUSED = {} as Pick<Exchange, 'response'>['response'];

interface Given {
  readonly url?: string;
  readonly headers?: IncomingHttpHeaders;
}

function exchangeOf(given: Given): Exchange {
  return {
    id: 'gen-1',
    method: 'POST',
    url: '/v1/embeddings?a=b',
    headers: {},
    body: { kind: 'bytes', bytes: Buffer.alloc(0), exact: true },
    response: UNUSED,
    ...given,
  };
}

function requestOf(given: Given): Request {
  return webRequest(exchangeOf(given), Buffer.from('{}'), new AbortController().signal);
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

  it.each([webRequest, lazyRequest])('has a body of its own: %o', async (make) => {
    const body = Buffer.from(JSON.stringify({ input: 'x'.repeat(200_000) }));
    const { signal } = new AbortController();
    const first = make(exchangeOf({}), body, signal);
    const copy = first.clone();
    const reader = make(exchangeOf({}), body, signal).body?.getReader();
    const { value } = (await reader?.read()) ?? {};
    value?.fill(0);
    expect(await first.text()).toBe(body.toString());
    expect(await copy.json()).toEqual(JSON.parse(body.toString()));
    expect(await make(exchangeOf({}), Buffer.alloc(0), signal).text()).toBe('');
  });

  it('is copied no more than it is read, to find its price', async () => {
    const body = Buffer.alloc(32 * 1024 * 1024);
    const { signal } = new AbortController();
    const before = process.memoryUsage().arrayBuffers;
    const requests = Array.from({ length: 10 }, () => lazyRequest(exchangeOf({}), body, signal));
    const readers = requests.map((request) => request.body?.getReader());
    for (const reader of readers) expect((await reader?.read())?.value).toHaveLength(65_536);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * 1024 * 1024);
  });
});
