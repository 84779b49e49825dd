import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

import { afterEach, expect, it } from 'vitest';

import { createAuthority } from '../../helpers/certificates.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { completionBody } from '../../helpers/provider.ts';

const CLIENTS = 16;
const AUTHORITY = createAuthority();
const ANSWER = completionBody();

/** A provider in a thread of its own, so that it answers while the router's thread is busy. */
const PROVIDER = `
const https = require('node:https');
const { parentPort, workerData } = require('node:worker_threads');
let connections = 0;
const server = https.createServer(workerData.certificate, (request, response) => {
  request.resume().on('end', () => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(workerData.answer);
  });
});
server.on('secureConnection', () => connections++);
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
parentPort.on('message', () => parentPort.postMessage(connections));
`;

let provider: Worker;
let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
  await provider.terminate();
});

it('a busy router keeps its TLS connections, as many as there are requests at once', async () => {
  provider = new Worker(PROVIDER, {
    eval: true,
    workerData: { certificate: AUTHORITY.issue('DNS:localhost'), answer: ANSWER },
  });
  const [port] = (await once(provider, 'message')) as [number];
  gateway = await startGateway({
    provider: { baseURL: `https://localhost:${port}/v1`, tls: { ca: AUTHORITY.ca } },
  });
  const client = async (): Promise<void> => {
    for (let request = 0; request < 20; request++) {
      const response = await gateway.post(QUESTION);
      expect(await response.text()).toBe(ANSWER);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  provider.postMessage('connections?');
  const [connections] = (await once(provider, 'message')) as [number];
  expect(connections).toBeLessThanOrEqual(CLIENTS);
});
