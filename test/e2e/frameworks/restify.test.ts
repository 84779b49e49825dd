import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { useApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';

describe('restify 12', () => {
  const app = useApp(() => ({
    cwd: assembleApp('restify', { 'restify.mjs': block('restify.js') }),
    args: ['restify.mjs'],
  }));

  describeGateway('restify 12', () => app.startAt('/v1'));
  describeMountEdges('restify 12', () => app.startAt('/v1'));
});

describe('restify 12 behind gzipResponse', () => {
  const app = useApp(() => {
    const mount = block('restify: behind gzipResponse');
    const routes = ['get', 'head', 'post', 'put', 'patch', 'del', 'opts']
      .map((method) => `server.${method}('/v1/*', (request, response, next) => next());`)
      .join('\n');
    const whole = block('restify.js');
    const program =
      whole.slice(0, whole.indexOf('server.pre(')) +
      `server.use(restify.plugins.gzipResponse());\n${mount}\n${routes}\n` +
      whole.slice(whole.indexOf('server.listen('));
    return { cwd: assembleApp('restify-gzip', { 'restify.mjs': program }), args: ['restify.mjs'] };
  });

  describeGateway('restify 12 behind gzipResponse', () => app.startAt('/v1'));
  describeMountEdges('restify 12 behind gzipResponse', () => app.startAt('/v1'));
});
