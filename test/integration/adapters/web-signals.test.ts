import * as http from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { WebHandler } from '../../../src/index.ts';
import { type Gateway, listen, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, beginStream, completionBody, text } from '../../helpers/provider.ts';
import { createWebServer } from '../../helpers/web-server.ts';

const QUESTION_BYTES = new TextEncoder().encode(JSON.stringify(QUESTION));

describe('the signal of a request whose body was read', () => {
  /** @param when - the signal fires */
  async function ask(when: 'just before its end' | 'with its end' | 'in a later turn'): Promise<number> {
    const gateway = await startGateway();
    gateway.provider.script = when === 'in a later turn' ? () => {} : answerJson(completionBody());
    const controller = new AbortController();
    const pieces = [QUESTION_BYTES.subarray(0, 20), QUESTION_BYTES.subarray(20)];
    const body = new ReadableStream<Uint8Array>(
      {
        pull: async (source) => {
          await turn();
          const piece = pieces.shift();
          if (piece) {
            source.enqueue(piece);
            return;
          }
          if (when === 'just before its end') controller.abort();
          source.close();
          if (when === 'with its end') controller.abort();
          setImmediate(() => {
            controller.abort();
          });
        },
      },
      { highWaterMark: 0 },
    );
    const { status } = await gateway.router.fetch(
      new Request('http://app.example/v1/chat/completions', {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body,
        duplex: 'half',
        signal: controller.signal,
      }),
    );
    await gateway.close();
    return status;
  }

  it('says nothing of the client where it fires with the end of the body', async () => {
    expect(await ask('just before its end')).toBe(200);
    expect(await ask('with its end')).toBe(200);
  });

  it('says that the client left where it fires after that', async () => {
    expect(await ask('in a later turn')).toBe(499);
  });
});

describe("a host that brings Node's response beside the request, and whose signal fires once that was read", () => {
  /** As srvx 0.8 does it, which Nitro 3.0.0 runs on. */
  function serveAsSrvx(handler: WebHandler): http.Server {
    return http.createServer((incoming, outgoing) => {
      const controller = new AbortController();
      incoming.once('close', () => {
        controller.abort();
      });
      const headers = new Headers(incoming.headers as Record<string, string>);
      const { method = 'GET', url = '/' } = incoming;
      const body = Readable.toWeb(incoming) as ReadableStream;
      const request = new Request(`http://app.example${url}`, {
        method,
        headers,
        signal: controller.signal,
        ...(method === 'POST' && { body, duplex: 'half' as const }),
      });
      const runtime = { name: 'node', node: { req: incoming, res: outgoing } };
      void handler(Object.assign(request, { runtime })).then(async (response) => {
        outgoing.writeHead(response.status, Object.fromEntries(response.headers));
        outgoing.flushHeaders();
        const reader = response.body?.getReader();
        outgoing.once('close', () => void reader?.cancel().catch(() => {}));
        for (let next = await reader?.read(); next?.done === false; next = await reader?.read())
          outgoing.write(next.value);
        outgoing.end();
      });
    });
  }

  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway({}, (router) => listen(serveAsSrvx(router.fetch), '/v1'));
  });

  afterEach(async () => {
    await gateway.close();
  });

  it('answers, and charges what it answered', async () => {
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(await settled).toMatchObject({ ending: 'finished', charged: '0.000045' });
  });

  it('stops the provider when the client leaves before the head', async () => {
    gateway.provider.script = () => {};
    const arrived = gateway.provider.next();
    const settled = gateway.nextSettled();
    const controller = new AbortController();
    const left = gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    const request = await arrived;
    controller.abort();
    await request.aborted;
    expect(await left).toBe('left');
    expect((await settled).ending).toBe('client_gone');
  });

  it('stops the provider when the client leaves in mid-stream', async () => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello there, dear reader.'));
    };
    const settled = gateway.nextSettled();
    const controller = new AbortController();
    const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
    await response.body!.getReader().read();
    controller.abort();
    await gateway.provider.received[0]!.aborted;
    expect((await settled).ending).toBe('client_gone');
    expect(gateway.errors).toEqual([]);
  });
});

describe('a server whose signal fires when its client leaves', () => {
  it('keeps no call running for clients that leave as soon as their bodies are sent', async () => {
    const gateway = await startGateway({}, (router) => listen(createWebServer(router.fetch), '/v1'));
    gateway.provider.script = () => {};
    const { port } = new URL(gateway.baseURL);
    const body = JSON.stringify(QUESTION);
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: app\r\nauthorization: Bearer ${gateway.key}\r\n`;
    const leave = (): Promise<void> =>
      new Promise((resolve) => {
        const socket = connect(Number(port), '127.0.0.1', () => {
          socket.write(`${head}content-length: ${body.length}\r\n\r\n${body}`, () => {
            socket.once('close', resolve).resetAndDestroy();
          });
        });
      });
    for (let i = 0; i < 20; i++) await leave();
    await gateway.router.close(); // waits for what runs, and would for 30 seconds
    expect(gateway.router.requests()).toEqual([]);
    await Promise.all(gateway.provider.received.map(({ aborted }) => aborted));
    await gateway.close();
  });
});
