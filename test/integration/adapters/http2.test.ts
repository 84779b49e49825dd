import { once } from 'node:events';
import * as http2 from 'node:http2';
import type { AddressInfo } from 'node:net';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway, untilStill } from '../../helpers/gateway.ts';
import { answerStream, beginStream, STREAM, text, USAGE_EVENT } from '../../helpers/provider.ts';

const STREAMED = { ...QUESTION, stream: true };

describe('the Node handler over HTTP/2', () => {
  let gateway: Gateway;
  let client: http2.ClientHttp2Session;

  beforeEach(async () => {
    gateway = await startGateway({}, async (router) => {
      const server = http2.createServer(router);
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      return {
        baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
        close: async () => {
          client.destroy();
          server.close();
          await once(server, 'close');
        },
      };
    });
    client = http2.connect(new URL(gateway.baseURL).origin);
  });

  afterEach(async () => {
    await gateway.close();
  });

  function post(body: unknown): http2.ClientHttp2Stream {
    const stream = client.request({
      ':method': 'POST',
      ':path': '/v1/chat/completions',
      authorization: `Bearer ${gateway.key}`,
      'content-type': 'application/json',
    });
    return stream.end(JSON.stringify(body));
  }

  async function read(stream: http2.ClientHttp2Stream): Promise<{ status: unknown; body: string }> {
    let body = '';
    const headers = once(stream, 'response');
    for await (const chunk of stream) body += String(chunk);
    const [{ ':status': status }] = (await headers) as [http2.IncomingHttpHeaders];
    return { status, body };
  }

  it('streams byte for byte, each chunk when it comes', async () => {
    gateway.provider.script = answerStream(STREAM, 50);
    const stream = post(STREAMED);
    const arrivals: number[] = [];
    stream.on('data', () => arrivals.push(Date.now()));
    expect(await read(stream)).toEqual({
      status: 200,
      body: STREAM.filter((piece) => piece !== USAGE_EVENT).join(''),
    });
    expect(arrivals.at(-1)! - arrivals[0]!).toBeGreaterThan(150);
  });

  it('closes the connection to the provider when the client cancels its stream', async () => {
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello there, dear reader.'));
    };
    const settled = gateway.nextSettled();
    const stream = post(STREAMED);
    await once(stream, 'data');
    stream.close(http2.constants.NGHTTP2_CANCEL);
    await gateway.provider.received[0]!.aborted;
    expect((await settled).ending).toBe('client_gone');
  });

  it.each(['Hello', ''])('never lets a stream that was cut after %j look finished', async (before) => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(before && text(before));
      response.write(text(' there').slice(0, -20), () => response.destroy());
    };
    const settled = gateway.nextSettled();
    await expect(read(post(STREAMED))).rejects.toThrow('NGHTTP2_INTERNAL_ERROR');
    expect((await settled).ending).toBe('upstream_cut');
  });

  it('stops the provider while the client does not read', async () => {
    let sent = 0;
    const piece = text('x'.repeat(65_536));
    gateway.provider.script = async (response) => {
      beginStream(response);
      while (!response.destroyed && sent < 200e6) {
        sent += piece.length;
        if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
      }
    };
    const stream = post(STREAMED);
    await once(stream, 'response');
    const other = (): Promise<Response> => gateway.router.fetch(new Request('http://127.0.0.1/v1/models'));
    expect(await untilStill({ ...gateway, fetch: other }, () => sent)).toBeLessThan(32e6);
    stream.close(http2.constants.NGHTTP2_CANCEL);
  });

  it('refuses in the shape of OpenAI', async () => {
    const { status, body } = await read(post({ ...QUESTION, model: 'acme/none' }));
    expect(status).toBe(404);
    expect(JSON.parse(body)).toMatchObject({ error: { code: 'model_not_found', param: 'model' } });
  });
});
