import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { afterEach, beforeEach, expect, it } from 'vitest';

import { createWebhooks, type Webhooks } from '../../src/webhooks.ts';

let endpoint: Server;
let inside: Server;
let sender: Webhooks;
const askedInside: (string | undefined)[] = [];
const statuses = [301, 302, 303, 307, 308];

beforeEach(async () => {
  inside = createServer((request, response) => {
    askedInside.push(request.url);
    response.end();
  }).listen(0, '127.0.0.1');
  await once(inside, 'listening');
  endpoint = createServer().listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
  sender = createWebhooks({
    url: urlOf(endpoint),
    secret: `whsec_${Buffer.alloc(32).toString('base64')}`,
    events: ['frozen'],
  });
});

afterEach(async () => {
  await sender.close();
  for (const server of [endpoint, inside]) {
    server.closeAllConnections();
    server.close();
  }
});

it.each(statuses)('an endpoint can not send a webhook elsewhere with a %i', async (status) => {
  endpoint.on('request', (_request, response) => {
    response.writeHead(status, { location: `${urlOf(inside)}/latest/meta-data` }).end();
  });
  const asked = once(endpoint, 'request');
  sender.hooks.onLedgerEvent?.({ type: 'frozen', account: 'acme', requestId: 'x' });
  await asked;
  // It is a failure, so that the message is sent to the endpoint again.
  await once(endpoint, 'request');
  expect(askedInside).toEqual([]);
});

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
