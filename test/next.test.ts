import * as http from 'node:http';

import { afterEach, describe, expect, it } from 'vitest';

import type { NextHandlers } from '../src/next.ts';
import { toNextHandlers, toNextPagesHandler } from '../src/next.ts';
import { describeRouter } from './contracts/router.ts';
import { type Gateway, listen, type Mount, QUESTION, startGateway } from './helpers/gateway.ts';
import { beginStream, sleep, text } from './helpers/provider.ts';
import { createWebServer } from './helpers/web-server.ts';

/** A route of the App Router: the handler of the request's method, called with the segments of the path. */
const mountApp: Mount = (router) => {
  const handlers = toNextHandlers(router);
  return listen(
    createWebServer((request) => {
      const handle: (request: Request, context: object) => Promise<Response> =
        handlers[request.method as keyof NextHandlers];
      return handle(request, { params: Promise.resolve({ path: [] }) });
    }),
    '/api/v1',
  );
};

/** An API route of the Pages Router, whose body Next.js has parsed or not. */
function mountPages(bodyParser: boolean, returned: () => void = () => {}): Mount {
  return (router) => {
    const handler = toNextPagesHandler(router);
    return listen(
      http.createServer(async (request, response) => {
        if (bodyParser && request.method === 'POST') {
          const chunks: Buffer[] = [];
          for await (const chunk of request) chunks.push(chunk as Buffer);
          Object.assign(request, { body: JSON.parse(String(Buffer.concat(chunks))) });
        }
        await handler(request, response);
        returned();
      }),
      '/api/v1',
    );
  };
}

describeRouter('the handlers of the App Router', mountApp);
describeRouter('the handler of the Pages Router', mountPages(false));

describe('the handlers of the App Router', () => {
  it('are there for each method that Next.js knows', async () => {
    const gateway = await startGateway({}, mountApp);
    const statuses: [string, number][] = [];
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      statuses.push([method, (await gateway.fetch('/models', { method })).status]);
    }
    expect(Object.fromEntries(statuses)).toEqual({
      GET: 200,
      HEAD: 200,
      POST: 405,
      PUT: 405,
      PATCH: 405,
      DELETE: 405,
      OPTIONS: 204,
    });
    await gateway.close();
  });
});

describe('the handler of the Pages Router', () => {
  let gateway: Gateway;

  afterEach(async () => {
    await gateway.close();
  });

  it('takes what the body parser of Next.js left', async () => {
    gateway = await startGateway({}, mountPages(true));
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toEqual({
      ...QUESTION,
      model: 'upstream-model',
    });
  });

  it('resolves when the client has left', async () => {
    let tell: () => void = () => {};
    const returned = new Promise<void>((resolve) => {
      tell = resolve;
    });
    gateway = await startGateway({}, mountPages(false, tell));
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await sleep(5000);
    };
    const response = await gateway.post({ ...QUESTION, stream: true });
    await response.body?.cancel();
    await returned;
  });
});

describe('the handler of the Pages Router, under a router that has said its last word', () => {
  it('resolves when that is out, not before', async () => {
    let tell: (finished: boolean) => void = () => {};
    const returned = new Promise<boolean>((resolve) => {
      tell = resolve;
    });
    const handler = toNextPagesHandler(
      Object.assign(
        async (_request: unknown, response: { end(text: string): unknown }) => {
          setTimeout(() => response.end('Hello'), 50);
        },
        { settled: () => Promise.resolve() },
      ),
    );
    const server = http.createServer(async (request, response) => {
      await handler(request, response);
      tell(response.writableFinished);
    });
    const mounted = await listen(server, '');
    expect(await (await fetch(mounted.baseURL)).text()).toBe('Hello');
    expect(await returned).toBe(true);
    await mounted.close();
  });
});
