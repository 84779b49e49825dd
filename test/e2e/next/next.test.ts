import * as http from 'node:http';

import { afterEach, describe, expect, it } from 'vitest';

import { toNextHandlers, toNextPagesHandler } from '../../../src/next.ts';
import { type Gateway, listen, type Mount, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { beginStream, text } from '../../helpers/provider.ts';

/** An API route of the Pages Router. */
function mountPages(returned: () => void): Mount {
  return (router) => {
    const handler = toNextPagesHandler(router);
    return listen(
      http.createServer((request, response) => {
        void handler(request, response).then(returned);
      }),
      '/api/v1',
    );
  };
}

describe('the handlers of the App Router', () => {
  it('answer also where there is no after, as in the tests of an app', async () => {
    const gateway = await startGateway();
    const { GET } = toNextHandlers(gateway.router);
    const response = await GET(new Request('http://app.example/v1/models'));
    expect(response.status).toBe(401);
    await gateway.close();
  });
});

describe('the handler of the Pages Router', () => {
  let gateway: Gateway;

  afterEach(async () => {
    await gateway.close();
  });

  it('resolves when the client has left', async () => {
    let tell: () => void = () => {};
    const returned = new Promise<void>((resolve) => {
      tell = resolve;
    });
    gateway = await startGateway({}, mountPages(tell));
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
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
