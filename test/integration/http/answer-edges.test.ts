import { deflateSync, gzipSync } from 'node:zlib';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Script, sleep } from '../../helpers/provider.ts';
import { TRANSPORT } from '../../helpers/transport.ts';

/** Answers with these bytes and closes, whatever HTTP makes of them. */
function raw(head: readonly string[], body: string | Buffer = ''): Script {
  return (response) => {
    response.socket?.write(`${head.join('\r\n')}\r\n\r\n`, 'latin1');
    response.socket?.end(body);
  };
}

const JSON_TYPE = 'content-type: application/json';

describe('a provider’s answer on the wire', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway({ retries: false });
  });

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  // undici takes a 100 that was not asked for as no HTTP.
  const interimStatuses = TRANSPORT === 'undici' ? [102, 103] : [100, 102, 103];
  it.each(interimStatuses)('may have a %i before it, which is not it', async (status) => {
    const body = completionBody();
    const interim = [`HTTP/1.1 ${status} Wait`, 'x-early: 1', '', 'HTTP/1.1 200 OK'];
    gateway.provider.script = raw([...interim, JSON_TYPE, `content-length: ${body.length}`], body);
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(200);
    expect(response.headers.get('x-early')).toBeNull();
    expect(await response.text()).toBe(body);
  });

  it.runIf(TRANSPORT === 'undici')('is a 502 with undici, after a 100 that was not asked for', async () => {
    const body = completionBody();
    const interim = ['HTTP/1.1 100 Continue', '', 'HTTP/1.1 200 OK'];
    gateway.provider.script = raw([...interim, JSON_TYPE, `content-length: ${body.length}`], body);
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_invalid_response' } });
  });

  it('leaves its trailers behind', async () => {
    const body = completionBody();
    const chunks = `${body.length.toString(16)};ext=1\r\n${body}\r\n0\r\nset-cookie: a=b\r\nx-request-id: 2\r\n\r\n`;
    const head = ['HTTP/1.1 200 OK', JSON_TYPE, 'transfer-encoding: chunked', 'trailer: set-cookie'];
    gateway.provider.script = raw(head, chunks);
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(await response.text()).toBe(body);
    expect(response.headers.get('trailer')).toBeNull();
    expect(response.headers.get('x-upstream-request-id')).toBeNull();
    expect((await settled).charged).toBe('0.000045');
  });

  it('keeps what belongs to its own connection, and what it says does', async () => {
    const body = completionBody();
    gateway.provider.script = raw(
      [
        'HTTP/1.1 200 OK',
        JSON_TYPE,
        `content-length: ${body.length}`,
        'connection: close, x-secret, retry-after',
        'x-secret: 1',
        'retry-after: 7',
        'keep-alive: timeout=77',
        'proxy-authenticate: Basic',
        'upgrade: h2c',
        'alt-svc: h3=":443"',
        'clear-site-data: "*"',
      ],
      body,
    );
    const response = await gateway.post(QUESTION);
    expect([...response.headers.keys()].sort()).toEqual([
      'connection',
      'content-length',
      'content-type',
      'date',
      'keep-alive',
      'x-request-id',
    ]);
    expect(response.headers.get('keep-alive')).not.toContain('77');
  });

  it.each([300, 301, 302, 303, 304, 305, 307, 308])('is a 502 in place of a %i', async (status) => {
    gateway.provider.script = (response) => {
      response.writeHead(status, { location: `${gateway.provider.baseURL}/elsewhere` }).end();
    };
    const response = await gateway.post(QUESTION, { redirect: 'manual' });
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_invalid_response' } });
    expect(response.headers.get('location')).toBeNull();
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('costs nothing where it is a 204', async () => {
    gateway.provider.script = (response) => response.writeHead(204).end();
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(204);
    expect(await response.text()).toBe('');
    expect(await settled).toMatchObject({ charged: '0.00', voided: true });
  });

  it.each([
    ['two lengths', ['content-length: 3', 'content-length: 4']],
    ['a length and chunks', ['content-length: 3', 'transfer-encoding: chunked']],
    ['a length that is none', ['content-length: x']],
    ['a header without a name', [': x']],
    ['a null in a header', ['x-request-id: a\0b']],
    ['a bare carriage return in a header', ['x-request-id: a\rset-cookie: b']],
  ])('is a 502 and costs nothing, with %s', async (_name, headers) => {
    gateway.provider.script = raw(['HTTP/1.1 200 OK', ...headers], 'abc');
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_invalid_response' } });
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(await settled).toMatchObject({ voided: true });
  });

  it.each([
    ['GZIP', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
  ])('is unpacked from %s, which nobody asked for', async (encoding, pack) => {
    gateway.provider.script = (response) => {
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': encoding })
        .end(pack(completionBody()));
    };
    const response = await gateway.post(QUESTION);
    expect(response.headers.get('content-encoding')).toBeNull();
    expect(await response.text()).toBe(completionBody());
  });

  it.each(['', 'none', 'Identity', 'identity, identity'])(
    'is plain where it says so, with content-encoding: %j',
    async (encoding) => {
      gateway.provider.script = answerJson(completionBody(), 200, { 'content-encoding': encoding });
      const response = await gateway.post(QUESTION);
      expect(response.headers.get('content-encoding')).toBeNull();
      expect(await response.text()).toBe(completionBody());
    },
  );

  it('never looks complete where it is not in the encoding that it names', async () => {
    gateway.provider.script = (response) => {
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
        .end(completionBody());
    };
    const asked = gateway.post(QUESTION).then((response) => response.text());
    await expect(asked).rejects.toThrow(/^(terminated|fetch failed)$/);
  });

  it('that unpacks to a thousand times its size waits for its reader', async () => {
    const blanks = Buffer.alloc(100_000_000, 32);
    const packed = gzipSync(blanks, { level: 1 });
    expect(packed.length).toBeLessThan(1_000_000);
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(packed);
    };
    const before = process.memoryUsage().arrayBuffers;
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    await sleep(300);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(50_000_000);
    await response.body?.cancel();
    await settled;
    expect(blanks.length).toBe(100_000_000);
  });
});

