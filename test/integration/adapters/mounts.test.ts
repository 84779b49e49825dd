import * as http from 'node:http';

import compression from 'compression';
import cors from 'cors';
import express, { type RequestHandler } from 'express';
import { describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter, NodeHandler } from '../../../src/index.ts';
import { describeRouter } from '../../contracts/index.ts';
import { listen, type Mount, mountOnNode, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, beginStream, STREAM, text } from '../../helpers/provider.ts';
import { createWebServer } from '../../helpers/web-server.ts';

describeRouter('node:http', mountOnNode);
describeRouter('Express 5', mountOnExpress('/v1'));
describeRouter('Express 5, in a sub-app', (router) => {
  const app = express();
  const api = express.Router();
  api.use('/', router);
  app.use('/api/v1/', api);
  return listen(http.createServer(app), '/api/v1');
});
describeRouter(
  'Express 5 behind express.raw()',
  mountOnExpress('/v1', express.raw({ type: '*/*', limit: '10mb' })),
);
describeRouter(
  'Express 5 behind express.text()',
  mountOnExpress('/v1', express.text({ type: '*/*', limit: '10mb' })),
);
describeRouter('Express 5 behind express.json()', mountOnExpress('/api/v1', express.json()), {
  rendersBodies: true,
});
describeRouter(
  'Express 5 behind cors, compression and a logger',
  mountOnExpress(
    '/api/v1',
    cors(),
    compression({ threshold: 0 }),
    log(() => {}),
  ),
);

it('lets `authenticate` see a parameter of the path that middleware copied into a header', async ({
  onTestFinished,
}) => {
  const options = {
    authenticate: (apiKey: string, { headers }: { readonly headers: http.IncomingHttpHeaders }) =>
      apiKey === `key-of-${headers['x-tenant'] as string}` ? { account: 'acct' } : undefined,
  };
  const gateway = await startGateway(options, (router) => {
    const app = express();
    app.use('/t/:tenant/v1', (request, _response, next) => {
      request.headers['x-tenant'] = request.params.tenant;
      next();
    });
    app.use('/t/:tenant/v1', router);
    return listen(http.createServer(app), '/t');
  });
  onTestFinished(() => gateway.close());
  const statusOf = async (tenant: string, key: string): Promise<number> => {
    const headers = { authorization: `Bearer ${key}`, 'x-tenant': 'acme' };
    const response = await gateway.fetch(`/${tenant}/v1/models`, { headers });
    await response.body?.cancel();
    return response.status;
  };
  expect(await statusOf('acme', 'key-of-acme')).toBe(200);
  expect(await statusOf('initech', 'key-of-acme')).toBe(401);
  expect(await statusOf('acme', 'key-of-acme')).toBe(200);
});

function mountOnExpress(path: string, ...before: RequestHandler[]): Mount {
  return (router) => {
    const app = express();
    app.use(...before, (_request, _response, next) => {
      next();
    });
    app.use(path, router);
    return listen(http.createServer(app), path);
  };
}

/** Tells what it sees once a response is over, as morgan does. */
function log(tell: (line: string) => void): RequestHandler {
  return (request, response, next) => {
    response.once('close', () => {
      tell(`${request.method} ${request.originalUrl} ${response.statusCode}`);
    });
    next();
  };
}

describe('the contract of a handler', () => {
  it.each<
    [string, (router: ChatCompletionsRouter, settle: (request: Promise<unknown>) => void) => http.Server]
  >([
    [
      'Node',
      (router, settle) =>
        http.createServer((request, response) => {
          settle(router(request, response));
        }),
    ],
    [
      'Web',
      (router, settle) =>
        createWebServer((request) => {
          const response = router.fetch(request);
          settle(response);
          return response;
        }),
    ],
  ])('is settled however a request ends: %s', async (_door, createServer) => {
    const promises: Promise<unknown>[] = [];
    const gateway = await startGateway({}, (router) =>
      listen(
        createServer(router, (promise) => promises.push(promise)),
        '/v1',
      ),
    );
    const stream = { ...QUESTION, stream: true };
    await (await gateway.post(QUESTION)).text();
    await (await gateway.post({})).text();
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    await (await gateway.post(stream)).body?.cancel();
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello').slice(0, -20), () => response.destroy());
    };
    await expect(gateway.post(stream).then((response) => response.text())).rejects.toThrow('terminated');
    await Promise.all(promises);
    expect(promises).toHaveLength(4);
    await gateway.close();
  });
});

