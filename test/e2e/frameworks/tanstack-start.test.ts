import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';
import { documentedPage } from '../../helpers/documented.ts';

/** As the page has it. */
const [, SERVE_LINE = ''] = /^npx srvx (.*)$/m.exec(documentedPage('frameworks.md')) ?? [];
const SERVE = SERVE_LINE.split(' ');
const ROUTE = 'src/routes/v1/$.ts';

describe('TanStack Start 1 on srvx', () => {
  const app = useApp(async () => {
    const folder = assembleApp('tanstack-start', { [ROUTE]: block(ROUTE) });
    await runBuild(folder, [bin('vite/bin/vite.js'), 'build']);
    return { cwd: folder, args: [bin('srvx/bin/srvx.mjs'), ...SERVE] };
  });

  describeGateway('TanStack Start 1', () => app.startAt('/v1'));
  describeMountEdges('TanStack Start 1', () => app.startAt('/v1'));
});
