import { hash } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { documentedModules } from '../../helpers/documented.ts';

interface GatewayModule {
  readonly router: ChatCompletionsRouter;
  addMember(team: string, member: string): Promise<string>;
  spending(team: string): Promise<readonly { readonly key?: string; readonly charged: string }[]>;
}
interface WebappModule {
  readonly router: ChatCompletionsRouter;
  readonly sessions: Map<string, object>;
  readonly signOut: (token: string) => void;
}
interface ResellModule {
  readonly router: ChatCompletionsRouter;
  readonly commission: (reseller: string, from: string, to: string) => Promise<number>;
}

const FILE = `${process.env['TMPDIR'] ?? '/tmp'}/multi-tenant-docs-${process.pid}.db`;

describe('docs/multi-tenant.md', () => {
  let provider: FakeProvider;
  let gateway: GatewayModule;
  let webapp: WebappModule;
  let resell: ResellModule;

  beforeAll(async () => {
    provider = await startFakeProvider();
    provider.answer(completion({ tokens: { prompt: 1000, completion: 1000 } }));
    // The routers of the page share a store, as they do where it is copied.
    process.env['CREDITS_STORE'] = `sqlite:${FILE}`;
    const load = documentedModules(
      'multi-tenant.md',
      ['gateway.ts', 'webapp.ts', 'resell.ts'],
      provider.baseURL,
    );
    gateway = (await load('gateway.ts')) as GatewayModule;
    webapp = (await load('webapp.ts')) as WebappModule;
    resell = (await load('resell.ts')) as ResellModule;
    delete process.env['CREDITS_STORE'];
  });

  afterAll(async () => {
    for (const { router } of [gateway, webapp, resell]) await router.close();
    await provider.close();
    for (const suffix of ['', '-wal', '-shm', '-line']) rmSync(FILE + suffix, { force: true });
  });

  it('gives members keys with limits, and counts them apart', async () => {
    await gateway.router.credits.grant('team', '10.00', { id: 'a' });
    const ada = await gateway.addMember('team', 'ada');
    const bob = await gateway.addMember('team', 'bob');
    for (const key of [ada, ada, bob]) expect(await ask(gateway.router, key)).toMatchObject({ status: 200 });
    expect(await gateway.spending('team')).toMatchObject([
      { key: 'ada', charged: '0.0015' },
      { key: 'bob', charged: '0.00075' },
    ]);
    expect((await gateway.router.keys.get('team', 'ada'))?.budgetLeft).toBe('49.9985');
  });

  it('makes an account ID of an e-mail address', async () => {
    const id = hash('sha256', 'ada@example.com', 'base64url');
    await gateway.router.credits.grant(id, '1.00', { id: 'a' });
    expect(id).toMatch(/^[A-Za-z0-9_-]{43}$/);
  });

  it('serves your own logins until they sign out, on the same balance', async () => {
    const { router, sessions, signOut } = webapp;
    sessions.set('token-1', { team: 'team', user: 'carol', plan: 'free' });
    expect(await ask(router, 'token-1')).toMatchObject({ status: 200 });
    expect(await ask(router, 'token-of-nobody')).toMatchObject({ status: 401, code: 'invalid_api_key' });
    expect(await gateway.spending('team')).toMatchObject([{}, {}, { key: 'carol', charged: '0.00075' }]);
    signOut('token-1');
    expect(await ask(router, 'token-1')).toMatchObject({ status: 401, code: 'invalid_api_key' });
  });

  it('does not take the keys of the router where authenticate says who is who', async () => {
    const { key } = await webapp.router.keys.create({ account: 'team' });
    expect(await ask(gateway.router, key)).toMatchObject({ status: 200 });
    expect(await ask(webapp.router, key)).toMatchObject({ status: 401, code: 'invalid_api_key' });
  });

  it.each(['sqlite', 'memory'])('limits a login by the key of its name: %s', async (store) => {
    const { router, sessions } = store === 'sqlite' ? webapp : await inMemory();
    await router.credits.grant('contoso', '10.00', { id: 'a' });
    sessions.set('token-2', { team: 'contoso', user: 'ada', plan: 'pro' });
    sessions.set('token-3', { team: 'contoso', user: 'eve', plan: 'pro' });
    await router.keys.create({
      account: 'contoso',
      id: 'ada',
      budget: { amount: '2.00', per: 'day' },
      requestsPerMinute: 1,
    });
    await router.keys.create({ account: 'contoso', id: 'eve', budget: { amount: '0.00001', per: 'day' } });
    expect(await ask(router, 'token-2')).toMatchObject({ status: 200 });
    expect(await ask(router, 'token-2')).toMatchObject({ status: 429, code: 'requests_per_minute_exceeded' });
    expect(await ask(router, 'token-3')).toMatchObject({ status: 402, code: 'budget_exceeded' });
    expect(await router.keys.get('contoso', 'ada')).toMatchObject({
      spent: '0.00075',
      budgetLeft: '1.99925',
    });
    await router.keys.revoke('contoso', 'eve');
    expect(await ask(router, 'token-3')).toMatchObject({ code: 'budget_exceeded' });
    if (router !== webapp.router) await router.close();
  });

  it("asks the provider with the customer's own key, charges nothing, and counts it once the account exists", async () => {
    const { router, sessions } = webapp;
    const usage = async (): Promise<unknown> => await router.usage.query({ account: 'byok', groupBy: [] });
    sessions.set('token-4', { team: 'byok', user: 'dan', plan: 'pro', openaiKey: 'sk-of-dan' });
    expect(await ask(router, 'token-4')).toMatchObject({ status: 200 });
    expect(provider.requests.at(-1)?.headers.authorization).toBe('Bearer sk-of-dan');
    expect(await usage()).toEqual([]);
    await router.keys.create({ account: 'byok', id: 'dan' });
    expect(await ask(router, 'token-4')).toMatchObject({ status: 200 });
    expect(await usage()).toMatchObject([{ requests: 1, charged: '0.00' }]);
  });

  it("multiplies a reseller's margin with yours, and tells its part", async () => {
    const { router, commission } = resell;
    const { key } = await router.keys.create({ account: 'northwind-1042' });
    await router.credits.grant('northwind-1042', '1.00', { id: 'a' });
    expect(await ask(router, key)).toMatchObject({ status: 200 });
    const today = new Date().toISOString().slice(0, 10);
    // 0.00075 × 1.2 × 1.3; the reseller's part is 0.3 of 1.3.
    expect((await router.credits.balance('northwind-1042')).totalUsed).toBe('0.00117');
    expect(await commission('northwind', today, today)).toBeCloseTo(0.000_27, 10);
  });

  /** The router of the page on another store. */
  async function inMemory(): Promise<WebappModule> {
    process.env['CREDITS_STORE'] = 'memory:';
    const load = documentedModules('multi-tenant.md', ['webapp.ts'], provider.baseURL);
    const loaded = (await load('webapp.ts?memory')) as WebappModule;
    delete process.env['CREDITS_STORE'];
    return loaded;
  }
});

/** A request through a real server: resolves once its charge is posted. */
async function ask(
  router: ChatCompletionsRouter,
  key: string,
): Promise<{ readonly status: number; readonly code?: string }> {
  let charged: Promise<void> | undefined;
  const server = createServer(async (request, response) => {
    await router(request, response);
    charged = router.settled(request);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: 'small/chat', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  const body = (await response.json()) as { readonly error?: { readonly code: string } };
  server.close();
  await once(server, 'close');
  await charged;
  return { status: response.status, ...(body.error && { code: body.error.code }) };
}