describe('a provider’s refusal', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway({ retries: false });
  });

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it.each([400, 404, 409, 413, 418, 422, 429, 498, 499, 500, 503, 524, 529])(
    'is passed on to the byte, with what it says of retries: %i',
    async (status) => {
      const body = `{"error" : {"message":"No.","code":12345678901234567890,"type":null}}\n`;
      const retry = { 'retry-after': '7', 'retry-after-ms': '6500', 'x-should-retry': 'false' };
      gateway.provider.script = answerJson(body, status, retry);
      const settled = gateway.nextSettled();
      const response = await gateway.post(QUESTION);
      expect(response.status).toBe(status);
      expect(await response.text()).toBe(body);
      for (const [name, value] of Object.entries(retry)) expect(response.headers.get(name)).toBe(value);
      expect(await settled).toMatchObject({ charged: '0.00', voided: true });
    },
  );

  it.each([
    [400, 'text/html'],
    [404, 'text/html; charset=utf-8'],
    [429, 'TEXT/HTML'],
    [503, 'application/xhtml+xml'],
    [524, 'text/html;charset=UTF-8'],
  ])(
    'that is a page becomes an error in the shape of OpenAI, under its own status: %i %s',
    async (status, type) => {
      gateway.provider.script = (response) => {
        response.writeHead(status, { 'content-type': type, 'retry-after': '7', 'x-should-retry': 'false' });
        response.end(`<html><title>Error</title>cf-ray ${PROVIDER_KEY}</html>`);
      };
      const settled = gateway.nextSettled();
      const response = await gateway.post(QUESTION);
      expect(response.status).toBe(status);
      expect(response.headers.get('content-type')).toBe('application/json');
      expect(response.headers.get('retry-after')).toBe('7');
      expect(response.headers.get('x-should-retry')).toBe('true');
      expect(await response.json()).toEqual({
        error: {
          message: `The model's provider answered with status ${status} and an HTML page.`,
          type: 'upstream_error',
          param: null,
          code: 'upstream_error_page',
        },
      });
      expect(await settled).toMatchObject({ charged: '0.00', voided: true });
    },
  );

  it('that is a page without an end is not waited for', async () => {
    gateway.provider.script = (response) => {
      response.writeHead(503, { 'content-type': 'text/html' }).write('<html>');
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_error_page' } });
    await expect.poll(() => gateway.provider.openSockets()).toBe(0);
  });

  it('that is a page is an error that the official client can show', async () => {
    gateway.provider.script = (response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>');
    };
    const asked = gateway.client.chat.completions.create(QUESTION);
    await expect(asked).rejects.toMatchObject({ status: 502, code: 'upstream_error_page' });
  });
});
