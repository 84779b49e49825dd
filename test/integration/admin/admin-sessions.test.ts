import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { type AdminDoor, startAdmin } from '../../helpers/admin.ts';

const SESSIONS = '/accounts/acme/sessions';
const PAGE = { max_spend: '0.50', ttl_ms: 60_000, origins: ['https://chat.example.com'] };

describe('the sessions of the admin API', () => {
  let door: AdminDoor;

  beforeEach(async () => {
    door = await startAdmin();
    await door.router.credits.grant('acme', '5.00', { id: 'welcome' });
  });

  afterEach(async () => {
    await door.close();
  });

  const credits = async (session: string): Promise<Response> =>
    door.router.fetch(
      new Request('http://localhost/credits', {
        headers: { authorization: `Bearer ${session}`, origin: 'https://chat.example.com' },
      }),
    );

  it('are made for a page, and revoked, without a secret in the audit log', async () => {
    const body = { ...PAGE, user: 'ann', models: ['openai/*'] };
    const made = await door.ask('POST', SESSIONS, body);
    expect(made).toMatchObject({ status: 201, body: { session: expect.stringMatching(/^ses-/) } });
    const { session, id, expires_at } = made.body;
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now());
    expect(await (await credits(session)).json()).toMatchObject({ balance: '0.50' });

    for (const outcome of ['done', 'done']) {
      const revoked = await door.ask('POST', '/sessions/revoke', { session });
      expect(revoked).toMatchObject({ status: 200, body: { id, account: 'acme' } });
      expect(door.audits.at(-1)).toMatchObject({ action: 'sessions.revoke', target: id, outcome });
    }
    expect(await door.router.keys.list('acme')).toMatchObject([{ id, name: 'ann', state: 'revoked' }]);
    expect(door.audits[0]).toMatchObject({ action: 'sessions.create', target: id, body });
    expect(JSON.stringify(door.audits)).not.toContain(session.split('.')[1]);
  });

  it('are refused by name, with nothing written', async () => {
    for (const [body, param] of [
      [{ ...PAGE, max_spend: '0' }, 'max_spend'],
      [{ ...PAGE, max_spend: undefined }, 'max_spend'],
      [{ ...PAGE, ttl_ms: 86_400_001 }, 'ttl_ms'],
      [{ ...PAGE, origins: [] }, 'origins'],
      [{ ...PAGE, origins: ['chat.example.com'] }, 'origins'],
      [{ ...PAGE, models: [] }, 'models'],
      [{ ...PAGE, user: '' }, 'user'],
      [{ ...PAGE, budget: '1' }, 'budget'],
    ] as const) {
      expect(await door.ask('POST', SESSIONS, body), param).toMatchObject({
        status: 400,
        body: { error: { param } },
      });
    }
    expect(await door.ask('POST', '/accounts/none/sessions', PAGE)).toMatchObject({
      status: 404,
      body: { error: { code: 'account_not_found' } },
    });
    const other = createChatCompletionsRouter({
      store: 'memory:',
      providers: {},
      models: {},
      sessions: { secret: 'another secret, of 32 characters or more' },
    });
    const { session } = other.sessions.create({
      account: 'acme',
      maxSpend: '0.50',
      ttlMs: 60_000,
      origins: PAGE.origins,
    });
    await other.close();
    expect(await door.ask('POST', '/sessions/revoke', { session })).toMatchObject({
      status: 404,
      body: { error: { code: 'session_not_found' } },
    });
    expect(await door.router.keys.list('acme')).toEqual([]);
  });

  it('are a conflict on a router without a secret', async () => {
    const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });
    const without = await startAdmin({ router });
    await router.credits.grant('acme', '1.00', { id: 'welcome' });
    const error = { error: { code: 'sessions_disabled' } };
    expect(await without.ask('POST', SESSIONS, PAGE)).toMatchObject({ status: 409, body: error });
    const revoked = await without.ask('POST', '/sessions/revoke', { session: 'ses-x.y' });
    expect(revoked).toMatchObject({ status: 409, body: error });
    await without.close();
    await router.close();
  });
});
