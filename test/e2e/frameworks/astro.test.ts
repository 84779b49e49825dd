import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';

const ROUTE = 'src/pages/v1/[...path].ts';

/** By its check against requests that another site's form could make. */
const REFUSED_WITHOUT_ORIGIN = { POST: 403, PUT: 403, PATCH: 403, DELETE: 403 };

describe('Astro 7 with @astrojs/node', () => {
  const app = useApp(async () => {
    const folder = assembleApp('astro', { [ROUTE]: block(ROUTE) });
    await runBuild(folder, [bin('astro/bin/astro.mjs'), 'build']);
    return { cwd: folder, args: ['dist/server/entry.mjs'] };
  });

  describeGateway('Astro 7', () => app.startAt('/v1'), { ignoresBackPressure: true });
  describeMountEdges('Astro 7', () => app.startAt('/v1'), { ownAnswers: REFUSED_WITHOUT_ORIGIN });
});
