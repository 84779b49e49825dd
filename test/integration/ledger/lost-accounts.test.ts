import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';

import {
  AccountLostError,
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  type LedgerEvent,
  RedisStore,
  StoreUnavailableError,
} from '../../../src/index.ts';
import { startAdmin } from '../../helpers/admin.ts';
import { runCli, startServe } from '../../helpers/cli.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { beginStream, DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';
import { startCluster } from '../../helpers/redis-cluster.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

/** What an account that a router has known comes to when the store has lost it. No connection is closed here. */

/** A command that can't be applied to an account that is gone, as the first one after the loss. */
const COMMANDS: readonly [string, (router: ChatCompletionsRouter) => Promise<unknown>][] = [
  ['grant', ({ credits }) => credits.grant('acct', '1.00', { id: 'again' })],
  ['adjust', ({ credits }) => credits.adjust('acct', '1.00', { id: 'again', reason: 'too little' })],
  ['keys.create', ({ keys }) => keys.create({ account: 'acct', id: 'again' })],
  ['balance', ({ credits }) => credits.balance('acct')],
];

describe('an account that Redis has lost by FLUSHALL', { timeout: 30_000 }, () => {
  it.each(COMMANDS)('is refused to %s, is told of once, and is not made', async (_name, command) => {
    const { gateway, events, admin } = await open();
    await admin.flushall();
    for (const each of [command, ...COMMANDS.map(([, other]) => other)]) {
      const refused: unknown = await each(gateway.router).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(AccountLostError);
      expect(refused).toBeInstanceOf(StoreUnavailableError);
      expect(refused).toMatchObject({ code: 'account_lost', applied: 'no' });
      expect(String(refused)).toMatch(/account acct .*restore the store, or .* recreate: true/);
    }
    expect(events).toEqual([{ type: 'account_lost', account: 'acct' }]);
    expect(await admin.dbsize()).toBe(0);
  });

  it('is known to who has made a key of it alone, or has read its balance', async () => {
    const { server, events, admin } = await open();
    const owner = openRouter(server, events);
    await owner.keys.create({ account: 'keyed' });
    const reader = openRouter(server, events);
    await reader.credits.balance('keyed');
    await admin.flushall();
    for (const router of [owner, reader]) {
      const granted = router.credits.grant('keyed', '1.00', { id: 'first' });
      await expect(granted).rejects.toMatchObject({ code: 'account_lost' });
    }
    expect(await admin.dbsize()).toBe(0);
  });

  it('is a 503 to its customers, who see nothing of it', async () => {
    const { gateway, admin } = await open();
    const settled = gateway.nextSettled();
    expect((await gateway.post(QUESTION)).status).toBe(200);
    await settled;
    await admin.flushall();
    const answers = [await gateway.post(QUESTION), await gateway.fetch('/credits')];
    for (const answer of answers) {
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
      const body = await answer.text();
      expect(JSON.parse(body)).toMatchObject({ error: { code: 'credit_store_unavailable' } });
      expect(body).not.toMatch(/acct|lost|redis|recreate/i);
    }
    expect(gateway.provider.received).toHaveLength(1);
    expect(gateway.errors).toContainEqual(
      expect.objectContaining({
        code: 'credit_store_unavailable',
        cause: expect.objectContaining({ code: 'account_lost' }),
      }),
    );
  });

  it.each(['after it was refused', 'at once'])(
    'is made again where recreate asks for it %s, with what is granted then',
    async (when) => {
      const { gateway, events, admin } = await open();
      const { credits, keys } = gateway.router;
      const settled = gateway.nextSettled();
      expect((await gateway.post(QUESTION)).status).toBe(200);
      await settled;
      await admin.flushall();
      if (when !== 'at once') {
        await expect(credits.grant('acct', '3.00', { id: 'again' })).rejects.toThrow(AccountLostError);
      }
      const made = await credits.grant('acct', '3.00', { id: 'again', recreate: true });
      expect(made).toMatchObject({ available: '3.00', duplicate: false });
      // As a payment that is announced twice.
      const repeated = await credits.grant('acct', '3.00', { id: 'again', recreate: true });
      expect(repeated).toMatchObject({ available: '3.00', duplicate: true });
      expect(await credits.journal('acct')).toHaveLength(1);

      // Its keys are lost as well.
      expect((await gateway.post(QUESTION)).status).toBe(401);
      const { key } = await keys.create({ account: 'acct' });
      const charged = gateway.nextSettled();
      expect((await clientsOf(gateway.baseURL, key).post(QUESTION)).status).toBe(200);
      await charged;
      expect(await credits.balance('acct')).toMatchObject({ balance: '2.999955', totalGranted: '3.00' });
      expect(events).toEqual([{ type: 'account_lost', account: 'acct' }]);
    },
  );

  it('is charged, once it is made again, for what ran when it was lost', async () => {
    const { gateway, events, admin } = await open();
    let finish = (): void => {};
    gateway.provider.script = async (response) => {
      beginStream(response);
      response.write(text('Hello'));
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      response.end(text(' there.', 'stop') + USAGE_EVENT + DONE);
    };
    const answer = await gateway.post({ ...QUESTION, stream: true });
    await admin.flushall();
    const settled = gateway.nextSettled();
    finish();
    expect(await answer.text()).toContain('[DONE]');
    await expect.poll(() => events).toEqual([{ type: 'account_lost', account: 'acct' }]);
    await gateway.router.credits.grant('acct', '3.00', { id: 'again', recreate: true });
    expect(await settled).toMatchObject({ charged: '0.000045' });
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '2.999955', held: '0.00' });
  });

  it('is made again by a key too', async () => {
    const { gateway, admin } = await open();
    const { credits, keys } = gateway.router;
    await admin.flushall();
    await expect(keys.create({ account: 'acct', id: 'k1' })).rejects.toThrow(AccountLostError);
    const { key } = await keys.create({ account: 'acct', id: 'k1', recreate: true });
    expect((await clientsOf(gateway.baseURL, key).post(QUESTION)).status).toBe(402);
    await credits.grant('acct', '3.00', { id: 'again' });
    expect((await clientsOf(gateway.baseURL, key).post(QUESTION)).status).toBe(200);
  });

  it('is served by every router once one has made it again', async () => {
    const { server, gateway, admin } = await open();
    const other = await openOn(server);
    expect(await other.gateway.router.credits.balance('acct')).toMatchObject({ balance: '10.00' });
    await admin.flushall();
    for (const { router } of [gateway, other.gateway]) {
      await expect(router.credits.grant('acct', '3.00', { id: 'again' })).rejects.toThrow(AccountLostError);
    }
    await gateway.router.credits.grant('acct', '3.00', { id: 'again', recreate: true });
    const { key } = await gateway.router.keys.create({ account: 'acct' });
    const charged = other.gateway.nextSettled();
    expect((await clientsOf(other.gateway.baseURL, key).post(QUESTION)).status).toBe(200);
    await charged;
    const granted = await other.gateway.router.credits.grant('acct', '1.00', { id: 'more' });
    expect(granted).toMatchObject({ available: '3.999955' });
    expect(other.events).toEqual([{ type: 'account_lost', account: 'acct' }]);
  });

  it('is made, as any account, by a router that has not known it', async () => {
    const { server, gateway, events, admin } = await open();
    await admin.flushall();
    const { credits } = openRouter(server, []);
    expect(await credits.grant('acct', '3.00', { id: 'again' })).toMatchObject({ available: '3.00' });
    expect(await gateway.router.credits.grant('other', '1.00', { id: 'g1' })).toMatchObject({
      available: '1.00',
    });
    expect(events).toEqual([]);
  });
});

