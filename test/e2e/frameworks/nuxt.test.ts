import { describe, expect, it } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { beginStream, DONE, sleep, text, USAGE_EVENT } from '../../helpers/provider.ts';

const ROUTE = 'server/routes/v1/[...path].ts';

/** What the docs advise against. */
const WEB = `import { router } from './router.ts';
export default defineEventHandler((event) => router.fetch(toWebRequest(event)));
`;

describe('Nuxt 4', () => {
  const app = useApp(async () => {
    const folder = assembleApp('nuxt', { [ROUTE]: block(ROUTE), 'server/routes/web/v1/[...path].ts': WEB });
    await runBuild(folder, [bin('nuxt/bin/nuxt.mjs'), 'build']);
    return { cwd: folder, args: ['.output/server/index.mjs'] };
  });

  describeGateway('Nuxt 4', () => app.startAt('/v1'));
  describeMountEdges('Nuxt 4', () => app.startAt('/v1'));

  it('makes answers to their end, by its Web request, for clients that left', async () => {
    const gateway = await app.startAt('/web/v1');
    let go: () => void = () => {};
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await new Promise<void>((resolve) => (go = resolve));
      response.end(text(' there', 'stop') + USAGE_EVENT + DONE);
    };
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    await response.body?.cancel();
    await sleep(100);
    go();
    expect(await settled).toMatchObject({ ending: 'finished', charged: '0.000045' });
  });
});
