import { describe, expect, it } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { useApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';
import { QUESTION } from '../../helpers/gateway.ts';

/** A server with these routes, by what the docs have for one with an extension. */
function serverWith(routes: string): string {
  const whole = block('hapi.js');
  const extension = whole.slice(whole.indexOf('server.ext('), whole.indexOf('await server.start'));
  return whole.replace(extension, routes);
}

/** The route behind the parser, as somebody writes it who hasn't read of it. */
const UNAWARE = block('hapi: a route behind its parser').replace(
  'Object.assign(raw.req, { body: payload })',
  'raw.req',
);

describe('Hapi 21', () => {
  const app = useApp(() => ({
    cwd: assembleApp('hapi', { 'hapi.mjs': block('hapi.js') }),
    args: ['hapi.mjs'],
  }));

  describeGateway('Hapi 21, by an extension', () => app.startAt('/v1'));
  describeMountEdges('Hapi 21, by an extension', () => app.startAt('/v1'));
});

describe('Hapi 21, by routes', () => {
  const app = useApp(() => {
    const routes = [
      block('hapi: a route that leaves the body alone'),
      block('hapi: a route behind its parser').replace("'/v1/", "'/parsed/v1/"),
      UNAWARE.replace("'/v1/", "'/unaware/v1/"),
    ];
    return {
      cwd: assembleApp('hapi-routes', { 'hapi.mjs': serverWith(routes.join('\n')) }),
      args: ['hapi.mjs'],
    };
  });

  describeGateway('Hapi 21, by a route', () => app.startAt('/v1'));
  describeMountEdges('Hapi 21, by a route', () => app.startAt('/v1'));
  describeGateway('Hapi 21, behind its parser', () => app.startAt('/parsed/v1'), { rendersBodies: true });
  describeMountEdges('Hapi 21, behind its parser', () => app.startAt('/parsed/v1'), {
    parsesBodies: true,
    longBodyStatus: 413,
  });

  it('says which property to set where its parser took the body', async () => {
    const gateway = await app.startAt('/unaware/v1');
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: 'truncated_body', message: expect.stringMatching(/req\.rawBody .* or req\.body/) },
    });
  });
});
