import { once } from 'node:events';
import * as http from 'node:http';
import * as net from 'node:net';
import { gzipSync } from 'node:zlib';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, DONE, STREAM, USAGE_EVENT } from '../../helpers/provider.ts';

describe('an answer of an odd kind', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it('is unpacked where it comes compressed, and metered', async () => {
    gateway.provider.script = (response) => {
      const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
      response.writeHead(200, headers).end(gzipSync(completionBody()));
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(response.headers.get('content-encoding')).toBeNull();
    expect(await response.text()).toBe(completionBody());
    expect((await settled).charged).toBe('0.000045');
  });

  it('resets the connection where its compressed bytes are cut', async () => {
    gateway.provider.script = (response) => {
      const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
      response.writeHead(200, headers).end(gzipSync(completionBody()).subarray(0, 60));
    };
    const settled = gateway.nextSettled();
    const asked = gateway.post(QUESTION).then((response) => response.text());
    await expect(asked).rejects.toThrow('terminated');
    expect((await settled).ending).toBe('upstream_cut');
  });

  it('resets the connection where it is shorter than it said', async () => {
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
      response.write(completionBody(), () => response.destroy());
    };
    const asked = gateway.post(QUESTION).then((response) => response.text());
    await expect(asked).rejects.toThrow('terminated');
  });

  it.each([true, false])(
    'resets the connection of an HTTP/1.0 client, to which its end says nothing; a stream: %s',
    async (stream) => {
      gateway.provider.script = (response) => {
        response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
        response.write(stream ? `${STREAM[1]}data: {"choices":[{` : completionBody().slice(0, 60), () =>
          response.destroy(),
        );
      };
      const body = JSON.stringify({ ...QUESTION, stream });
      const head = [
        'POST /v1/chat/completions HTTP/1.0',
        `authorization: Bearer ${gateway.key}`,
        `content-length: ${body.length}`,
      ];
      const socket = net.connect(Number(new URL(gateway.baseURL).port), '127.0.0.1');
      socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
      let got = '';
      socket.on('data', (chunk) => (got += chunk.toString()));
      await expect(once(socket, 'end')).rejects.toMatchObject({ code: 'ECONNRESET' });
      expect(got).toContain('HTTP/1.1 200 OK');
      expect(got).not.toContain('transfer-encoding');
    },
  );

  it('is a cut one where its JSON is, though it is as long as it said', async () => {
    const body = completionBody().slice(0, 200);
    gateway.provider.script = answerJson(body, 200, { 'content-length': '200' });
    const settled = gateway.nextSettled();
    // All that the provider sent: the client finds out by the JSON.
    expect(await (await gateway.post(QUESTION)).text()).toBe(body);
    expect(await settled).toMatchObject({ ending: 'upstream_cut', usageSource: 'estimated' });
    expect(gateway.errors).toMatchObject([{ name: 'UpstreamError', code: 'upstream_cut' }]);
  });

  it('ends where its connection does, if it told no length', async () => {
    gateway.provider.script = (response) => {
      response.socket?.end(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n${completionBody()}`,
      );
    };
    const settled = gateway.nextSettled();
    expect(await (await gateway.post(QUESTION)).text()).toBe(completionBody());
    expect(await settled).toMatchObject({ charged: '0.000045', ending: 'finished' });
  });

  it.each([
    ['an empty 200', 200, ''],
    ['a page that is no JSON', 200, '<html>Sorry</html>'],
    ['a 529', 529, '{"error":{"message":"overloaded"}}'],
  ])('passes and costs nothing: %s', async (_name, status, body) => {
    gateway.provider.script = (response) => {
      response.writeHead(status).end(body);
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(status);
    expect(await response.text()).toBe(body);
    expect(await settled).toMatchObject({ voided: true });
  });

  it.each([true, false])(
    'resets the connection where the stream ends in an event, though that is a clean end; usage is asked for: %s',
    async (usage) => {
      gateway.provider.script = (response) => {
        response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end(`${STREAM[1]}data: {"choices":[{"d`);
      };
      const settled = gateway.nextSettled();
      const asked = { ...QUESTION, stream: true, stream_options: { include_usage: usage } };
      await expect(gateway.post(asked).then((response) => response.text())).rejects.toThrow('terminated');
      expect((await settled).ending).toBe('upstream_cut');
    },
  );

  it.each(['data: {"choices":[]}', 'data: {"choices":[]}\n', 'data: 12', 'data: { no JSON', ': a comment'])(
    'is whole where its last event lacks no more than its end: %s',
    async (last) => {
      const stream = `${STREAM[1]}${last}`;
      gateway.provider.script = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(stream);
      };
      const settled = gateway.nextSettled();
      expect(await (await gateway.post({ ...QUESTION, stream: true })).text()).toBe(stream);
      expect((await settled).ending).toBe('finished');
    },
  );

  it('is a stream by its bytes, whatever its content type says', async () => {
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(STREAM.join(''));
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.text()).toBe([...STREAM.slice(0, -2), DONE].join(''));
    expect((await settled).charged).toBe('0.000045');
  });

  it('may tell its length though it is a stream: an event less is not a cut', async () => {
    const body = STREAM.join('');
    gateway.provider.script = (response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream', 'content-length': body.length })
        .end(body);
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(await response.text()).toBe(body.replace(USAGE_EVENT, ''));
  });

  it('may begin with a 103 that is not it', async () => {
    gateway.provider.script = (response) => {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      response.writeHead(200, { 'content-type': 'application/json' }).end(completionBody());
    };
    expect(await (await gateway.post(QUESTION)).text()).toBe(completionBody());
  });

  it('may come before the request is read', { timeout: 20_000 }, async () => {
    const impatient = http.createServer((_request, response) => {
      response.writeHead(413, { 'content-type': 'application/json' }).end('{"error":{"message":"too long"}}');
    });
    impatient.listen(0, '127.0.0.1');
    await once(impatient, 'listening');
    const { port } = impatient.address() as net.AddressInfo;
    const other = await startGateway({ provider: { baseURL: `http://127.0.0.1:${port}/v1` } });
    const messages = [{ role: 'user', content: 'x'.repeat(5_000_000) }];
    const response = await other.post({ ...QUESTION, messages, max_tokens: 1 });
    expect(response.status).toBe(413);
    expect(await response.text()).toContain('too long');
    expect((await other.router.credits.balance('acct')).held).toBe('0.00');
    await other.close();
    impatient.closeAllConnections();
    impatient.close();
  });

  it('comes from an IPv6 address as from any other', async () => {
    const server = http.createServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(200, { 'content-type': 'application/json', 'x-request-id': String(request.url) });
        response.end(completionBody());
      });
    });
    server.listen(0, '::1');
    await once(server, 'listening');
    const { port } = server.address() as net.AddressInfo;
    const other = await startGateway({ provider: { baseURL: `http://[::1]:${port}/v1/?a=b` } });
    const response = await other.post(QUESTION);
    expect(response.status).toBe(200);
    expect(response.headers.get('x-upstream-request-id')).toBe('/v1/chat/completions?a=b');
    await response.text();
    await other.close();
    server.closeAllConnections();
    server.close();
  });

  it('of many choices is charged once for its prompt, and for all it wrote', async () => {
    gateway.provider.script = (response) => {
      const usage = { prompt_tokens: 9, completion_tokens: 36, total_tokens: 45 };
      response.writeHead(200, { 'content-type': 'application/json' }).end(completionBody({ usage }));
    };
    const settled = gateway.nextSettled();
    await gateway.post({ ...QUESTION, n: 3 });
    expect((await settled).charged).toBe('0.000117');
  });
});
