import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';

const ROUTE = 'server/routes/v1/[...path].ts';

describe('Nuxt 4', () => {
  const app = useApp(async () => {
    const folder = assembleApp('nuxt', { [ROUTE]: block(ROUTE) });
    await runBuild(folder, [bin('nuxt/bin/nuxt.mjs'), 'build']);
    return { cwd: folder, args: ['.output/server/index.mjs'] };
  });

  describeGateway('Nuxt 4', () => app.startAt('/v1'));
  describeMountEdges('Nuxt 4', () => app.startAt('/v1'));
});
