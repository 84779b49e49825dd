import { describe, expect, it, onTestFinished } from 'vitest';

import { createChatCompletionsRouter, MemoryStore } from '../../src/index.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';

/**
 * What the attacker wants: that nobody finds what happened to the requests of others, by filling the log with refusals, which
 * cost nothing; and to read what others asked, by their requests' IDs.
 */

async function start(store: MemoryStore): Promise<Gateway> {
  const gateway = await startGateway({ store, requestLogMax: 300 });
  onTestFinished(() => gateway.close());
  return gateway;
}

describe('an account that floods the log with refusals', () => {
  it('leaves the requests of others in it, and no more than a hundred a minute of its own', async () => {
    const gateway = await start(new MemoryStore());
    const others: string[] = [];
    for (let n = 0; n < 50; n++) {
      const response = await gateway.post(QUESTION);
      await response.text();
      others.push(response.headers.get('x-request-id') ?? '');
    }
    await gateway.router.credits.grant('mallory', '1', { id: 'g' });
    const { key } = await gateway.router.keys.create({ account: 'mallory', requestsPerMinute: 1 });
    const { post } = clientsOf(gateway.baseURL, key);
    const statuses = new Set<number>();
    for (let n = 0; n < 500; n++) {
      const response = await post(n % 2 ? QUESTION : { ...QUESTION, model: 'no/such' });
      await response.text();
      statuses.add(response.status);
    }
    expect(statuses).toEqual(new Set([200, 404, 429]));
    const { requestLog } = gateway.router;
    const kept = await requestLog.search({ account: 'acct', limit: 500 });
    expect(kept.requests.map(({ id }) => id).toReversed()).toEqual(others);
    const refused = await requestLog.search({ account: 'mallory', status: '4xx', limit: 500 });
    // A hundred a minute: the flood may last from one minute to the next.
    expect([100, 200]).toContain(Math.ceil(refused.requests.length / 100) * 100);
    expect(requestLog.counts().refusalsLeftOut).toBe(499 - refused.requests.length);
  });
});

describe('a client that knows the ID of a request of another account', () => {
  it('gets a 404 from the log, as for an ID that there is not', async () => {
    const store = new MemoryStore();
    const gateway = await start(store);
    const response = await gateway.post(QUESTION);
    await response.text();
    const id = response.headers.get('x-request-id') ?? '';
    expect(await gateway.router.requestLog.find(id)).toMatchObject({ account: 'acct' });
    // A day later: the ledger has forgotten it, the log has not.
    const later = Object.assign(store, { request: async () => undefined });
    const router = createChatCompletionsRouter({
      store: later,
      providers: {},
      models: {},
      sessions: { secret: 'a secret of a router, of 32 characters' },
    });
    onTestFinished(() => router.close());
    const ask = async (secret: string, of = id): Promise<[number, unknown]> => {
      const headers = { authorization: `Bearer ${secret}` };
      const answer = await router.fetch(new Request(`http://localhost/v1/generation?id=${of}`, { headers }));
      return [answer.status, await answer.json()];
    };
    const own = await router.keys.create({ account: 'acct' });
    expect(await ask(own.key)).toMatchObject([200, { data: { id } }]);
    const foreign = await router.keys.create({ account: 'mallory' });
    const none = '0'.repeat(19);
    const [status, body] = await ask(foreign.key);
    expect([status, JSON.stringify(body).replace(id, none)]).toEqual([
      404,
      JSON.stringify((await ask(foreign.key, none))[1]),
    ]);
    // A page of the same account learns nothing of its other requests either.
    const { session } = router.sessions.create({
      account: 'acct',
      maxSpend: '1',
      ttlMs: 60_000,
      origins: ['https://chat.example.com'],
    });
    expect((await ask(session))[0]).toBe(404);
  });
});
