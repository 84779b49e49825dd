import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterEach, describe, expect, it } from 'vitest';

import type { ProviderOptions } from '../../../src/index.ts';
import { createAuthority } from '../../helpers/certificates.ts';
import { type Gateway, PRICING, QUESTION, startGateway, untilStill } from '../../helpers/gateway.ts';
import { startOutboundProxy } from '../../helpers/outbound-proxy.ts';
import { answerJson, completionBody, type Script } from '../../helpers/provider.ts';
import { startTlsProvider } from '../../helpers/tls-provider.ts';

let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
});

const ANSWER = answerJson(completionBody());

/** Answers that wait until they are let go, in order. */
function heldAnswers(): { readonly script: Script; readonly held: (() => void)[] } {
  const held: (() => void)[] = [];
  const script: Script = async (response, request) => {
    await new Promise<void>((resolve) => held.push(resolve));
    await ANSWER(response, request);
  };
  return { script, held };
}

const settledFor = (): readonly number[] => gateway.settled.map(({ charged }) => Number(charged));

describe.each(['straight', 'through an outbound proxy'])('maxConnections, %s', (way) => {
  async function startWith(options: Parameters<typeof startGateway>[0]): Promise<() => Promise<void>> {
    const proxy = way === 'straight' ? undefined : await startOutboundProxy();
    gateway = await startGateway({ ...options, proxy: proxy ? `http://127.0.0.1:${proxy.port}` : false });
    return async () => proxy?.close();
  }

  it('makes a request wait, which goes on as soon as another ends', async () => {
    const stop = await startWith({ provider: { maxConnections: 2 } });
    const { script, held } = heldAnswers();
    gateway.provider.script = script;
    const answers = [1, 2, 3, 4].map(() => gateway.post(QUESTION));
    await expect.poll(() => held.length).toBe(2);
    // One that comes later changes nothing: no more than two reach the provider.
    await gateway.fetch('/models');
    expect(gateway.provider.received).toHaveLength(2);
    held.shift()?.();
    await expect.poll(() => gateway.provider.received.length).toBe(3);
    held.shift()?.();
    await expect.poll(() => gateway.provider.received.length).toBe(4);
    for (const release of held) release();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(gateway.provider.connections()).toBe(2);
    await stop();
  });

  it('makes a request wait no longer than connectMs, with an error that has the numbers', async () => {
    const ejected: unknown[] = [];
    const stop = await startWith({
      provider: { maxConnections: 1, timeouts: { connectMs: 150 } },
      health: { failures: 1 },
      hooks: { onHealthChange: (change) => ejected.push(change) },
    });
    const { script, held } = heldAnswers();
    gateway.provider.script = script;
    const first = gateway.post(QUESTION);
    await expect.poll(() => held.length).toBe(1);
    const refused = await gateway.post(QUESTION);
    expect(refused.status).toBe(504);
    expect(await refused.json()).toMatchObject({
      error: {
        code: 'upstream_connect_timeout',
        message: "No connection to the model's provider became free within 150 ms.",
      },
    });
    const origin = new URL(gateway.provider.baseURL).origin;
    expect(gateway.errors.map(({ cause }) => String(cause))).toEqual([
      `Error: ${origin}: all maxConnections (1) are in use, and 0 other requests wait`,
    ]);
    expect(settledFor()).toEqual([0]);
    // The provider did nothing wrong.
    expect(ejected).toEqual([]);
    held.shift()?.();
    expect((await first).status).toBe(200);
    expect(gateway.provider.received).toHaveLength(1);
    await stop();
  });

  it('passes over a client that left while it waited', async () => {
    const stop = await startWith({ provider: { maxConnections: 1 } });
    const { script, held } = heldAnswers();
    gateway.provider.script = script;
    const first = gateway.post(QUESTION);
    await expect.poll(() => held.length).toBe(1);
    const leaving = new AbortController();
    const left = gateway.post(QUESTION, { signal: leaving.signal });
    await expect.poll(() => gateway.router.requests().length).toBe(2);
    leaving.abort();
    await expect(left).rejects.toThrow('abort');
    await expect.poll(settledFor).toEqual([0]);
    const third = gateway.post({ ...QUESTION, user: 'third' });
    await expect.poll(() => gateway.router.requests().length).toBe(2);
    held.shift()?.();
    await expect.poll(() => held.length).toBe(1);
    held.shift()?.();
    expect([(await first).status, (await third).status]).toEqual([200, 200]);
    expect(gateway.provider.received.map(({ body }) => String(body).includes('third'))).toEqual([
      false,
      true,
    ]);
    await stop();
  });

  it('opens another connection for a request that waits when one breaks', async () => {
    const stop = await startWith({ provider: { maxConnections: 1 }, retries: false });
    gateway.provider.script = (response) => response.socket?.destroy();
    const broken = gateway.post(QUESTION);
    await gateway.provider.next();
    gateway.provider.script = ANSWER;
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect((await broken).status).toBe(502);
    await stop();
  });
});

