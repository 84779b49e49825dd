import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type AppProcess, startApp } from '../../helpers/app-process.ts';
import { assembleApp, block } from '../../helpers/documented-app.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { beginStream, text } from '../../helpers/provider.ts';

const PROXY = block('proxy.js')
  .replace("'http://localhost:8787'", 'process.env.TARGET')
  .replace('8080', 'Number(process.env.PORT)');

describe('http-proxy 1.18 before the app', () => {
  let gateway: Gateway;
  let proxy: AppProcess;
  let post: Gateway['post'];

  beforeAll(async () => {
    gateway = await startGateway();
    const cwd = assembleApp('http-proxy', { 'proxy.mjs': PROXY });
    proxy = await startApp({ cwd, args: ['proxy.mjs'], env: { TARGET: new URL(gateway.baseURL).origin } });
    ({ post } = clientsOf(`${proxy.origin}/v1`, gateway.key));
  });

  beforeEach(() => {
    gateway.provider.received.length = 0;
  });

  afterAll(async () => {
    await proxy.stop();
    await gateway.close();
  });

  it('passes on that a client left in mid-stream', async () => {
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
    };
    const settled = gateway.nextSettled();
    const response = await post({ ...QUESTION, stream: true });
    await response.body?.cancel();
    await gateway.provider.received[0]!.aborted;
    expect((await settled).ending).toBe('client_gone');
  });

  it('passes on that a client left before the answer', async () => {
    gateway.provider.script = () => {};
    const arrived = gateway.provider.next();
    const settled = gateway.nextSettled();
    const controller = new AbortController();
    const left = post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    const request = await arrived;
    controller.abort();
    await request.aborted;
    expect(await left).toBe('left');
    expect((await settled).ending).toBe('client_gone');
  });
});
