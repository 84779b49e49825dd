import compress from '@fastify/compress';
import cors from '@fastify/cors';
import fastify, { type FastifyInstance } from 'fastify';
import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, type Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { createGunzip, type Gunzip } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';

import { toFastifyHandler, toFastifyPlugin } from '../../../src/fastify.ts';
import { describeRouter } from '../../contracts/index.ts';
import { type Gateway, type Mount, type Mounted, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

async function listen(app: FastifyInstance, path: string): Promise<Mounted> {
  await app.listen({ port: 0, host: '127.0.0.1' });
  return {
    baseURL: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}${path}`,
    close: async () => {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

/** The plugin at a prefix, after whatever the app does before. */
function mount(prefix: string, before: (app: FastifyInstance) => unknown = () => {}): Mount {
  return async (router) => {
    const app = fastify();
    await before(app);
    app.register(toFastifyPlugin(router), { prefix });
    return listen(app, prefix);
  };
}

describeRouter('Fastify 5', mount('/v1'));
describeRouter('Fastify 5, at the root of a sub-app', (router) => {
  const app = fastify();
  app.register(
    async (api) => {
      await api.register(toFastifyPlugin(router));
    },
    { prefix: '/api/v1/' },
  );
  return listen(app, '/api/v1');
});
describeRouter('Fastify 5 behind a parser of its own that kept the bytes', (router) => {
  const app = fastify({ bodyLimit: 10e6 });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    done(null, body);
  });
  app.all('/v1/*', toFastifyHandler(router));
  return listen(app, '/v1');
});

describeRouter(
  'Fastify 5 behind its own parsers',
  (router) => {
    const app = fastify();
    app.all('/v1/*', toFastifyHandler(router));
    return listen(app, '/v1');
  },
  { rendersBodies: true },
);
describeRouter(
  'Fastify 5 with @fastify/cors, @fastify/compress and a logger',
  mount('/api/v1', async (app) => {
    await app.register(cors, { origin: true });
    await app.register(compress, { threshold: 0 });
    app.addHook('onResponse', async () => {});
  }),
);

/** Odd but valid: a big integer, a float that is whole, a repeated key, an escape. */
const BODY = '{"model":"acme/fast","messages":[],"seed":12345678901234567890,"t":1.0,"t":2,"e":"\\u00e9"}';
const AT_PROVIDER = BODY.replace('acme/fast', 'upstream-model');

describe('the Fastify plugin', () => {
  let gateway: Gateway;

  afterEach(async () => {
    await gateway.close();
  });

  it("leaves bodies unread, whatever the app's parsers do with theirs", async () => {
    gateway = await startGateway(
      {},
      mount('/v1', (app) => {
        app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, _body, done) => {
          done(new Error('never called'), undefined);
        });
      }),
    );
    expect((await gateway.post(BODY)).status).toBe(200);
    expect(String(gateway.provider.received[0]?.body)).toBe(AT_PROVIDER);
  });

  it('leaves the app its own routes and their parsers, also where both are at the root', async () => {
    gateway = await startGateway(
      {},
      mount('', (app) => {
        app.get('/', (_request, reply) => reply.send('home'));
        app.post('/echo', (request, reply) => reply.send(request.body));
      }),
    );
    expect(await (await gateway.fetch('/')).text()).toBe('home');
    const response = await gateway.fetch('/echo', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"n":1}',
    });
    expect(await response.json()).toEqual({ n: 1 });
  });

  it('keeps the headers that hooks set, of each kind', async () => {
    gateway = await startGateway(
      {},
      mount('/v1', (app) => {
        app.addHook('onRequest', async (_request, reply) => {
          reply.header('access-control-allow-origin', '*').header('set-cookie', ['a=1', 'b=2']);
        });
        app.addHook('preHandler', async (_request, reply) => {
          reply.header('x-limit', 7);
        });
      }),
    );
    gateway.provider.script = answerStream(STREAM);
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    expect(response.headers.get('x-limit')).toBe('7');
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    await response.text();
  });

  it('lets a hook of the app refuse a request, in its own words', async () => {
    gateway = await startGateway(
      {},
      mount('/v1', (app) => {
        app.addHook('preHandler', async () => {
          throw Object.assign(new Error('Too fast'), { statusCode: 429 });
        });
      }),
    );
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(429);
    expect(await response.json()).toMatchObject({ message: 'Too fast' });
    expect(gateway.provider.received).toHaveLength(0);
  });

  it('lets hooks run that come after the response', async () => {
    let tell: (status: number) => void = () => {};
    const told = new Promise<number>((resolve) => {
      tell = resolve;
    });
    gateway = await startGateway(
      {},
      mount('/v1', (app) => {
        app.addHook('onResponse', async (_request, reply) => {
          tell(reply.raw.statusCode);
        });
      }),
    );
    await (await gateway.post({ ...QUESTION, model: 'acme/none' })).text();
    expect(await told).toBe(404);
  });

  it('reads the body from what a preParsing hook made of it', async () => {
    gateway = await startGateway(
      {},
      mount('/v1', (app) => {
        app.addHook('preParsing', async (_request, _reply, payload): Promise<Readable> => {
          return payload.pipe(new PassThrough());
        });
      }),
    );
    expect((await gateway.post(BODY)).status).toBe(200);
    expect(String(gateway.provider.received[0]?.body)).toBe(AT_PROVIDER);
  });

  it('reads what a preParsing hook makes of a body that comes after its head', async () => {
    const piped = Promise.withResolvers<PassThrough>();
    gateway = await startGateway(
      {},
      mount('/v1', (app) => {
        app.addHook('preParsing', async (_request, _reply, payload): Promise<Readable> => {
          const stream = payload.pipe(new PassThrough());
          piped.resolve(stream);
          return stream;
        });
      }),
    );
    const request = http.request(`${gateway.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    });
    request.flushHeaders();
    const stream = await piped.promise;
    // Once the router reads, and not before.
    while (!stream.readableFlowing) await turn();
    request.end(BODY);
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    expect(response.statusCode).toBe(200);
    response.resume();
    expect(String(gateway.provider.received[0]?.body)).toBe(AT_PROVIDER);
  });

  it.each(['with its head', 'after the answer'])(
    'survives a body %s that a hook cannot decompress, of a client without a key',
    async (when) => {
      const piped = Promise.withResolvers<Gunzip>();
      gateway = await startGateway(
        {},
        mount('/v1', (app) => {
          app.addHook('preParsing', async (_request, _reply, payload): Promise<Readable> => {
            const gunzip = payload.pipe(createGunzip());
            piped.resolve(gunzip);
            return gunzip;
          });
        }),
      );
      const request = http.request(`${gateway.baseURL}/chat/completions`, { method: 'POST' });
      const answered = once(request, 'response');
      if (when === 'with its head') request.end('garbage');
      else request.flushHeaders();
      const [response] = (await answered) as [http.IncomingMessage];
      expect(response.statusCode).toBe(401);
      response.resume();
      const gunzip = await piped.promise;
      const closed = new Promise((resolve) => gunzip.once('close', resolve));
      if (!request.writableEnded) request.end('garbage');
      if (!gunzip.closed) await closed;
      expect(gunzip.errored?.message).toBe('incorrect header check');
      // Without one, Node has ended the process.
      expect(gunzip.listenerCount('error')).toBeGreaterThan(0);
    },
  );

  it.each(['x', 'multipart/form-data; boundary=a'])(
    'refuses the content type %j in the shape of OpenAI',
    async (type) => {
      gateway = await startGateway({}, mount('/v1'));
      const response = await gateway.post(QUESTION, { headers: { 'content-type': type } });
      expect(response.status).toBe(415);
      expect(await response.json()).toMatchObject({ error: { code: 'unsupported_content_type' } });
    },
  );

  it('answers at the mount itself and for every method that Fastify knows', async () => {
    gateway = await startGateway({}, mount('/v1'));
    for (const path of ['', '/', '/models/', '/models']) {
      const response = await gateway.fetch(path);
      expect(response.headers.get('x-request-id'), path).not.toBeNull();
      expect(response.status, path).toBe(path.startsWith('/models') ? 200 : 404);
    }
    const head = await gateway.fetch('/models', { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      expect((await gateway.fetch('/models', { method })).status, method).toBe(405);
    }
    const options = await fetch(`${gateway.baseURL}/models`, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS']);
  });
});

describe('the Fastify handler', () => {
  it("takes the object that Fastify's own parser left", async () => {
    const gateway = await startGateway({}, async (router) => {
      const app = fastify();
      app.all('/v1/*', toFastifyHandler(router));
      return listen(app, '/v1');
    });
    expect((await gateway.post(BODY)).status).toBe(200);
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toEqual(JSON.parse(AT_PROVIDER));
    await gateway.close();
  });
});
