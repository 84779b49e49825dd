import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { useApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';

describe('Elysia 1.4 on @elysiajs/node', () => {
  const app = useApp(() => ({
    cwd: assembleApp('elysia', { 'elysia.mjs': block('elysia.js') }),
    args: ['elysia.mjs'],
  }));

  describeGateway('Elysia 1.4', () => app.startAt('/v1'));
  describeMountEdges('Elysia 1.4', () => app.startAt('/v1'));
});
