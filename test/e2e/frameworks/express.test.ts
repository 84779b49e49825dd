import { describe, expect, it } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { useApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';
import { QUESTION } from '../../helpers/gateway.ts';

describe('Express 5', () => {
  const app = useApp(() => ({
    cwd: assembleApp('express', { 'express.mjs': block('express.js') }),
    args: ['express.mjs'],
  }));

  describeMountEdges('Express 5', () => app.startAt('/v1'));
});

describe('Express 5 behind helmet, compression, morgan and express-session', () => {
  let output: () => string;
  const app = useApp(
    () => ({
      cwd: assembleApp('express-middleware', { 'express.mjs': block('express: with middleware') }),
      args: ['express.mjs'],
      env: { SESSION_SECRET: 'a secret of this test' },
    }),
    (started) => {
      output = () => started.output();
    },
  );

  describeGateway('Express 5 behind middleware', () => app.startAt('/v1'));
  describeMountEdges('Express 5 behind middleware', () => app.startAt('/v1'));

  it("sends the middleware's headers, and logs each request", async () => {
    const gateway = await app.startAt('/v1');
    const response = await gateway.post({ ...QUESTION, stream: true });
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    await response.text();
    await expect.poll(output).toMatch(/"POST \/v1\/chat\/completions HTTP\/1\.1" 200/);
  });
});

describe('Express 5, nested', () => {
  const app = useApp(() => ({
    cwd: assembleApp('express-nested', { 'express.mjs': block('express: nested') }),
    args: ['express.mjs'],
  }));

  describeGateway('a sub-app in a Router', () => app.startAt('/api/ai/v1'));
  describeMountEdges('a sub-app in a Router', () => app.startAt('/api/ai/v1'));
  describeGateway('a path with a parameter', () => app.startAt('/t/models/v1'));
  describeMountEdges('a path with a parameter', () => app.startAt('/t/models/v1'));
});
