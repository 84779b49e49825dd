import { describe, expect, it } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { useApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';
import { QUESTION } from '../../helpers/gateway.ts';

/** AdonisJS's server with its body parser, booted by its own factories: no whole app. */
const BEFORE = `
import { createServer } from 'node:http';
import { AppFactory } from '@adonisjs/application/factories';
import { BodyParserMiddlewareFactory } from '@adonisjs/bodyparser/factories';
import { ServerFactory } from '@adonisjs/http-server/factories';

const parser = new BodyParserMiddlewareFactory().create();
class BodyParser {
  handle(context, next) {
    return parser.handle(context, next);
  }
}
const asMiddleware = (middleware) => async () => ({ default: middleware });
const app = new AppFactory().create(new URL('./', import.meta.url), () => {});
await app.init();
const server = new ServerFactory().merge({ app }).create();
const route = server.getRouter();
route.use([asMiddleware(BodyParser)]);
`;
const AFTER = `
await server.boot();
createServer(server.handle.bind(server)).listen(8787);
`;
const IMPORT = "import { router } from './router.ts';\n";
const ROUTE = block("start/routes.ts, beside: import route from '@adonisjs/core/services/router'");

describe('AdonisJS 9', () => {
  const app = useApp(() => {
    const folder = assembleApp('adonis', {
      'ai_middleware.mjs': block('app/middleware/ai_middleware.ts'),
      'adonis.mjs': `${BEFORE}server.use([() => import('./ai_middleware.mjs')]);${AFTER}`,
    });
    return { cwd: folder, args: ['adonis.mjs'] };
  });

  describeGateway('AdonisJS 9, by a server middleware', () => app.startAt('/v1'));
  describeMountEdges('AdonisJS 9, by a server middleware', () => app.startAt('/v1'));
});

describe('AdonisJS 9, by a route', () => {
  const app = useApp(() => {
    const unaware = ROUTE.replace("'/v1/", "'/unaware/v1/").replace(
      /Object\.assign\((request\.request), .*?\}\)/,
      '$1',
    );
    const folder = assembleApp('adonis-routes', {
      'adonis.mjs': BEFORE + IMPORT + ROUTE + unaware + AFTER,
    });
    return { cwd: folder, args: ['adonis.mjs'] };
  });

  describeGateway('AdonisJS 9, behind its body parser', () => app.startAt('/v1'));
  describeMountEdges('AdonisJS 9, behind its body parser', () => app.startAt('/v1'), {
    parsesBodies: true,
    longBodyStatus: 413,
  });

  it('says which property to set where the body parser took the body', async () => {
    const gateway = await app.startAt('/unaware/v1');
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: 'truncated_body', message: expect.stringMatching(/req\.rawBody .* or req\.body/) },
    });
  });
});
