import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';
import { TRANSPORT } from '../../helpers/transport.ts';
import { exchangeRaw, type RawProvider, startRawProvider } from '../../helpers/raw-http.ts';

describe('what a provider sees of a client', () => {
  let raw: RawProvider;
  let gateway: Gateway;

  beforeEach(async () => {
    raw = await startRawProvider();
    gateway = await startGateway({ provider: { baseURL: raw.baseURL } });
  });

  afterEach(async () => {
    await gateway.close();
    raw.close();
  });

  const BODY = JSON.stringify(QUESTION);

  function request(version: string, headers: readonly string[], body = BODY): string {
    return [
      `POST /v1/chat/completions?api_key=${gateway.key} HTTP/${version}`,
      'host: gateway.example',
      `authorization: Bearer ${gateway.key}`,
      'content-type: application/json',
      ...headers,
      'connection: close',
      '',
      body,
    ].join('\r\n');
  }

  const length = `content-length: ${BODY.length}`;
  const chunked = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;

  it.each([
    ['a plain request', '1.1', [length], BODY],
    ['Expect: 100-continue', '1.1', [length, 'expect: 100-continue'], BODY],
    ['a chunked body', '1.1', ['transfer-encoding: chunked'], chunked],
    [
      'a chunked body that expects 100',
      '1.1',
      ['transfer-encoding: chunked', 'expect: 100-continue'],
      chunked,
    ],
    ['HTTP/1.0', '1.0', [length], BODY],
  ])('never holds the client’s key, with %s', async (_name, version, headers, body) => {
    const elsewhere = [
      'x-api-key',
      'api-key',
      'proxy-authorization',
      'x-goog-api-key',
      'openai-organization',
    ];
    const answer = await exchangeRaw(
      Number(new URL(gateway.baseURL).port),
      request(
        version,
        [...headers, ...elsewhere.map((name) => `${name}: ${gateway.key}`), `cookie: s=${gateway.key}`],
        body,
      ),
    );
    expect(answer).toContain(' 200 OK\r\n');
    expect(raw.received).not.toContain(gateway.key);
    expect(raw.received).toContain(`authorization: Bearer ${PROVIDER_KEY}\r\n`);
  });

  it('is these headers and no others, whatever the client sends', async () => {
    const hostile = [
      'expect: 100-continue',
      'cookie: session=1',
      'x-forwarded-for: 10.0.0.1',
      'forwarded: for=10.0.0.1',
      'connection: x-hop',
      'x-hop: 1',
      'te: trailers',
      'upgrade: h2c',
      'openai-project: proj_1',
      'user-agent: curl/8',
      'x-stainless-lang: js',
      'referer: https://example.com',
      'accept: application/json',
    ];
    await exchangeRaw(Number(new URL(gateway.baseURL).port), request('1.1', [length, ...hostile]));
    const head = raw.received.slice(0, raw.received.indexOf('\r\n\r\n')).split('\r\n');
    expect(head[0]).toBe('POST /v1/chat/completions HTTP/1.1');
    expect(
      head
        .slice(1)
        .map((line) => line.slice(0, line.indexOf(':')))
        .sort(),
    ).toEqual([
      // undici writes it in lower case.
      ...(TRANSPORT === 'undici' ? [] : ['Connection']),
      'accept',
      'accept-encoding',
      'authorization',
      ...(TRANSPORT === 'undici' ? ['connection'] : []),
      'content-length',
      'content-type',
      'host',
      'user-agent',
    ]);
    expect(head).toContain(`host: ${new URL(raw.baseURL).host}`);
    expect(head).toContain('accept-encoding: identity');
  });
});

describe('what a client sees of a provider', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    await gateway.close();
  });

  it('is a short list of headers', async () => {
    gateway.provider.script = answerJson(completionBody(), 200, {
      'content-length': completionBody().length,
      'set-cookie': '__cf_bm=1',
      'openai-organization': 'org-secret',
      'access-control-allow-origin': '*',
      'strict-transport-security': 'max-age=1',
      'x-ratelimit-remaining-tokens': '1',
      'x-request-id': 'req_upstream',
      'openai-processing-ms': '12',
      server: 'cloudflare',
    });
    const response = await gateway.post(QUESTION);
    expect([...response.headers.keys()].sort()).toEqual([
      'connection',
      'content-length',
      'content-type',
      'date',
      'keep-alive',
      'openai-processing-ms',
      'x-request-id',
      'x-upstream-request-id',
    ]);
    expect(response.headers.get('x-upstream-request-id')).toBe('req_upstream');
    expect(response.headers.get('x-request-id')).not.toBe('req_upstream');
  });

  it.each([401, 402, 403])('is nothing of a %i, which is about our own key', async (status) => {
    gateway.provider.script = (response, received) => {
      response.writeHead(status, { 'x-echo': received.headers.authorization }).end(`bad key ${PROVIDER_KEY}`);
    };
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(response.headers.get('x-should-retry')).toBe('false');
    expect(JSON.stringify([...response.headers]) + (await response.text())).not.toContain(PROVIDER_KEY);
    expect(gateway.errors[0]).toMatchObject({ code: 'upstream_refused_credentials' });
    expect(String(gateway.errors[0])).not.toContain(PROVIDER_KEY);
  });

  it('is nothing of a redirect, which is never followed', async () => {
    gateway.provider.script = (response) => {
      response.writeHead(307, { location: `${gateway.provider.baseURL}/elsewhere` }).end();
    };
    const response = await gateway.post(QUESTION, { redirect: 'manual' });
    expect(response.status).toBe(502);
    expect(response.headers.get('location')).toBeNull();
    expect(gateway.provider.received).toHaveLength(1);
  });
});
