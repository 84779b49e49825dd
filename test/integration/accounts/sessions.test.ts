import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type CreateSession, createChatCompletionsRouter } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';

const SECRET = 'a secret of the test, which has more than 32 characters';
const ORIGIN = 'https://chat.example.com';
const SESSION = { account: 'acct', maxSpend: '0.50', ttlMs: 60_000, origins: [ORIGIN] };

describe('a session', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway({ sessions: { secret: SECRET } });
  });

  afterEach(() => gateway.close());

  const bearer = (session: string, origin = ORIGIN) => ({
    headers: { authorization: `Bearer ${session}`, origin },
  });

  it('is made without a write, and asks for a completion from a page', async () => {
    const { session, id, expiresAt } = gateway.router.sessions.create({ ...SESSION, user: 'ann' });
    expect(session).toMatch(/^ses-[\w-]+\.[\w-]{43}$/);
    expect(expiresAt.getTime()).toBeGreaterThan(Date.now());
    expect(await gateway.router.keys.list('acct')).toHaveLength(1);

    const settled = gateway.nextSettled();
    const response = await gateway.post(QUESTION, bearer(session));
    expect(response.status).toBe(200);
    expect(response.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(response.headers.get('vary')).toBe('origin');
    await response.text();
    expect(await settled).toMatchObject({ account: 'acct', key: id, charged: '0.000045' });
    const recorded = (await gateway.router.keys.list('acct')).find((key) => key.id === id);
    expect(recorded).toMatchObject({ name: 'ann', budget: { amount: '0.50', per: 'lifetime' }, expiresAt });
  });

  it('may be used by pages of its own origins alone', async () => {
    const { session } = gateway.router.sessions.create(SESSION);
    const preflight = await fetch(`${gateway.baseURL}/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin: ORIGIN,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    });
    expect(preflight.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(preflight.headers.get('access-control-allow-headers')).toBe('authorization');
    const foreign = await gateway.post(QUESTION, bearer(session, 'https://evil.example'));
    expect(foreign.status).toBe(403);
    expect(foreign.headers.get('access-control-allow-origin')).toBeNull();
    expect(await foreign.json()).toMatchObject({ error: { code: 'origin_not_allowed' } });
    expect(gateway.provider.received).toEqual([]);
  });

  it.each([
    ['what is left of its limit', '0.00', '0.00', '0.50'],
    ['what the account has, if that is less', '-4.80', '0.00', '0.20'],
    ['what a credit line pays for an account that owes', '-25.00', '500.00', '0.50'],
    ['nothing, where the account can pay nothing', '-5.00', '0.00', '0.00'],
  ])('learns what it may spend: %s', async (_, delta, creditLine, balance) => {
    const { credits, sessions } = gateway.router;
    await credits.setCreditLimit('acct', creditLine);
    if (delta !== '0.00') await credits.adjust('acct', delta, { id: 'less', reason: 'test' });
    const { session } = sessions.create(SESSION);
    const response = await gateway.fetch('/credits', bearer(session));
    expect(await response.json()).toEqual({
      balance,
      total_used: '0.00',
      held: '0.00',
      currency: 'USD',
      data: { total_credits: 0.5, total_usage: 0 },
    });
  });

  it('learns what is left of it once it was used', async () => {
    const { session, id } = gateway.router.sessions.create(SESSION);
    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION, bearer(session))).text();
    await settled;
    const body = (await (await gateway.fetch('/credits', bearer(session))).json()) as object;
    expect(body).toMatchObject({
      balance: '0.499955',
      total_used: '0.000045',
      held: '0.00',
      key: { id, budget: { amount: '0.50', spent: '0.000045', left: '0.499955' } },
      data: { total_credits: 0.5, total_usage: 0.000045 },
    });
    // Nothing else of the account.
    expect(Object.keys(body)).toEqual(['balance', 'total_used', 'held', 'currency', 'key', 'data']);
  });

  it('leaves other keys as they are', async () => {
    const response = await gateway.post(QUESTION, bearer(gateway.key));
    expect(response.status).toBe(200);
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
    await response.text();
  });

  it.each([
    [{ account: '' }, 'account must be'],
    [{ maxSpend: '0.00' }, 'maxSpend must be more than 0, got 0.00'],
    [{ maxSpend: 0.5 }, 'maxSpend must be a decimal string'],
    [{ ttlMs: 86_400_001 }, 'ttlMs must be an integer from 1 to 86400000, got 86400001'],
    [{ origins: [] }, 'origins must be 1 to 10 origins'],
    [{ origins: ['https://chat.example.com/'] }, 'origins must be 1 to 10 origins'],
    [{ origins: ['*'] }, 'origins must be 1 to 10 origins'],
    [{ models: [] }, 'models must be 1 to 100 model IDs'],
    [
      { models: Array.from({ length: 100 }, (_, n) => `${n}/${'x'.repeat(30)}`) },
      'A session must be at most 3000',
    ],
    [{ user: 'x'.repeat(129) }, 'user must be a text of 1 to 128 characters'],
    // Half of a character, which no request could be admitted for.
    [{ user: 'ann\ud800' }, 'user must be a text of 1 to 128 characters'],
    [{ maxspend: '1' }, 'options has an unknown key "maxspend"; did you mean "maxSpend"?'],
  ])('is refused by the name of what is wrong: %#', (wrong, message) => {
    expect(() => gateway.router.sessions.create({ ...SESSION, ...wrong } as CreateSession)).toThrow(message);
  });

  it.each([
    ['short', 'sessions.secret must be a string of 32 to 512 characters, got 5 characters'],
    ['x'.repeat(513), 'sessions.secret must be a string of 32 to 512 characters, got 513 characters'],
    [[], 'sessions.secret must be one or more secrets'],
    [undefined, 'sessions.secret must be a string of 32 to 512 characters, got undefined'],
  ])('needs a secret: %j', (secret, message) => {
    const make = () =>
      createChatCompletionsRouter({
        store: 'memory:',
        providers: { none: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
        models: { none: { targets: ['none/none'], pricing: 'free' } },
        sessions: { secret: secret as string },
      });
    expect(make).toThrow(message);
  });
});