describe('two providers with the same base URL and options', () => {
  async function startTwo(connection: Partial<ProviderOptions>): Promise<void> {
    gateway = await startGateway();
    const options = { baseURL: gateway.provider.baseURL, apiKey: 'sk-loopback', ...connection };
    const terms = { pricing: PRICING, contextWindow: 8192, maxOutputTokens: 1000 };
    gateway.router.reload({
      providers: { one: options, other: options },
      models: { one: { targets: ['one/m'], ...terms }, other: { targets: ['other/m'], ...terms } },
    });
  }

  it('have maxConnections each', async () => {
    await startTwo({ maxConnections: 1 });
    const { script, held } = heldAnswers();
    gateway.provider.script = script;
    const answers = ['one', 'other', 'one', 'other'].map((model) => gateway.post({ ...QUESTION, model }));
    await expect.poll(() => held.length).toBe(2);
    expect(gateway.provider.connections()).toBe(2);
    for (const release of held.splice(0)) release();
    await expect.poll(() => held.length).toBe(2);
    for (const release of held) release();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(gateway.provider.connections()).toBe(2);
  });

  it('have keepWarm each', async () => {
    await startTwo({ keepWarm: 1 });
    await gateway.router.ready();
    await expect.poll(() => gateway.provider.openSockets()).toBe(2);
  });

  it('share their connections without either', async () => {
    await startTwo({});
    for (const model of ['one', 'other']) {
      expect((await gateway.post({ ...QUESTION, model })).status).toBe(200);
    }
    expect(gateway.provider.connections()).toBe(1);
  });
});

it('a reload without a provider closes the connection over which its models were listed', async () => {
  const authority = createAuthority();
  // It closes none by itself.
  const options = { ...authority.issue('DNS:localhost'), keepAliveTimeout: 0 };
  const provider = await startTlsProvider(options);
  gateway = await startGateway({
    provider: {
      baseURL: provider.baseURL,
      tls: { ca: authority.ca },
      models: { pricing: 'free', contextWindow: 1000 },
    },
  });
  await gateway.router.ready();
  expect(provider.openConnections()).toBe(1);
  const { baseURL } = gateway.provider;
  gateway.router.reload({ providers: { loopback: { baseURL } } });
  await expect.poll(() => provider.openConnections()).toBe(0);
  await provider.close();
});

