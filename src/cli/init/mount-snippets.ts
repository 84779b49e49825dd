import { importLine } from './source-text.ts';

/** Where a router can run: as a standalone server, or in an app. */
export const APP_KINDS = ['standalone', 'node', 'express', 'next', 'fastify', 'koa', 'hono', 'nest'] as const;

export type AppKind = (typeof APP_KINDS)[number];

/** Packages that identify the kind of app; the first match wins. */
const PACKAGES: readonly (readonly [name: string, app: AppKind])[] = [
  ['next', 'next'],
  ['@nestjs/core', 'nest'],
  ['express', 'express'],
  ['fastify', 'fastify'],
  ['koa', 'koa'],
  ['hono', 'hono'],
];

/** Detects the kind of app by its dependencies; `standalone` by default. */
export function detectAppKind(manifest: unknown): AppKind {
  const dependencies: object = Object(Reflect.get(Object(manifest), 'dependencies'));
  return PACKAGES.find(([name]) => Object.hasOwn(dependencies, name))?.[1] ?? 'standalone';
}

const PACKAGE = 'chat-completions-router';

/** Code that mounts the router in an app; `config` is the import specifier of the config. */
export function mountSnippet(app: Exclude<AppKind, 'standalone'>, config: string): string {
  const { imports = [], mount } = MOUNTS[app];
  const lines = [
    importLine('{ createChatCompletionsRouter }', PACKAGE),
    ...imports,
    importLine('config', config),
    '',
    'const router = createChatCompletionsRouter(config);',
    ...mount,
  ];
  return lines.join('\n');
}

interface MountText {
  readonly imports?: readonly string[];
  readonly mount: readonly string[];
}

const MOUNTS: Readonly<Record<Exclude<AppKind, 'standalone'>, MountText>> = {
  node: {
    imports: [importLine('{ createServer }', 'node:http')],
    mount: ['createServer(router).listen(8787); // http://localhost:8787/v1'],
  },
  express: { mount: ["app.use('/v1', router); // before express.json()"] },
  next: {
    imports: [importLine('{ toNextHandlers }', `${PACKAGE}/next`)],
    mount: ['export const { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } = toNextHandlers(router);'],
  },
  fastify: {
    imports: [importLine('{ toFastifyPlugin }', `${PACKAGE}/fastify`)],
    mount: ["app.register(toFastifyPlugin(router), { prefix: '/v1' });"],
  },
  koa: {
    imports: [importLine('{ toKoaMiddleware }', `${PACKAGE}/koa`)],
    mount: ["app.use(toKoaMiddleware(router, { prefix: '/v1' })); // before body parsers"],
  },
  hono: {
    imports: [importLine('{ toHonoHandler }', `${PACKAGE}/hono`)],
    mount: ["app.all('/v1/*', toHonoHandler(router));"],
  },
  nest: { mount: ["app.use('/v1', router); // between NestFactory.create() and app.listen()"] },
};
