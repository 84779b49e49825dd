import { describe, expect, it } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { runBuild, useApp } from '../../helpers/app-process.ts';
import { assembleApp, bin, block } from '../../helpers/documented-app.ts';
import { QUESTION } from '../../helpers/gateway.ts';

const ROUTE = 'src/routes/v1/[...path]/+server.ts';

/** By its check against requests that another site's form could make. */
const REFUSED_WITHOUT_ORIGIN = { POST: 403, PUT: 403, PATCH: 403, DELETE: 403 };

let built: Promise<string> | undefined;

function build(): Promise<string> {
  built ??= (async () => {
    const folder = assembleApp('sveltekit', { [ROUTE]: block(ROUTE) });
    await runBuild(folder, [bin('vite/bin/vite.js'), 'build']);
    return folder;
  })();
  return built;
}

describe('SvelteKit 3 with adapter-node', () => {
  const app = useApp(async () => ({
    cwd: await build(),
    args: ['build/index.js'],
    env: { BODY_SIZE_LIMIT: '32M' },
  }));

  describeGateway('SvelteKit 3', () => app.startAt('/v1'));
  describeMountEdges('SvelteKit 3', () => app.startAt('/v1'), { ownAnswers: REFUSED_WITHOUT_ORIGIN });
});

describe('SvelteKit 3 without BODY_SIZE_LIMIT', () => {
  const app = useApp(async () => ({ cwd: await build(), args: ['build/index.js'] }));
  const long = JSON.stringify({ ...QUESTION, padding: 'x'.repeat(600_000) });

  it.each([
    ['told its length', long],
    ['in chunks', undefined],
  ])('takes no body of 600 kB %s: a 413 that names that variable', async (_how, body) => {
    const gateway = await app.startAt('/v1');
    const asked = { body: body ?? new Blob([long]).stream(), duplex: 'half' as const };
    const response = await gateway.post(undefined, asked);
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({
      error: { code: 'request_too_large', message: expect.stringContaining('BODY_SIZE_LIMIT') },
    });
    expect(gateway.provider.received).toHaveLength(0);
    // And the connection goes on.
    expect((await gateway.fetch('/models')).status).toBe(200);
  });
});