describe('the admin API, of an account that Redis has lost', { timeout: 30_000 }, () => {
  it('refuses it with 503 account_lost, and makes it again where recreate is true', async () => {
    const { gateway, admin } = await open();
    const door = await startAdmin({ router: gateway.router });
    onTestFinished(() => door.close());
    await admin.flushall();
    const asked = [
      await door.ask('POST', '/accounts/acct/grants', { id: 'g9', amount: '3.00' }),
      await door.ask('POST', '/accounts/acct/grants', { id: 'g9', amount: '3.00', recreate: false }),
      await door.ask('POST', '/accounts/acct/adjustments', { id: 'a9', delta: '3.00', reason: 'x' }),
      await door.ask('POST', '/accounts/acct/keys', { id: 'k9' }),
      await door.ask('GET', '/accounts/acct'),
      await door.ask('PATCH', '/accounts/acct', { frozen: true }),
    ];
    for (const { status, body, headers } of asked) {
      expect([status, body.error.code, headers.get('x-should-retry')]).toEqual([
        503,
        'account_lost',
        'false',
      ]);
      expect(body.error.message).toContain('"recreate": true');
    }
    expect(door.audits.at(-1)).toMatchObject({ outcome: 'failed', code: 'account_lost' });
    expect(await admin.dbsize()).toBe(0);

    const grant = { id: 'g9', amount: '3.00', recreate: true };
    const made = await door.ask('POST', '/accounts/acct/grants', grant);
    expect([made.status, made.body]).toEqual([201, expect.objectContaining({ available: '3.00' })]);
    expect(door.audits.at(-1)).toMatchObject({ outcome: 'done', body: grant });
    expect((await door.ask('POST', '/accounts/acct/grants', grant)).body.duplicate).toBe(true);
    await admin.flushall();
    const key = await door.ask('POST', '/accounts/acct/keys', { id: 'k9', recreate: true });
    expect([key.status, key.body.duplicate]).toEqual([201, false]);
    const again = await door.ask('POST', '/accounts/acct/keys', { id: 'k9', recreate: true });
    expect([again.status, again.body.duplicate]).toEqual([200, true]);
    expect(await gateway.router.accounts.get('acct')).toMatchObject({ granted: '0.00' });
  });
});

