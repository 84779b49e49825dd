import { createHmac } from 'node:crypto';

import { afterEach, beforeEach, expect, it } from 'vitest';

import {
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  type MeteredHandler,
} from '../../src/index.ts';
import { describeEachStore, type OpenLedger } from '../helpers/each-store.ts';

const SECRET = 'a secret of the test, which has more than 32 characters';
const ORIGIN = 'https://chat.example.com';
const SESSION = { account: 'acme', maxSpend: '0.50', ttlMs: 60_000, origins: [ORIGIN] };
const ROUTER = {
  providers: { none: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
  models: { none: { targets: ['none/none'], pricing: 'free' as const } },
  hooks: { onError: () => {} },
};

describeEachStore('who holds a session', (newLedger) => {
  let ledger: OpenLedger;
  let router: ChatCompletionsRouter;
  const routers: ChatCompletionsRouter[] = [];

  beforeEach(async () => {
    ledger = newLedger();
    router = open();
    await router.credits.grant('acme', '10.00', { id: 'welcome' });
  });

  afterEach(async () => {
    for (const each of routers.splice(0)) await each.close();
  });

  function open(secret: string | string[] = SECRET): ChatCompletionsRouter {
    const opened = createChatCompletionsRouter({ ...ROUTER, store: ledger(), sessions: { secret } });
    routers.push(opened);
    return opened;
  }

  const ok: MeteredHandler = () => Response.json({});

  /** Asks a metered route of $0.20. */
  async function ask(
    session: string,
    {
      from = ORIGIN,
      at = router,
      model = 'tool/a',
    }: { from?: string | null; at?: ChatCompletionsRouter; model?: string } = {},
  ): Promise<[status: number, code: string | undefined]> {
    const request = new Request('http://router/v1/tool', {
      method: 'POST',
      headers: { authorization: `Bearer ${session}`, ...(from !== null && { origin: from }) },
    });
    const response = await at.meter(ok, { model, price: '0.20' }).fetch(request);
    const body = (await response.json()) as { error?: { code: string } };
    await at.settled(request);
    return [response.status, body.error?.code];
  }

  const used = async () => (await router.credits.balance('acme')).totalUsed;

  it('spends no more than its limit, also in parallel in two processes', async () => {
    const { session, id } = router.sessions.create(SESSION);
    const other = open();
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => ask(session, { at: n % 2 === 0 ? router : other })),
    );
    expect(answers.filter(([status]) => status === 200)).toHaveLength(2);
    expect(answers.filter(([, code]) => code === 'budget_exceeded')).toHaveLength(6);
    expect(await used()).toBe('0.40');
    const [usage] = await router.usage.query({ account: 'acme', groupBy: ['key'] });
    expect(usage).toMatchObject({ key: id, charged: '0.40' });
  });

  it('can not be used once it was revoked, before its first request or after', async () => {
    const [unused, begun] = [router.sessions.create(SESSION), router.sessions.create(SESSION)];
    expect(await ask(begun.session)).toEqual([200, undefined]);
    for (const { session } of [unused, begun, unused]) await router.sessions.revoke(session);
    for (const { session } of [unused, begun]) {
      expect(await ask(session)).toEqual([401, 'revoked_api_key']);
      expect(await ask(session, { at: open() })).toEqual([401, 'revoked_api_key']);
    }
    expect(await used()).toBe('0.20');
  });

  it('can not be used once it was revoked before its account existed', async () => {
    const { session } = router.sessions.create({ ...SESSION, account: 'later' });
    await router.sessions.revoke(session);
    await router.credits.grant('later', '5.00', { id: 'first' });
    expect(await ask(session)).toEqual([401, 'revoked_api_key']);
  });

  it('can not alter it, make one or use one of another router', async () => {
    const { session } = router.sessions.create(SESSION);
    const [payload = '', signature = ''] = session.slice(4).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const richer = Buffer.from(JSON.stringify({ ...claims, maxSpend: '9.00' })).toString('base64url');
    const guessed = createHmac('sha256', 'secret').update(richer).digest('base64url');
    const foreign = open('another secret, which has more than 32 characters, too').sessions.create(SESSION);
    for (const forged of [
      `ses-${richer}.${signature}`,
      `ses-${richer}.${guessed}`,
      `ses-${richer}.`,
      `ses-${richer}`,
      `ses-.${signature}`,
      `ses-${payload}.${signature}.${signature}`,
      `ses-${payload}.${signature.slice(0, -1)}`,
      `SES-${payload}.${signature}`,
      `ses-${'A'.repeat(4000)}.${signature}`,
      foreign.session,
    ]) {
      expect(await ask(forged)).toEqual([401, 'invalid_api_key']);
    }
    expect(await router.keys.list('acme')).toEqual([]);
    expect(await used()).toBe('0.00');
  });

  it('can not use it after its end', async () => {
    const { session, expiresAt } = router.sessions.create({ ...SESSION, ttlMs: 1 });
    await expect.poll(() => Date.now()).toBeGreaterThan(expiresAt.getTime());
    expect(await ask(session)).toEqual([401, 'expired_api_key']);
  });

  it('can not use it on a page of another origin, or with another model', async () => {
    const { session } = router.sessions.create({ ...SESSION, models: ['tool/*'] });
    expect(await ask(session, { from: 'https://evil.example' })).toEqual([403, 'origin_not_allowed']);
    expect(await ask(session, { from: 'null' })).toEqual([403, 'origin_not_allowed']);
    expect(await ask(session, { model: 'image/a' })).toEqual([403, 'model_not_allowed']);
    expect(await ask(session, { from: null })).toEqual([200, undefined]);
  });

  it('sees nothing of the account', async () => {
    const { session } = router.sessions.create(SESSION);
    const get = async (path: string, key: string): Promise<Response> =>
      router.fetch(new Request(`http://router/v1${path}`, { headers: { authorization: `Bearer ${key}` } }));
    expect(await (await get('/credits', session)).json()).toMatchObject({
      balance: '0.50',
      total_used: '0.00',
      data: { total_credits: 0.5 },
    });
    await ask(session);
    expect(await (await get('/credits', session)).json()).toMatchObject({
      balance: '0.30',
      total_used: '0.20',
    });
    const { key } = await router.keys.create({ account: 'acme' });
    const hold = await router.holds.open({ account: 'acme', model: 'job', amount: '1.00' });
    await hold.settle('1.00');
    const generation = `/generation?id=${hold.requestId}`;
    expect((await get(generation, key)).status).toBe(200);
    expect((await get(generation, session)).status).toBe(404);
  });

  it('is served while a secret is replaced', async () => {
    const { session } = router.sessions.create(SESSION);
    const next = 'the next secret of the test, with 32 characters or more';
    expect(await ask(session, { at: open([next, SECRET]) })).toEqual([200, undefined]);
    expect(await ask(session, { at: open(next) })).toEqual([401, 'invalid_api_key']);
  });
});
