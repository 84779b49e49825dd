import { once } from 'node:events';
import * as net from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';

describe('a request that can not be a completion', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway({ maxBodyBytes: 4096, bodyTimeoutMs: 150 });
  });

  afterAll(async () => {
    expect(gateway.provider.received).toHaveLength(0);
    expect(gateway.settled).toHaveLength(0);
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '5.00', held: '0.00' });
    expect(gateway.errors).toEqual([]);
    await gateway.close();
  });

  const BODY = JSON.stringify(QUESTION);

  it.each([
    ['nothing', '', 400, 'invalid_json', null],
    ['not JSON', 'model=acme/fast', 400, 'invalid_json', null],
    ['JSON that ends early', BODY.slice(0, -3), 400, 'invalid_json', null],
    ['JSON and more', `${BODY}x`, 400, 'invalid_json', null],
    ['an array', '[]', 400, 'invalid_type', null],
    ['a string', '"model"', 400, 'invalid_type', null],
    ['no model', '{"messages":[]}', 400, 'missing_required_parameter', 'model'],
    ['a model that is no string', '{"model":1,"messages":[]}', 400, 'invalid_type', 'model'],
    ['no messages', '{"model":"acme/fast"}', 400, 'missing_required_parameter', 'messages'],
    ['messages that are no array', '{"model":"acme/fast","messages":"hi"}', 400, 'invalid_type', 'messages'],
    ['two models', '{"model":"acme/fast","model":"b","messages":[]}', 400, 'ambiguous_parameter', 'model'],
    [
      'a model in capitals',
      '{"model":"acme/fast","MODEL":"b","messages":[]}',
      400,
      'ambiguous_parameter',
      undefined,
    ],
    [
      'another route',
      '{"model":"acme/fast","messages":[],"api_base":"http://x"}',
      400,
      'unsupported_parameter',
      'api_base',
    ],
    ['an unknown model', '{"model":"__proto__","messages":[]}', 404, 'model_not_found', 'model'],
    [
      'too many bytes',
      JSON.stringify({ ...QUESTION, user: 'x'.repeat(4096) }),
      413,
      'request_too_large',
      null,
    ],
  ])('is refused with %s', async (_name, body, status, code, param) => {
    const response = await gateway.post(body);
    expect(response.status).toBe(status);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error['code']).toBe(code);
    expect(Object.keys(error).sort()).toEqual(['code', 'message', 'param', 'type']);
    if (param !== undefined) expect(error['param']).toBe(param);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('x-request-id')).toBeTruthy();
    expect(response.headers.get('x-should-retry')).toBe('false');
  });

  it.each([
    ['gzip', { 'content-encoding': 'gzip' }, gzipSync(BODY), 'unsupported_content_encoding'],
    ['deflate', { 'content-encoding': 'deflate' }, deflateSync(BODY), 'unsupported_content_encoding'],
    ['br', { 'content-encoding': 'BR' }, brotliCompressSync(BODY), 'unsupported_content_encoding'],
    ['zstd', { 'content-encoding': 'zstd' }, zstdCompressSync(BODY), 'unsupported_content_encoding'],
    ['identity and gzip', { 'content-encoding': 'identity, gzip' }, BODY, 'unsupported_content_encoding'],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }, BODY, 'unsupported_content_type'],
    ['multipart', { 'content-type': 'multipart/form-data; boundary=x' }, BODY, 'unsupported_content_type'],
    ['UTF-16', { 'content-type': 'application/json; charset=utf-16' }, BODY, 'unsupported_content_type'],
    ['Latin-1', { 'content-type': 'text/plain; charset="ISO-8859-1"' }, BODY, 'unsupported_content_type'],
    ['UTF-32', { 'content-type': 'application/json;CHARSET=UTF-32LE' }, BODY, 'unsupported_content_type'],
  ])('is refused as %s', async (_name, headers, body, code) => {
    const response = await gateway.fetch('/chat/completions', { method: 'POST', headers, body });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error: { code } });
  });

  it('is refused when its chunks grow beyond the limit', async () => {
    const body = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 8; i++) controller.enqueue(Buffer.from(' '.repeat(1024)));
        controller.close();
      },
    });
    const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
    const response = await gateway.fetch('/chat/completions', init);
    expect(response.status).toBe(413);
  });

  it('is refused when it does not arrive in time', async () => {
    const socket = net.connect(Number(new URL(gateway.baseURL).port), '127.0.0.1');
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\ncontent-length: 999\r\n\r\n{"model":`,
    );
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toContain(' 408 ');
    expect(answer.toString()).toContain('"code":"request_timeout"');
    socket.destroy();
  });

  it('leaves nothing behind when its sender goes away in the middle of it', async () => {
    const socket = net.connect(Number(new URL(gateway.baseURL).port), '127.0.0.1');
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nauthorization: Bearer ${gateway.key}\r\ncontent-length: 999\r\n\r\n{"model":`,
    );
    // Node asks for the rest when it has called the router.
    await once(socket, 'data');
    socket.destroy();
    await (await gateway.fetch('/models')).text();
  });

  it('is not read at all from an unauthenticated client', async () => {
    const socket = net.connect(Number(new URL(gateway.baseURL).port), '127.0.0.1');
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toContain(' 401 ');
    socket.destroy();
  });

  it('is read without a content-type, and as text/plain', async () => {
    const asked = JSON.stringify({ ...QUESTION, model: 'nobody' });
    for (const headers of [{ 'content-type': '' }, { 'content-type': 'text/plain; charset=UTF-8' }]) {
      const response = await gateway.fetch('/chat/completions', { method: 'POST', headers, body: asked });
      expect(response.status).toBe(404);
    }
  });
});
