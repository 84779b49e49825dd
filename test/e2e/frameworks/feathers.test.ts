import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { useApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';

describe('Feathers 5 on Express', () => {
  const app = useApp(() => ({
    cwd: assembleApp('feathers', { 'feathers.mjs': block('feathers.js') }),
    args: ['feathers.mjs'],
  }));

  describeGateway('Feathers 5 on Express', () => app.startAt('/v1'));
  describeMountEdges('Feathers 5 on Express', () => app.startAt('/v1'));
});

describe('Feathers 5 on Koa', () => {
  const app = useApp(() => ({
    cwd: assembleApp('feathers-koa', { 'feathers.mjs': block('feathers: on Koa') }),
    args: ['feathers.mjs'],
  }));

  describeGateway('Feathers 5 on Koa', () => app.startAt('/v1'));
  describeMountEdges('Feathers 5 on Koa', () => app.startAt('/v1'));
});
