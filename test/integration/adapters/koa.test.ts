import * as http from 'node:http';

import { bodyParser } from '@koa/bodyparser';
import Koa from 'koa';
import { afterEach, describe, expect, it } from 'vitest';

import { toKoaMiddleware } from '../../../src/koa.ts';
import { describeRouter } from '../../contracts/index.ts';
import { type Gateway, listen, type Mount, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

/** The middleware at a prefix, after others. */
function mount(prefix: string, ...before: Koa.Middleware[]): Mount {
  return (router) => {
    const app = new Koa();
    for (const middleware of before) app.use(middleware);
    app.use(toKoaMiddleware(router, { prefix }));
    return listen(http.createServer(app.callback()), prefix.replace(/\/$/, ''));
  };
}

/** Does what @koa/cors does. */
const cors: Koa.Middleware = async (context, next) => {
  context.set('access-control-allow-origin', '*');
  await next();
};

/** Does what koa-logger does: its line is written when everything after it is done. */
const log: Koa.Middleware = async (context, next) => {
  await next();
  expect(context.status).toBeGreaterThan(0);
};

/** Does what koa-mount does. */
function strip(prefix: string, middleware: Koa.Middleware): Koa.Middleware {
  return async (context, next) => {
    context.path = context.path.replace(prefix, '');
    await middleware(context, next);
  };
}

describeRouter('Koa 3', mount('/v1'));
describeRouter('Koa 3, at a path that ends with a slash', mount('/api/v1/'));
describeRouter(
  'Koa 3 behind @koa/bodyparser, CORS headers and a logger',
  mount('/v1', bodyParser(), cors, log),
);
describeRouter(
  'Koa 3 behind a parser of its own that keeps the text',
  mount('/v1', bodyParser({ enableTypes: ['text'], extendTypes: { text: ['application/json'] } })),
);
describeRouter('Koa 3, in a sub-app', (router) => {
  const app = new Koa();
  app.use(strip('/api/v1', toKoaMiddleware(router)));
  return listen(http.createServer(app.callback()), '/api/v1');
});

describe('the Koa middleware', () => {
  it('refuses a prefix under which nothing is', () => {
    const router = async (): Promise<void> => {};
    expect(() => toKoaMiddleware(router, { prefix: 'v1' })).toThrow(
      'prefix must begin with a slash, got "v1"',
    );
  });
});

describe('Koa with the middleware', () => {
  let gateway: Gateway;

  afterEach(async () => {
    await gateway.close();
  });

  it('leaves other paths to the app', async () => {
    gateway = await startGateway({}, (router) => {
      const app = new Koa();
      app.use(toKoaMiddleware(router, { prefix: '/v1' }));
      app.use((context) => {
        context.body = `app: ${context.path}`;
      });
      return listen(http.createServer(app.callback()), '');
    });
    expect(await (await gateway.fetch('/v1x/models')).text()).toBe('app: /v1x/models');
    expect(await (await gateway.fetch('/')).text()).toBe('app: /');
    expect((await gateway.fetch('/v1/models')).status).toBe(200);
    expect((await gateway.fetch('/v1')).headers.get('x-request-id')).not.toBeNull();
  });

  it('keeps headers of middleware before it, and lets it see the status after, and that it is not to respond', async () => {
    let seen: unknown;
    gateway = await startGateway(
      {},
      mount('/v1', async (context, next) => {
        context.set('access-control-allow-origin', '*');
        context.append('set-cookie', 'a=1');
        context.append('set-cookie', 'b=2');
        await next();
        seen = { status: context.status, respond: context.respond };
      }),
    );
    gateway.provider.script = answerStream(STREAM);
    const response = await gateway.post({ ...QUESTION, stream: true });
    await response.text();
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    expect(seen).toEqual({ status: 200, respond: false });
  });

  it("sends the client's bytes where a parser kept the text", async () => {
    const body = '{"model":"acme/fast","messages":[],"seed":12345678901234567890,"t":1.0,"t":2}';
    gateway = await startGateway({}, mount('/v1', bodyParser()));
    expect((await gateway.post(body)).status).toBe(200);
    expect(String(gateway.provider.received[0]?.body)).toBe(body.replace('acme/fast', 'upstream-model'));
  });
});
