import { getRequestListener } from '@hono/node-server';
import { Hono, type MiddlewareHandler } from 'hono';
import { compress } from 'hono/compress';
import { cors } from 'hono/cors';
import { logger } from 'hono/logger';
import * as http from 'node:http';
import { secureHeaders } from 'hono/secure-headers';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { toHonoHandler } from '../../../src/hono.ts';
import { describeRouter } from '../../contracts/index.ts';
import { type Gateway, listen, type Mount, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, beginStream, STREAM, text, USAGE_EVENT } from '../../helpers/provider.ts';

/** The handler at a path, after others. */
function mount(path: string, ...before: MiddlewareHandler[]): Mount {
  return (router) => {
    const app = new Hono();
    for (const middleware of before) app.use(middleware);
    app.all(`${path}/*`, toHonoHandler(router));
    return listen(http.createServer(getRequestListener(app.fetch)), path);
  };
}

describeRouter('Hono 4 on Node', mount('/v1'));
describeRouter(
  'Hono 4 on Node, at the root of a sub-app behind cors, compress, secure-headers and a logger',
  (router) => {
    const app = new Hono();
    const api = new Hono();
    api.all('/*', toHonoHandler(router));
    app.use(
      cors(),
      compress(),
      secureHeaders(),
      logger(() => {}),
    );
    app.route('/api/v1', api);
    return listen(http.createServer(getRequestListener(app.fetch)), '/api/v1');
  },
);
describeRouter('Hono 4 on Node, with app.mount', (router) => {
  const app = new Hono();
  app.mount('/v1', router.fetch);
  return listen(http.createServer(getRequestListener(app.fetch)), '/v1');
});

/** Odd but valid: a big integer, a float that is whole, a repeated key, an escape. */
const BODY = '{"model":"acme/fast","messages":[],"seed":12345678901234567890,"t":1.0,"t":2,"e":"\\u00e9"}';

describe('the Hono handler', () => {
  let gateway: Gateway;

  afterEach(async () => {
    await gateway.close();
  });

  it.each(['json', 'text', 'arrayBuffer'] as const)(
    "sends the client's bytes after a middleware has read them with c.req.%s()",
    async (read) => {
      gateway = await startGateway(
        {},
        mount('/v1', async (context, next) => {
          await context.req[read]();
          await next();
        }),
      );
      expect((await gateway.post(BODY)).status).toBe(200);
      expect(String(gateway.provider.received[0]?.body)).toBe(BODY.replace('acme/fast', 'upstream-model'));
    },
  );

  it('says so when a middleware has read the body past Hono', async () => {
    gateway = await startGateway(
      {},
      mount('/v1', async (context, next) => {
        await context.req.raw.text();
        await next();
      }),
    );
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'truncated_body' } });
  });

  it('lets middleware see the response, and set headers before and after it', async () => {
    let seen: number | undefined;
    gateway = await startGateway(
      {},
      mount('/v1', cors(), async (context, next) => {
        await next();
        seen = context.res.status;
        context.header('x-after', 'yes');
      }),
    );
    gateway.provider.script = answerStream(STREAM, 20);
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(response.headers.get('x-after')).toBe('yes');
    expect(seen).toBe(200);
    expect(await response.text()).toBe(STREAM.filter((piece) => piece !== USAGE_EVENT).join(''));
  });

  it('gives the server nothing to log when a client leaves', async () => {
    const logged = [vi.spyOn(console, 'error'), vi.spyOn(console, 'info')];
    gateway = await startGateway({}, mount('/v1'));
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    await response.body?.cancel();
    expect((await settled).ending).toBe('client_gone');
    await (await gateway.fetch('/models')).text();
    for (const log of logged) {
      expect(log).not.toHaveBeenCalled();
      log.mockRestore();
    }
  });
});
