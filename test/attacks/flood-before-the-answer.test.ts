import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';
import { TRANSPORT } from '../helpers/transport.ts';
import { type MaliciousProvider, repeated, startMaliciousProvider } from './malicious-provider.ts';
import { writeAll } from './victim.ts';

describe('a provider that never comes to its answer', () => {
  let provider: MaliciousProvider;
  let gateway: Gateway;

  beforeEach(async () => {
    provider = await startMaliciousProvider();
    gateway = await startGateway({ provider: { baseURL: provider.baseURL }, retries: false });
  });

  afterEach(async () => {
    await gateway.close();
    await provider.close();
  });

  it.each([
    ['103 Early Hints', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'],
    ['100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['102 Processing', 'HTTP/1.1 102 Processing\r\n\r\n'],
  ])('but sends %s without end is left after 32 of them', async (_what, interim) => {
    provider.script = (socket) => writeAll(socket, repeated(interim.repeat(1000)));
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    // undici takes a `100 Continue` that was not asked for as a broken answer.
    const isRefused = TRANSPORT === 'undici' && interim.includes('100 Continue');
    const message = isRefused ? 'did not answer in valid HTTP' : 'more than 32 interim';
    expect(await response.json()).toMatchObject({
      error: { code: 'upstream_invalid_response', message: expect.stringContaining(message) },
    });
  });

  it.each([
    ['headers', (n: number) => `x-${n}: ${'y'.repeat(100)}\r\n`],
    ['one header', () => 'y'.repeat(65_536)],
  ])('but sends %s without end is left', async (_what, next) => {
    provider.script = async (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx: ');
      for (let n = 0; !socket.destroyed; n++) await writeAll(socket, [next(n)]);
    };
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_invalid_response' } });
  });

  it('sends a few interim answers, as proxies do, and is waited for', async () => {
    const body = '{"choices":[]}';
    provider.script = (socket) => {
      socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(32));
      socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`);
    };
    expect((await gateway.post(QUESTION)).status).toBe(200);
  });
});
