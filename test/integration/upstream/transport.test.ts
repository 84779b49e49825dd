import { createServer, type RequestListener, type Server } from 'node:http';
import { once } from 'node:events';

import { afterEach, describe, expect, it } from 'vitest';

import { resolveConnection } from '../../../src/catalog/connection.ts';
import { Agents } from '../../../src/upstream/transport/agents.ts';
import { HttpProxyTransport } from '../../../src/upstream/transport/http-proxy-transport.ts';
import {
  type AnswerHead,
  assertTransport,
  type Sending,
  type SendListener,
  type Transport,
  type UpstreamRequest,
} from '../../../src/upstream/transport/transport.ts';
import { transportOption } from '../../helpers/transport.ts';

let transport: Transport;
let provider: Server;

afterEach(async () => {
  transport.close();
  provider.closeAllConnections();
  provider.close();
  await once(provider, 'close');
});

/** Notes the calls of a transport, in order. */
class Calls implements SendListener {
  readonly names: string[] = [];
  head: AnswerHead | undefined;

  onConnected(): void {
    this.names.push('connected');
  }

  onHead(head: AnswerHead): void {
    this.names.push('head');
    this.head = head;
  }

  onFailed(error: Error): void {
    this.names.push(`failed: ${error.message}`);
  }

  onOver(): void {
    this.names.push('over');
  }
}

/** Sends a request; the calls begin with `returned`, unless the listener was called before. */
async function send(
  answer: RequestListener,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly calls: Calls; readonly sending: Sending }> {
  const made = transportOption().transport?.create() ?? new HttpProxyTransport(new Agents());
  assertTransport(made);
  transport = made;
  provider = createServer(answer).listen(0, '127.0.0.1');
  await once(provider, 'listening');
  const address = provider.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const origin = new URL(`http://127.0.0.1:${port}`);
  const request: UpstreamRequest = {
    connection: resolveConnection(origin, {}, { proxy: undefined, connectMs: 10_000 }, 'provider'),
    path: '/v1/chat/completions?version=1',
    headers: { host: origin.host, 'content-length': '2', ...headers },
    body: [Buffer.from('{'), Buffer.from('}')],
    apiKey: undefined,
    isStream: false,
  };
  const calls = new Calls();
  const sending = transport.send(request, calls);
  calls.names.push('returned');
  return { calls, sending };
}

describe('a request', () => {
  it('is sent as it is given, and its listener is called in order', async () => {
    const { calls } = await send(
      (request, response) => {
        const { method, url, headers } = request;
        request.setEncoding('utf8').on('data', () => {});
        request.on('end', () => response.end(JSON.stringify([method, url, headers['x-own']])));
      },
      { 'x-own': 'a value' },
    );
    await expect.poll(() => calls.names).toEqual(['returned', 'connected', 'head', 'over']);
    const read: Buffer[] = [];
    calls.head?.body.read({ onData: (chunk) => read.push(chunk), onEnd: () => {}, onBroken: () => {} });
    expect(Buffer.concat(read).toString()).toBe(
      JSON.stringify(['POST', '/v1/chat/completions?version=1', 'a value']),
    );
  });

  it('that cannot be written fails once, after `send` has returned', async () => {
    const { calls } = await send((_request, response) => response.end(), { 'x-own': 'two\nlines' });
    await expect.poll(() => calls.names.length).toBe(2);
    expect(calls.names).toEqual(['returned', expect.stringMatching(/^failed: .*x-own/)]);
  });

  it('that is aborted at once fails once, with the reason, and is not connected', async () => {
    const { calls, sending } = await send((_request, response) => response.end());
    sending.abort(new Error('enough'));
    sending.abort(new Error('again'));
    await expect.poll(() => calls.names).toEqual(['returned', 'failed: enough']);
  });

  it('whose answer repeats a header has one value of it, as Node reads it', async () => {
    const { calls } = await send((_request, response) => {
      const repeated = [
        ['connection', 'keep-alive', 'x-request-id'],
        ['content-encoding', 'gzip', 'br'],
        ['content-type', 'text/event-stream', 'text/html'],
        ['retry-after', '1', '2'],
        ['x-request-id', 'one', 'two'],
        ['set-cookie', 'a=1', 'b=2'],
      ] as const;
      response.writeHead(
        200,
        repeated.flatMap(([name, first, second]) => [name, first, name, second]),
      );
      response.end();
    });
    await expect.poll(() => calls.head).toBeDefined();
    expect(calls.head?.headers).toMatchObject({
      connection: 'keep-alive, x-request-id',
      'content-encoding': 'gzip, br',
      'content-type': 'text/event-stream',
      'retry-after': '1',
      'x-request-id': 'one, two',
      'set-cookie': ['a=1', 'b=2'],
    });
  });

  it('whose answer is cut is over once, and its reader hears of it', async () => {
    const { calls } = await send((_request, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('12345', () => response.destroy());
    });
    await expect.poll(() => calls.head).toBeDefined();
    const heard: string[] = [];
    calls.head?.body.read({
      onData: (chunk) => heard.push(chunk.toString()),
      onEnd: () => heard.push('end'),
      onBroken: () => heard.push('broken'),
    });
    await expect.poll(() => calls.names).toEqual(['returned', 'connected', 'head', 'over']);
    expect(heard).toEqual(['12345', 'broken']);
  });

  it('that is aborted while it is answered closes the connection, and its reader gets the reason', async () => {
    let closed = 0;
    const { calls, sending } = await send((request, response) => {
      request.socket.once('close', () => (closed += 1));
      response.writeHead(200).write('begun');
    });
    await expect.poll(() => calls.head).toBeDefined();
    const heard: (string | undefined)[] = [];
    calls.head?.body.read({
      onData: () => {},
      onEnd: () => heard.push('end'),
      onBroken: (error) => heard.push(error?.message),
    });
    sending.abort(new Error('enough'));
    await expect.poll(() => calls.names).toEqual(['returned', 'connected', 'head', 'over']);
    await expect.poll(() => closed).toBe(1);
    expect(heard).toEqual(['enough']);
  });
});
