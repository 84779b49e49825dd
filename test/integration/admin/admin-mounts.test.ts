import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import { getRequestListener } from '@hono/node-server';
import { bodyParser } from '@koa/bodyparser';
import express from 'express';
import fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { toFastifyHandler, toFastifyPlugin } from '../../../src/fastify.ts';
import { toHonoHandler } from '../../../src/hono.ts';
import type { WebHandler } from '../../../src/index.ts';
import { toKoaMiddleware } from '../../../src/koa.ts';
import { toNextHandlers, toNextPagesHandler } from '../../../src/next.ts';
import { type AdminDoor, type AdminMount, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import { listen, type Mounted } from '../../helpers/gateway.ts';
import { createWebServer } from '../../helpers/web-server.ts';

async function listenFastify(app: FastifyInstance, path: string): Promise<Mounted> {
  await app.listen({ port: 0, host: '127.0.0.1' });
  return {
    baseURL: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}${path}`,
    close: async () => {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

function koa(path: string, ...before: Koa.Middleware[]): AdminMount {
  return (admin) => {
    const app = new Koa();
    for (const middleware of before) app.use(middleware);
    app.use(toKoaMiddleware(admin, { prefix: path }));
    return listen(http.createServer(app.callback()), path);
  };
}

const MOUNTS: Readonly<Record<string, AdminMount>> = {
  'node:http': (admin) => listen(http.createServer(admin), '/admin'),
  'node:http, at a path that nobody named': (admin) => listen(http.createServer(admin), '/internal/ops'),
  'Express 5': (admin) => listen(http.createServer(express().use('/admin', admin)), '/admin'),
  'Express 5 behind express.json()': (admin) =>
    listen(http.createServer(express().use(express.json()).use('/ops/api', admin)), '/ops/api'),
  'Express 5, in a sub-app': (admin) => {
    const api = express.Router();
    api.use('/', admin);
    return listen(http.createServer(express().use('/api/admin/', api)), '/api/admin');
  },
  'Fastify 5': (admin) => {
    const app = fastify();
    app.register(toFastifyPlugin(admin), { prefix: '/admin' });
    return listenFastify(app, '/admin');
  },
  'Fastify 5 behind its own parsers': (admin) => {
    const app = fastify();
    for (const path of ['/admin', '/admin/*']) app.all(path, toFastifyHandler(admin));
    return listenFastify(app, '/admin');
  },
  'Koa 3': koa('/admin'),
  'Koa 3 behind @koa/bodyparser': koa('/ops', bodyParser()),
  'Hono 4': (admin) => {
    const app = new Hono();
    app.all('/admin/*', toHonoHandler(admin));
    return listen(http.createServer(getRequestListener(app.fetch)), '/admin');
  },
  'Hono 4, with app.mount': (admin) => {
    const app = new Hono();
    app.mount('/admin', admin.fetch);
    return listen(http.createServer(getRequestListener(app.fetch)), '/admin');
  },
  'the App Router of Next.js': (admin) => {
    const handlers: Readonly<Record<string, WebHandler>> = { ...toNextHandlers(admin) };
    const serve: WebHandler = (request) => handlers[request.method]!(request);
    return listen(createWebServer(serve), '/api/admin');
  },
  'the Pages Router of Next.js': (admin) => {
    const handler = toNextPagesHandler(admin);
    return listen(
      http.createServer((request, response) => void handler(request, response)),
      '/api/admin',
    );
  },
};

describe.each(Object.entries(MOUNTS))('the admin router on %s', (_name, mount) => {
  let door: AdminDoor;

  beforeEach(async () => {
    door = await startAdmin({ mount });
  });

  afterEach(async () => {
    await door.close();
  });

  it('grants, lists, freezes, makes a key and revokes it', async () => {
    const granted = await door.ask('POST', '/accounts/acme/grants', { id: 'pay_1', amount: '25.00' });
    expect(granted).toMatchObject({
      status: 201,
      body: { id: 'pay_1', account: 'acme', available: '25.00', duplicate: false },
    });
    expect(granted.headers.get('cache-control')).toBe('no-store');
    expect(await door.ask('GET', '/accounts')).toMatchObject({
      status: 200,
      body: { object: 'list', data: [{ id: 'acme', balance: '25.00', frozen: false }], next_cursor: null },
    });
    expect(await door.ask('PATCH', '/accounts/acme', { frozen: true })).toMatchObject({
      status: 200,
      body: { id: 'acme', frozen: true },
    });
    const { body: created } = await door.ask('POST', '/accounts/acme/keys', { name: 'prod' });
    expect(created.key).toMatch(/^sk-ccr-/);
    expect(await door.ask('DELETE', `/accounts/acme/keys/${created.id}`)).toMatchObject({
      status: 200,
      body: { id: created.id, state: 'revoked' },
    });
    expect(door.audits.map(({ action, operator }) => `${operator} ${action}`)).toEqual([
      'ada grants.create',
      'ada accounts.update',
      'ada keys.create',
      'ada keys.revoke',
    ]);
  });

  it('takes a query, and a slash at the end', async () => {
    for (const id of ['a', 'b', 'c']) await door.router.credits.grant(id, '1.00', { id: 'g' });
    expect(await door.ask('GET', '/accounts/?limit=2&cursor=a')).toMatchObject({
      body: { data: [{ id: 'b' }, { id: 'c' }], next_cursor: null },
    });
  });

  it('refuses unauthenticated clients, bad input and unknown paths in the shape of OpenAI', async () => {
    const stranger = await door.fetch('/accounts');
    expect(stranger.status).toBe(401);
    expect(await stranger.json()).toEqual({
      error: {
        message: expect.any(String),
        type: 'authentication_error',
        param: null,
        code: 'unauthorized',
      },
    });
    expect(await door.ask('POST', '/accounts/acme/grants', { id: 'pay_1', amount: 25 })).toMatchObject({
      status: 400,
      body: { error: { type: 'invalid_request_error', code: 'invalid_value', param: 'amount' } },
    });
    expect(await door.ask('GET', '/accounts/acme/nothing')).toMatchObject({
      status: 404,
      body: { error: { code: 'unknown_endpoint' } },
    });
    const put = await door.ask('PUT', '/accounts/acme', { frozen: true });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, PATCH, DELETE, HEAD, OPTIONS']);
  });

  it('shows the page at the mount, and asks a browser for a token there', async () => {
    const authorization = `Bearer ${OPERATOR_TOKEN}`;
    for (const path of ['', '/']) {
      const shown = await door.fetch(path, { headers: { authorization, accept: 'text/html,*/*' } });
      expect([shown.status, shown.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
      expect(shown.headers.get('content-security-policy')).toContain("connect-src 'self'");
      expect(await shown.text()).toMatch(/^<!doctype html>/i);
      const navigated = await door.fetch(path, { headers: { accept: 'text/html,*/*' } });
      expect([navigated.status, navigated.headers.get('content-type')]).toEqual([
        200,
        'text/html; charset=utf-8',
      ]);
      expect(await navigated.text()).toContain('<html data-session="none" ');
    }
    const program = await door.fetch('/');
    expect([program.status, await program.json()]).toMatchObject([401, { error: { code: 'unauthorized' } }]);
  });

  it('answers HEAD without a body, and OPTIONS to everybody', async () => {
    await door.router.credits.grant('acme', '1.00', { id: 'g' });
    const headers = { authorization: `Bearer ${OPERATOR_TOKEN}` };
    const head = await door.fetch('/accounts', { method: 'HEAD', headers });
    expect([head.status, await head.text()]).toEqual([200, '']);
    const options = await door.fetch('/accounts', { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS']);
    expect(options.headers.get('access-control-allow-origin')).toBeNull();
  });
});

describe('the mount of the admin router', () => {
  it('may have words of its paths in it, where it is named', async () => {
    const basePath = '/accounts/usage';
    const mount: AdminMount = (admin) => listen(http.createServer(admin), basePath);
    const door = await startAdmin({ mount, basePath });
    await door.router.credits.grant('acme', '1.00', { id: 'g' });
    expect(await door.ask('GET', '/accounts/acme')).toMatchObject({ status: 200, body: { id: 'acme' } });
    await door.close();
  });

  it('says that a request is settled once its audit is', async () => {
    let heard: () => void = () => {};
    let settled = false;
    let told: Promise<void> | undefined;
    const mount: AdminMount = (admin) =>
      listen(
        http.createServer((request, response) => {
          void admin(request, response);
          told = admin.settled(request).then(() => void (settled = true));
        }),
        '/admin',
      );
    const door = await startAdmin({
      mount,
      onAudit: () => new Promise<void>((resolve) => (heard = resolve)),
    });
    await door.ask('POST', '/accounts/acme/grants', { id: 'pay_1', amount: '1.00' });
    expect(settled).toBe(false);
    heard();
    await told;
    await door.close();
  });
});
