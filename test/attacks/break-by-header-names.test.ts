import { once } from 'node:events';
import * as net from 'node:net';

import { expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../src/index.ts';
import { QUESTION, startGateway } from '../helpers/gateway.ts';
import { completionBody } from '../helpers/provider.ts';

const NAMES = ['constructor', '__proto__', 'hasOwnProperty', 'toString', 'valueOf', '__defineGetter__'];

it.each(NAMES)('a provider’s header of the name %s breaks no answer, and does not go on', async (name) => {
  const body = completionBody();
  const server = net.createServer((socket) => {
    socket.once('data', () => {
      socket.end(
        `HTTP/1.1 200 OK\r\n${name}: polluted\r\ncontent-type: application/json\r\n` +
          `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    });
    socket.on('error', () => {});
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as net.AddressInfo;
  const gateway = await startGateway({ provider: { baseURL: `http://127.0.0.1:${port}/v1` } });
  const response = await gateway.post(QUESTION);
  expect(response.status).toBe(200);
  expect(await response.text()).toBe(body);
  expect(response.headers.get(name)).toBeNull();
  expect(Object.prototype).not.toHaveProperty('polluted');
  expect(gateway.errors).toEqual([]);
  await gateway.close();
  server.close();
});

it.each(NAMES)('a client’s header, model and member of the name %s break nothing', async (name) => {
  const gateway = await startGateway();
  const sent = await gateway.post(QUESTION, { headers: { [name]: 'polluted' } });
  expect(sent.status).toBe(200);
  const unknown = await gateway.post({ ...QUESTION, model: name });
  expect(unknown.status).toBe(404);
  expect(await unknown.json()).toMatchObject({ error: { code: 'model_not_found' } });
  const member = JSON.stringify(QUESTION).replace('{', `{${JSON.stringify(name)}:{"polluted":true},`);
  expect([200, 400]).toContain((await gateway.post(member)).status);
  expect({}).not.toHaveProperty('polluted');
  expect(gateway.errors).toEqual([]);
  await gateway.close();
});

it('a hook’s headers of such names break nothing', async () => {
  const gateway = await startGateway({
    hooks: [{ upstreamHeaders: () => JSON.parse('{"__proto__":"x","constructor":"y"}') as object as never }],
  });
  expect((await gateway.post(QUESTION)).status).toBe(200);
  await gateway.close();
});

it('a provider of such a name is none that there is', () => {
  expect(() =>
    createChatCompletionsRouter({
      store: 'memory:',
      providers: {},
      models: { 'a/b': { targets: ['constructor/x'], pricing: { input: '1', output: '1' } } },
    }),
  ).toThrow(TypeError);
});
