import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';

const ROUTE = 'routes/v1/[...path].ts';
const FETCH = `import { router } from './router.ts';
export default (event) => router.fetch(event.req);
`;

describe('Nitro 3.0.0', () => {
  const app = useApp(async () => {
    const folder = assembleApp('nitro', { [ROUTE]: block(ROUTE), 'routes/web/v1/[...path].ts': FETCH });
    await runBuild(folder, [bin('nitro/dist/cli/index.mjs'), 'build']);
    return { cwd: folder, args: ['.output/server/index.mjs'] };
  });

  describeGateway('Nitro 3.0.0', () => app.startAt('/v1'));
  describeMountEdges('Nitro 3.0.0', () => app.startAt('/v1'));
  // srvx 0.8 aborts the request's signal once its body was read.
  describeGateway('Nitro 3.0.0, by its Web request', () => app.startAt('/web/v1'));
  describeMountEdges('Nitro 3.0.0, by its Web request', () => app.startAt('/web/v1'));
});
