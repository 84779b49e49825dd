import { describe } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';

describe('React Router 8 with @react-router/serve', () => {
  const app = useApp(async () => {
    const mount = block("app/v1.ts, in app/routes.ts: route('v1/*', 'v1.ts')");
    const folder = assembleApp('react-router', { 'app/v1.ts': mount });
    await runBuild(folder, [bin('@react-router/dev/bin.cjs'), 'build']);
    return { cwd: folder, args: [bin('@react-router/serve/bin.cjs'), 'build/server/index.js'] };
  });

  // Express, under @react-router/serve, adds the charset.
  describeGateway('React Router 8', () => app.startAt('/v1'), { addsCharset: true });
  describeMountEdges('React Router 8', () => app.startAt('/v1'));
});