describe('keepWarm', () => {
  it('has connections before the first request asks for one, and replaces the one that it takes', async () => {
    gateway = await startGateway({ provider: { keepWarm: 2 } });
    const { provider } = gateway;
    expect(provider.connections()).toBe(0);
    await gateway.router.ready();
    await expect.poll(() => provider.openSockets()).toBe(2);
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await expect.poll(() => provider.connections()).toBe(3);
    // The free connection goes first: no more are opened.
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(provider.connections()).toBe(3);
  });

  it('opens them again after the provider has closed them', async () => {
    const authority = createAuthority();
    const provider = await startTlsProvider(authority.issue('DNS:localhost'));
    gateway = await startGateway({
      provider: { baseURL: provider.baseURL, keepWarm: 2, tls: { ca: authority.ca } },
    });
    await gateway.router.ready();
    await expect.poll(() => provider.openConnections()).toBe(2);
    provider.closeConnections();
    await expect.poll(() => provider.connections()).toBe(4);
    await expect.poll(() => provider.openConnections()).toBe(2);
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await provider.close();
  });

  it('closes them with the router, and opens no more', async () => {
    gateway = await startGateway({ provider: { keepWarm: 3 } });
    await gateway.router.ready();
    await expect.poll(() => gateway.provider.openSockets()).toBe(3);
    await gateway.router.close();
    await expect.poll(() => gateway.provider.openSockets()).toBe(0);
    expect(gateway.provider.connections()).toBe(3);
  });

  it.each(['a request', 'ready()'])('opens none for a router that was closed before %s', async (what) => {
    let tell = (_key: string): void => {};
    const told = new Promise<string>((resolve) => (tell = resolve));
    const apiKey = what === 'ready()' ? (): Promise<string> => told : 'sk-loopback';
    gateway = await startGateway({ provider: { keepWarm: 1, apiKey } });
    const ready = what === 'ready()' ? gateway.router.ready() : undefined;
    const closed = gateway.router.close();
    tell('sk-loopback');
    await closed;
    const refused = ready
      ? await ready.catch((error: unknown) => JSON.stringify(error))
      : await (await gateway.post(QUESTION)).text();
    expect(refused).toContain('"code":"router_closing"');
    expect(await untilStill(gateway, () => gateway.provider.connections())).toBe(0);
  });

  it('counts them among maxConnections, and gives one to a request that waits', async () => {
    gateway = await startGateway({ provider: { keepWarm: 1, maxConnections: 2 } });
    await gateway.router.ready();
    const { script, held } = heldAnswers();
    gateway.provider.script = script;
    const answers = [1, 2, 3].map(() => gateway.post(QUESTION));
    await expect.poll(() => held.length).toBe(2);
    expect(gateway.provider.openSockets()).toBe(2);
    held.shift()?.();
    held.shift()?.();
    await expect.poll(() => held.length).toBe(1);
    held.shift()?.();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(gateway.provider.connections()).toBe(2);
  });

  it('follows a reload', async () => {
    gateway = await startGateway({ provider: { keepWarm: 1 } });
    await gateway.router.ready();
    const { provider, router } = gateway;
    await expect.poll(() => provider.openSockets()).toBe(1);
    router.reload({ providers: { loopback: { baseURL: provider.baseURL } } });
    await expect.poll(() => provider.openSockets()).toBe(0);
    router.reload({ providers: { loopback: { baseURL: provider.baseURL, keepWarm: 2 } } });
    await expect.poll(() => provider.openSockets()).toBe(2);
  });

  it('sends a request once more if the provider closed its connection at that moment', async () => {
    gateway = await startGateway({ provider: { keepWarm: 1 } });
    await gateway.router.ready();
    const { provider } = gateway;
    await expect.poll(() => provider.openSockets()).toBe(1);
    let requests = 0;
    provider.script = (response, request) => {
      requests += 1;
      return requests === 1 ? void response.socket?.resetAndDestroy() : ANSWER(response, request);
    };
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(requests).toBe(2);
  });

  it('has them stand through the proxy and TLS', async () => {
    const authority = createAuthority();
    const provider = await startTlsProvider(authority.issue('DNS:localhost'));
    const proxy = await startOutboundProxy();
    gateway = await startGateway({
      provider: {
        baseURL: provider.baseURL,
        keepWarm: 2,
        tls: { ca: authority.ca },
        proxy: `http://127.0.0.1:${proxy.port}`,
      },
    });
    await gateway.router.ready();
    await expect.poll(() => provider.connections()).toBe(2);
    await expect.poll(() => proxy.openTunnels()).toBe(2);
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await expect.poll(() => provider.connections()).toBe(3);
    await gateway.router.close();
    await expect.poll(() => proxy.openTunnels()).toBe(0);
    await proxy.close();
    await provider.close();
  });

  it('does not keep the process alive', async () => {
    const authority = createAuthority();
    const provider = await startTlsProvider(authority.issue('DNS:localhost'));
    gateway = await startGateway();
    const script = join(import.meta.dirname, '../../processes/warm-router.ts');
    const run = promisify(execFile)(
      process.execPath,
      ['--no-warnings', script, provider.baseURL, authority.ca],
      {
        timeout: 20_000,
      },
    );
    expect((await run).stdout).toBe('over\n');
    expect(provider.connections()).toBe(2);
    await provider.close();
  });
});
