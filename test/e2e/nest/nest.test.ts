import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { type INestApplication, type MiddlewareConsumer, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';

import { toFastifyPlugin } from '../../../src/fastify.ts';
import type { NodeHandler } from '../../../src/index.ts';
import { describeRouter } from '../../contracts/index.ts';
import type { Mount, Mounted } from '../../helpers/gateway.ts';

const QUIET = { logger: false } as const;

/** An app's own module, which knows of no router. */
class AppModule {
  configure(): void {}
}
Module({})(AppModule);

/** A module that applies the router to all paths of a mount, as a middleware: behind Nest's own body parsers. */
function consumerOf(router: NodeHandler, routes: string): new () => object {
  class RouterModule {
    configure(consumer: MiddlewareConsumer): void {
      consumer.apply(router).forRoutes(routes);
    }
  }
  Module({})(RouterModule);
  return RouterModule;
}

async function listen(app: INestApplication, path: string): Promise<Mounted> {
  await app.listen(0, '127.0.0.1');
  const server = app.getHttpServer() as Server;
  return {
    baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    close: async () => {
      server.closeAllConnections();
      await app.close();
    },
  };
}

function onFastify(module: new () => object): Promise<NestFastifyApplication> {
  return NestFactory.create<NestFastifyApplication>(module, new FastifyAdapter(), QUIET);
}

const mountWithUse: Mount = async (router) => {
  const app = await NestFactory.create(AppModule, { ...QUIET, cors: true });
  app.use('/v1', router);
  return listen(app, '/v1');
};

const mountWithConsumer: Mount = async (router) => {
  const app = await NestFactory.create(consumerOf(router, '/api/v1/*path'), QUIET);
  return listen(app, '/api/v1');
};

describeRouter('NestJS 12 on Express', mountWithUse);
describeRouter("NestJS 12 on Express, as a module's middleware behind its body parser", mountWithConsumer, {
  rendersBodies: true,
});
describeRouter("NestJS 12 on Express, as a module's middleware, with rawBody", async (router) => {
  const app = await NestFactory.create(consumerOf(router, '/v1/*path'), { ...QUIET, rawBody: true });
  return listen(app, '/v1');
});
describeRouter('NestJS 12 on Fastify', async (router) => {
  const app = await onFastify(AppModule);
  app.enableCors();
  app.use('/v1', router);
  return listen(app, '/v1');
});
describeRouter("NestJS 12 on Fastify, as a module's middleware", async (router) => {
  return listen(await onFastify(consumerOf(router, '/api/v1/*path')), '/api/v1');
});
describeRouter('NestJS 12 on Fastify, as a plugin', async (router) => {
  const app = await onFastify(AppModule);
  await app.register(toFastifyPlugin(router), { prefix: '/api/v1' });
  return listen(app, '/api/v1');
});