describe('Express around the router', () => {
  it('keeps headers that middleware set before it, and tells a logger of each ending', async () => {
    const lines: string[] = [];
    let logged: () => void = () => {};
    const gateway = await startGateway(
      {},
      mountOnExpress(
        '/v1',
        log((line) => {
          lines.push(line);
          logged();
        }),
        cors({ origin: 'https://app.example', credentials: true, exposedHeaders: ['x-request-id'] }),
      ),
    );
    gateway.provider.script = answerStream(STREAM);
    const response = await gateway.post({ ...QUESTION, stream: true });
    await response.text();
    expect(response.headers.get('access-control-allow-origin')).toBe('https://app.example');
    expect(response.headers.get('access-control-expose-headers')).toBe('x-request-id');

    gateway.provider.script = async (answer) => {
      beginStream(answer);
      answer.write(text('Hello'));
    };
    const left = await gateway.post({ ...QUESTION, stream: true });
    const over = new Promise<void>((resolve) => (logged = resolve));
    await left.body?.cancel();
    await over;
    expect(lines).toEqual(['POST /v1/chat/completions 200', 'POST /v1/chat/completions 200']);
    await gateway.close();
  });

  it('keeps what middleware varies by, beside what the router does', async () => {
    const page = 'https://app.example';
    const gateway = await startGateway(
      { cors: { origins: [page] }, hooks: { onContent: () => {} } },
      mountOnExpress('/v1', (_request, response, next) => {
        response.vary('accept-encoding').vary('cookie');
        next();
      }),
    );
    const headers = { origin: page };
    const answer = await gateway.post(QUESTION, { headers });
    expect(answer.headers.get('vary')).toBe('accept-encoding, cookie, origin');
    const list = await gateway.fetch('/models', { headers });
    expect(list.headers.get('vary')).toBe('accept-encoding, cookie, origin, authorization');
    await gateway.close();

    const plain = await startGateway(
      {},
      mountOnExpress('/v1', (_request, response, next) => {
        response.vary('accept-encoding');
        next();
      }),
    );
    const unchanged = await plain.fetch('/models');
    expect(unchanged.headers.get('vary')).toBe('accept-encoding, authorization');
    await plain.close();
  });

  it('compresses JSON where the app does, and never a stream', async () => {
    const gateway = await startGateway({}, mountOnExpress('/v1', compression({ threshold: 0 })));
    const json = await gateway.post(QUESTION);
    expect(json.headers.get('content-encoding')).toMatch(/gzip|br/);
    expect(await json.json()).toMatchObject({ object: 'chat.completion' });
    gateway.provider.script = answerStream(STREAM);
    const stream = await gateway.post({ ...QUESTION, stream: true });
    expect(stream.headers.get('content-encoding')).toBeNull();
    await stream.text();
    await gateway.close();
  });

  it.each<[string, (router: NodeHandler) => express.Express]>([
    ['a wildcard', (router) => express().use('/v1/*path', router)],
    ['a route for all methods', (router) => express().all('/v1/*path', router)],
  ])('may mount it at %s', async (_where, mount) => {
    const gateway = await startGateway({}, (router) => listen(http.createServer(mount(router)), '/v1'));
    expect((await gateway.fetch('/models?x=1')).status).toBe(200);
    expect((await gateway.fetch('/models/acme/fast')).status).toBe(200);
    expect((await gateway.fetch('/credits')).status).toBe(200);
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await gateway.close();
  });
});
