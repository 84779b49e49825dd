/**
 * The router in a NestJS app.
 *
 *     npm run example -- nest
 */
import type { Server } from 'node:http';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { announce, models, port, providers } from '../demo/demo.ts';

class AppModule {
  readonly name = 'your app';
}
Module({})(AppModule); // @Module({}) in your app; Node runs this file as it is, and knows no decorators

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
app.use('/v1', router);

await app.listen(port, '127.0.0.1');
const server: Server = app.getHttpServer();
await announce(router, server);

async function close(): Promise<void> {
  await router.close(); // lets streams end, and charges them
  await app.close();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
