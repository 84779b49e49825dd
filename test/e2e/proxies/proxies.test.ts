import { describe, expect, it } from 'vitest';

import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeGateway } from '../../contracts/router.ts';
import { type Gateway, type Mount, mountOnNode, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { beginStream, DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';
import { isInstalled, passesResets, type ProxyName, startReverseProxy } from '../../helpers/reverse-proxy.ts';

/** A server of the router with the proxy in front of it. */
function behind(name: ProxyName, edit?: (config: string) => string): Mount {
  return async (router) => {
    const app = await mountOnNode(router);
    const { port, pathname } = new URL(app.baseURL);
    const proxy = await startReverseProxy(name, Number(port), edit);
    return {
      baseURL: proxy.origin + pathname,
      close: async () => {
        await proxy.stop();
        await app.close();
      },
    };
  };
}

/** The proxy's timeouts in the place of those that the page advises, in seconds. */
const withTimeouts =
  (seconds: number) =>
  (config: string): string =>
    config.replaceAll('660s', `${seconds}s`);

/** An event, a silence that ends when `end` is called, and the rest. */
function streamWithSilence(gateway: Gateway): { readonly end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  gateway.provider.script = async (response) => {
    beginStream(response);
    response.write(text('Hello'));
    await promise;
    response.end(text(' there', 'stop') + USAGE_EVENT + DONE);
  };
  return { end: resolve };
}

async function* chunksOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    yield decoder.decode(chunk, { stream: true });
  }
}

describe.each<ProxyName>(['nginx', 'Caddy', 'HAProxy'])('behind %s', (name) => {
  if (!isInstalled(name))
    console.log(`Skipped: ${name}, which is not installed (apt-get install nginx caddy haproxy).`);

  describe.skipIf(!isInstalled(name))('with the configuration of the page', () => {
    if (isInstalled(name) && passesResets(name)) describeGateway(name, () => startGateway({}, behind(name)));
    describeMountEdges(name, () => startGateway({}, behind(name)));

    it('each chunk is there before the provider sends the next one', async ({ onTestFinished }) => {
      const gateway = await startGateway({}, behind(name));
      onTestFinished(() => gateway.close());
      let heard: () => void = () => {};
      gateway.provider.script = async (response) => {
        beginStream(response);
        for (const word of ['Hello', ' there', '.']) {
          const hearing = new Promise<void>((resolve) => (heard = resolve));
          response.write(text(word));
          await hearing;
        }
        response.end(USAGE_EVENT + DONE);
      };
      const response = await gateway.post({ ...QUESTION, stream: true });
      let received = '';
      for await (const chunk of chunksOf(response)) {
        received += chunk;
        heard();
      }
      expect(received).toContain('[DONE]');
    });

    it('a client that left in mid-stream reaches the provider', async ({ onTestFinished }) => {
      const gateway = await startGateway({}, behind(name));
      onTestFinished(() => gateway.close());
      streamWithSilence(gateway);
      const settled = gateway.nextSettled();
      const response = await gateway.post({ ...QUESTION, stream: true });
      await response.body?.cancel();
      await gateway.provider.received[0]!.aborted;
      expect((await settled).ending).toBe('client_gone');
    });

    it('a client that left before the answer began reaches the provider', async ({ onTestFinished }) => {
      const gateway = await startGateway({}, behind(name));
      onTestFinished(() => gateway.close());
      gateway.provider.script = () => {};
      const arrived = gateway.provider.next();
      const settled = gateway.nextSettled();
      const controller = new AbortController();
      const left = gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
      const request = await arrived;
      controller.abort();
      await request.aborted;
      expect(await left).toBe('left');
      expect((await settled).ending).toBe('client_gone');
    });
  });

  // Caddy has no timeout of its own.
  describe.skipIf(!isInstalled(name) || name === 'Caddy')('with a timeout of 2 seconds', () => {
    it('a longer silence cuts the stream, and the provider is stopped', async ({ onTestFinished }) => {
      const gateway = await startGateway({}, behind(name, withTimeouts(2)));
      onTestFinished(() => gateway.close());
      streamWithSilence(gateway);
      const settled = gateway.nextSettled();
      const response = await gateway.post({ ...QUESTION, stream: true });
      let received = '';
      const read = async (): Promise<void> => {
        for await (const chunk of chunksOf(response)) received += chunk;
      };
      await read().catch(() => {});
      expect(received).toContain('Hello');
      expect(received).not.toContain('[DONE]');
      await gateway.provider.received[0]!.aborted;
      expect((await settled).ending).toBe('client_gone');
    });

    it('a longer silence with heartbeatMs does not', async ({ onTestFinished }) => {
      const gateway = await startGateway({ heartbeatMs: 200 }, behind(name, withTimeouts(2)));
      onTestFinished(() => gateway.close());
      const silence = streamWithSilence(gateway);
      const settled = gateway.nextSettled();
      const response = await gateway.post({ ...QUESTION, stream: true });
      let received = '';
      for await (const chunk of chunksOf(response)) {
        received += chunk;
        // 4 seconds of them.
        if (received.split(': keep-alive').length > 20) silence.end();
      }
      expect(received).toContain(' there');
      expect(received).toContain('[DONE]');
      expect((await settled).ending).toBe('finished');
    });

    it('a longer wait for the answer is a 504 of its own, with or without heartbeatMs', async ({
      onTestFinished,
    }) => {
      const gateway = await startGateway({ heartbeatMs: 200 }, behind(name, withTimeouts(2)));
      onTestFinished(() => gateway.close());
      gateway.provider.script = () => {};
      const settled = gateway.nextSettled();
      const response = await gateway.post({ ...QUESTION, stream: true });
      expect(response.status).toBe(504);
      expect(response.headers.get('content-type')).toContain('text/html');
      expect((await settled).ending).toBe('client_gone');
    });

    it('a shorter firstByteMs is a 504 in the shape of OpenAI', async ({ onTestFinished }) => {
      const timeouts = { firstByteMs: 500 };
      const gateway = await startGateway({ timeouts }, behind(name, withTimeouts(20)));
      onTestFinished(() => gateway.close());
      gateway.provider.script = () => {};
      const response = await gateway.post({ ...QUESTION, stream: true });
      expect(response.status).toBe(504);
      expect(await response.json()).toMatchObject({
        error: { type: expect.any(String), code: expect.any(String) },
      });
    });
  });
});

