import { connect } from 'node:net';
import { once } from 'node:events';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { exchangeRaw, type RawProvider, startRawProvider } from '../../helpers/raw-http.ts';

const BODY = JSON.stringify(QUESTION);
const LENGTH = `content-length: ${BODY.length}`;

function portOf(gateway: Gateway): number {
  return Number(new URL(gateway.baseURL).port);
}

/** A completion's bytes on the wire; headers go where the caller says. */
function post(
  gateway: Gateway,
  headers: readonly string[],
  body = BODY,
  path = '/v1/chat/completions',
): string {
  const authorization = `authorization: Bearer ${gateway.key}`;
  return [`POST ${path} HTTP/1.1`, 'host: x', authorization, ...headers, '', body].join('\r\n');
}

function chunked(...pieces: readonly string[]): string {
  return [...pieces, ''].map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('');
}

describe('a request of an odd form', () => {
  let raw: RawProvider;
  let gateway: Gateway;

  beforeEach(async () => {
    raw = await startRawProvider();
    gateway = await startGateway({ provider: { baseURL: raw.baseURL }, maxBodyBytes: 4096 });
  });

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
    raw.close();
  });

  const CLOSE = 'connection: close';

  /** What the provider got, head and body apart. */
  function upstream(): { readonly head: string; readonly body: string } {
    const end = raw.received.indexOf('\r\n\r\n');
    return { head: raw.received.slice(0, end), body: raw.received.slice(end + 4) };
  }

  it('gets 100 Continue where it expects that, and the provider hears nothing of it', async () => {
    const answer = await exchangeRaw(portOf(gateway), post(gateway, [LENGTH, CLOSE, 'expect: 100-continue']));
    expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
    expect(upstream().head).not.toMatch(/expect/i);
  });

  it('is refused where it expects what is not supported', async () => {
    const answer = await exchangeRaw(portOf(gateway), post(gateway, [LENGTH, CLOSE, 'expect: the-moon']));
    expect(answer).toMatch(/^HTTP\/1\.1 417 /);
    expect(raw.received).toBe('');
  });

  it('may come in chunks with extensions and trailers: what goes up has a length, and neither', async () => {
    const [a, b] = [BODY.slice(0, 9), BODY.slice(9)];
    const body = `9;x=y\r\n${a}\r\n${b.length.toString(16)}\r\n${b}\r\n0\r\nx-trailer: 1\r\nauthorization: Bearer z\r\n\r\n`;
    const headers = ['transfer-encoding: chunked', 'trailer: x-trailer', CLOSE];
    expect(await exchangeRaw(portOf(gateway), post(gateway, headers, body))).toContain(' 200 OK\r\n');
    const sent = BODY.replace('acme/fast', 'upstream-model');
    expect(upstream().body).toBe(sent);
    expect(upstream().head).toContain(`content-length: ${sent.length}`);
    expect(upstream().head).not.toMatch(/transfer-encoding|trailer/i);
  });

  it('may come a byte at a time', async () => {
    const socket = connect(portOf(gateway), '127.0.0.1').setNoDelay();
    socket.write(post(gateway, [LENGTH, CLOSE], ''));
    for (const byte of BODY) await new Promise((resolve) => socket.write(byte, resolve));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toContain(' 200 OK\r\n');
    await once(socket, 'close');
    expect(upstream().body).toBe(BODY.replace('acme/fast', 'upstream-model'));
  });

  it('is refused by its content-length, before a byte of its body', async () => {
    const answer = await exchangeRaw(portOf(gateway), post(gateway, ['content-length: 4097', CLOSE], ''));
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toContain('"code":"request_too_large"');
  });

  it('is read to its end when it was refused, so that the next one on its connection is its own', async () => {
    const long = post(gateway, ['content-length: 9000'], 'x'.repeat(9000));
    const answer = await exchangeRaw(portOf(gateway), long + post(gateway, [LENGTH, CLOSE]));
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
    expect(raw.received.match(/POST /g)).toHaveLength(1);
  });

  it('may wait in a queue with others on one connection, answered in its turn', async () => {
    const bad = post(gateway, ['content-length: 2'], '{}');
    const answer = await exchangeRaw(portOf(gateway), bad + post(gateway, [LENGTH, CLOSE]));
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200']);
  });

  it.each([
    'http://evil.example/v1/chat/completions',
    'https://evil.example:1/v1/chat/completions?x=1',
    '//v1//chat/completions//',
    '/v1/chat/completions/?api-version=1&x=/../models',
  ])('goes to its own provider, whatever its target says: %s', async (target) => {
    const answer = await exchangeRaw(portOf(gateway), post(gateway, [LENGTH, CLOSE], BODY, target));
    expect(answer).toContain(' 200 OK\r\n');
    expect(upstream().head).toContain('POST /v1/chat/completions HTTP/1.1\r\n');
    expect(upstream().head).toContain(`host: ${new URL(raw.baseURL).host}`);
    expect(raw.received).not.toContain('evil');
  });

  it.each([
    ['HEAD', '/v1/chat/completions', 405, 'POST, OPTIONS'],
    ['GET', '/v1/chat/completions', 405, 'POST, OPTIONS'],
    ['DELETE', '/v1/models/acme/fast', 405, 'GET, HEAD, OPTIONS'],
  ])('is refused where its method makes no sense: %s %s', async (method, path, status, allow) => {
    const head = [`${method} ${path} HTTP/1.1`, 'host: x', `authorization: Bearer ${gateway.key}`, CLOSE];
    const answer = await exchangeRaw(portOf(gateway), `${head.join('\r\n')}\r\n\r\n`);
    expect(answer).toContain(`HTTP/1.1 ${status} `);
    expect(answer.toLowerCase()).toContain(`\r\nallow: ${allow.toLowerCase()}\r\n`);
    if (method === 'HEAD') expect(answer.endsWith('\r\n\r\n')).toBe(true);
  });

  it('has one key: a second one is not looked past', async () => {
    const second = ['authorization: Bearer sk-another', LENGTH, CLOSE];
    const answer = await exchangeRaw(portOf(gateway), post(gateway, second));
    expect(answer).toContain(' 401 ');
    expect(answer).toContain('"code":"missing_api_key"');
    expect(raw.received).toBe('');
  });

  it('may have other headers twice, and they change nothing upstream', async () => {
    const twice = ['content-type: application/json', 'content-type: text/html', 'host: evil.example'];
    await exchangeRaw(portOf(gateway), post(gateway, [...twice, LENGTH, CLOSE, 'cookie: a', 'cookie: b']));
    expect(raw.received).not.toMatch(/evil|cookie|html/);
  });

  it('takes along no header that it calls its connection’s own', async () => {
    const headers = [
      'accept: text/evil',
      'openai-beta: x',
      'connection: close, Accept , OpenAI-Beta',
      LENGTH,
    ];
    expect(await exchangeRaw(portOf(gateway), post(gateway, headers))).toContain(' 200 OK\r\n');
    expect(upstream().head).not.toMatch(/accept:|openai-beta/i);
  });

  it.each([
    ['bytes that are not decoded', '/v1/models/%E0%A4%A'],
    ['a line of its own', '/v1/models/x%0d%0aset-cookie:%20a=b'],
    ['dot segments', '/v1/models/../../admin'],
    ['a null', '/v1/models/%00'],
  ])('may ask for a model by %s: that is none', async (_name, path) => {
    const head = [`GET ${path} HTTP/1.1`, 'host: x', `authorization: Bearer ${gateway.key}`, CLOSE];
    const answer = await exchangeRaw(portOf(gateway), `${head.join('\r\n')}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
    expect(answer).not.toMatch(/^set-cookie/im);
  });

  it('writes its model’s name nowhere but into the body of its refusal', async () => {
    const body = JSON.stringify({ ...QUESTION, model: 'x\r\nset-cookie: a=b\r\n\r\n' });
    const request = post(gateway, [`content-length: ${body.length}`, CLOSE], body);
    const answer = await exchangeRaw(portOf(gateway), request);
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
    expect(answer).not.toMatch(/^set-cookie/im);
  });
});

describe('a request that two servers could read as two', () => {
  let raw: RawProvider;
  let gateway: Gateway;

  beforeAll(async () => {
    raw = await startRawProvider();
    gateway = await startGateway({ provider: { baseURL: raw.baseURL } });
  });

  afterAll(async () => {
    expect(raw.received).toBe('');
    expect(gateway.settled).toEqual([]);
    await gateway.close();
    raw.close();
  });

  const SMUGGLED = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n';

  it.each([
    ['a length and chunks', [LENGTH, 'transfer-encoding: chunked'], chunked(BODY)],
    ['two lengths', [LENGTH, 'content-length: 3'], BODY],
    ['a list of lengths', [`content-length: ${BODY.length}, ${BODY.length}`], BODY],
    ['a length with a sign', [`content-length: +${BODY.length}`], BODY],
    ['a length in hex', ['content-length: 0x10'], BODY],
    ['a blank before the colon', ['transfer-encoding : chunked'], chunked(BODY)],
    ['an encoding that is none', ['transfer-encoding: xchunked'], chunked(BODY)],
    ['chunks that are not the last encoding', ['transfer-encoding: chunked, identity'], chunked(BODY)],
    ['a header over two lines', ['x-a: b', ' transfer-encoding: chunked', 'content-length: -1'], BODY],
    ['a null in a header', ['x-a: b\0c', LENGTH], BODY],
    ['a bare carriage return in a header', ['x-a: b\rtransfer-encoding: chunked', LENGTH], BODY],
    ['a chunk size that is none', ['transfer-encoding: chunked'], `zz\r\n${BODY}\r\n0\r\n\r\n`],
    ['a chunk size with 0x', ['transfer-encoding: chunked'], `0x${chunked(BODY)}`],
    ['a chunk longer than it says', ['transfer-encoding: chunked'], `5\r\n${BODY}\r\n0\r\n\r\n`],
    ['a chunk size beyond all numbers', ['transfer-encoding: chunked'], `${'f'.repeat(20)}\r\n${BODY}`],
  ])('is a 400, and reaches no provider: %s', async (_name, headers, body) => {
    const answer = await exchangeRaw(portOf(gateway), post(gateway, headers, body + SMUGGLED));
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toHaveLength(1);
  });
});