describe('a server whose Redis has lost an account', { timeout: 30_000 }, () => {
  it('refuses to make it, and serves what a command of another process has made', async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.kill());
    const admin = new Redis(redis.port);
    onTestFinished(() => admin.disconnect());
    const folder = mkdtempSync(join(tmpdir(), 'ccr-lost-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const store = ['--store', redis.url];
    const config = join(folder, 'gateway.json');
    writeFileSync(config, JSON.stringify({ store: redis.url, providers: {}, models: {} }));
    const served = await startServe(['--admin', '--config', config], {
      env: { ADMIN_TOKEN: 'token-of-an-operator' },
    });
    onTestFinished(async () => void (await served.stop()));
    const grant = async (body: object) => {
      const headers = {
        authorization: 'Bearer token-of-an-operator',
        'content-type': 'application/json',
      };
      const answer = await fetch(`${served.origin}/admin/accounts/acct/grants`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      const { available, error } = (await answer.json()) as { available?: string; error?: { code: string } };
      return [answer.status, available ?? error?.code];
    };
    expect(await grant({ id: 'g1', amount: '10.00' })).toEqual([201, '10.00']);
    await admin.flushall();
    expect(await grant({ id: 'g2', amount: '3.00' })).toEqual([503, 'account_lost']);
    expect(await served.logged('account_lost')).toMatchObject({ account: 'acct' });

    // A command has known no account, and takes none that isn't there for lost.
    const adjust = ['credits', 'adjust', 'acct', '3.00', '--id', 'a2', '--reason', 'x', ...store];
    expect(await runCli(adjust)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('there is no account'),
    });
    expect(await admin.dbsize()).toBe(0);
    const made = await runCli(['credits', 'grant', 'acct', '3.00', '--id', 'g2', ...store]);
    expect(made).toMatchObject({ code: 0, stdout: 'acct: $3.00 available\n' });
    expect(await grant({ id: 'g3', amount: '1.00' })).toEqual([201, '4.00']);
    expect(served.log.filter(({ event }) => event === 'account_lost')).toHaveLength(1);
  });
});

describe('an account whose node of a cluster failed over to an empty one', { timeout: 60_000 }, () => {
  it.each(COMMANDS.slice(0, 3))('is refused to %s, and is not made', async (_name, command) => {
    const cluster = await startCluster({ withReplicas: true });
    onTestFinished(() => cluster.stop());
    const events: LedgerEvent[] = [];
    const router = createChatCompletionsRouter({
      store: cluster.url,
      providers: {},
      models: {},
      hooks: { onLedgerEvent: (event) => events.push(event), onError: () => {} },
    });
    onTestFinished(() => router.close());
    expect(await router.credits.grant('acct', '10.00', { id: 'welcome' })).toMatchObject({ durable: true });
    const { owner } = await cluster.locate('ccr:{acct}:a');
    const replica = cluster.replicas[cluster.primaries.indexOf(owner)]!;
    await replica.redis.config('SET', 'replica-read-only', 'no');
    await replica.redis.flushall();
    await owner.server.kill();
    await replica.redis.call('CLUSTER', 'FAILOVER', 'TAKEOVER');

    const outcome = async (): Promise<unknown> =>
      command(router).then(
        () => 'made',
        (error: Error) => Reflect.get(error, 'code') ?? error.name,
      );
    await expect.poll(outcome, { timeout: 30_000 }).not.toBe('StoreUnavailableError');
    expect(await outcome()).toBe('account_lost');
    expect(events.filter(({ type }) => type === 'account_lost')).toHaveLength(1);
    expect(await replica.redis.dbsize()).toBe(0);
    const made = await router.credits.grant('acct', '3.00', { id: 'again', recreate: true });
    expect(made).toMatchObject({ available: '3.00' });
  });
});

/** A gateway on a Redis of its own, whose account has 10.00. */
async function open() {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  const admin = new Redis(server.port);
  onTestFinished(() => admin.disconnect());
  const opened = await openOn(server, '10.00');
  return { server, admin, ...opened };
}

async function openOn(
  server: RedisServer,
  credits = '0.00',
): Promise<{ gateway: Gateway; events: LedgerEvent[] }> {
  const events: LedgerEvent[] = [];
  const gateway = await startGateway(
    { store: openStore(server), hooks: [{ onLedgerEvent: (event) => events.push(event) }] },
    undefined,
    credits,
  );
  onTestFinished(() => gateway.close());
  return { gateway, events };
}

function openRouter(server: RedisServer, events: LedgerEvent[]): ChatCompletionsRouter {
  const router = createChatCompletionsRouter({
    store: openStore(server),
    providers: {},
    models: {},
    hooks: { onLedgerEvent: (event) => events.push(event) },
  });
  onTestFinished(() => router.close());
  return router;
}

function openStore({ url }: RedisServer): RedisStore {
  return new RedisStore(url);
}