describe('compression by a proxy', () => {
  /** `directive` is put where the page's configuration has `before`. */
  const adding =
    (before: string, directive: string) =>
    (config: string): string =>
      config.replace(before, `${directive}\n${before}`);

  it.skipIf(!isInstalled('Caddy'))(
    "leaves event streams alone in Caddy's encode",
    async ({ onTestFinished }) => {
      const gateway = await startGateway({}, behind('Caddy', adding('reverse_proxy', 'encode gzip\n')));
      onTestFinished(() => gateway.close());
      expect(await encodingOf(gateway)).toBeNull();
    },
  );

  it.skipIf(!isInstalled('HAProxy'))(
    "leaves event streams alone in HAProxy's",
    async ({ onTestFinished }) => {
      const compression =
        '  filter compression\n  compression algo gzip\n  compression type text/event-stream';
      const gateway = await startGateway({}, behind('HAProxy', adding('  server app1', compression)));
      onTestFinished(() => gateway.close());
      expect(await encodingOf(gateway)).toBeNull();
    },
  );

  it.skipIf(!isInstalled('nginx'))(
    'compresses event streams in nginx, which ignores no-transform',
    async ({ onTestFinished }) => {
      const gzip = '  gzip on;\n  gzip_types text/event-stream;';
      const gateway = await startGateway({}, behind('nginx', adding('  location', gzip)));
      onTestFinished(() => gateway.close());
      expect(await encodingOf(gateway)).toBe('gzip');
    },
  );
});

async function encodingOf(gateway: Gateway): Promise<string | null> {
  streamWithSilence(gateway).end();
  const headers = { 'accept-encoding': 'gzip' };
  const response = await gateway.post({ ...QUESTION, stream: true }, { headers });
  expect(await response.text()).toContain('[DONE]');
  return response.headers.get('content-encoding');
}
