import { afterEach, describe, expect, it } from 'vitest';

import { type LedgerEvent, MemoryStore } from '../../src/index.ts';
import { clientsOf, type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';

/** What the attacker wants: ten keys, and with them ten times the limit of the account. */

const gateways: Gateway[] = [];

afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
});

/** Two gateways of one store, and five keys at each of them. */
async function tenKeys(): Promise<{ readonly router: Gateway['router']; readonly posts: Gateway['post'][] }> {
  const store = new MemoryStore();
  const posts: Gateway['post'][] = [];
  for (let n = 0; n < 2; n++) {
    const gateway = await startGateway({ store });
    gateways.push(gateway);
    for (let m = 0; m < 5; m++) {
      const { key } = await gateway.router.keys.create({ account: 'acct', requestsPerMinute: 3 });
      posts.push(clientsOf(gateway.baseURL, key).post);
    }
  }
  return { router: gateways[0]!.router, posts };
}

async function codesOf(responses: readonly Response[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const response of responses) {
    const { error } = (await response.json()) as { error?: { code: string; limited_by?: string } };
    const code = error ? `${error.code} of ${error.limited_by}` : 'ok';
    counts[code] = (counts[code] ?? 0) + 1;
  }
  return counts;
}

describe('ten keys of an account, at two gateways', () => {
  it('send no more requests a minute than the account may', async () => {
    const { router, posts } = await tenKeys();
    await router.accounts.update('acct', { requestsPerMinute: 7 });
    const responses = await Promise.all([...posts, ...posts].map((post) => post(QUESTION)));
    expect(await codesOf(responses)).toEqual({ ok: 7, 'requests_per_minute_exceeded of account': 13 });
  });

  it('spend no more than the budgets of the account, whichever is the tighter one', async () => {
    const { router, posts } = await tenKeys();
    // A request holds at most 0.003051 here, and costs 0.000045.
    await router.accounts.update('acct', {
      budget: [
        { amount: '1.00', per: 'month' },
        { amount: '0.0001', per: 'day' },
      ],
    });
    const responses: Response[] = [];
    for (const post of posts) responses.push(await post({ ...QUESTION, max_tokens: 10 }));
    expect((await codesOf(responses))['budget_exceeded of account']).toBeGreaterThanOrEqual(7);
    const { limits } = (await router.accounts.get('acct'))!;
    const [month, day] = limits?.budgets ?? [];
    expect([month?.per, day?.per, limits?.budgetLeft]).toEqual(['month', 'day', day?.left]);
    expect(Number(day?.spent)).toBeLessThanOrEqual(0.0001);
  });

  it('are told the tighter of two limits in the headers', async () => {
    const { router, posts } = await tenKeys();
    await router.accounts.update('acct', { requestsPerMinute: 4 });
    const left: (string | null)[] = [];
    for (const post of posts.slice(0, 4)) {
      const { headers } = await post(QUESTION);
      left.push(headers.get('x-ratelimit-remaining-requests'));
    }
    // The key has 2 left of 3 each time; the account 3, 2, 1 and 0 of 4.
    expect(left).toEqual(['2', '2', '1', '0']);
  });
});

describe('labels that authenticate gives', () => {
  it('share the limits of their account', async () => {
    let label = 0;
    const gateway = await startGateway({
      authenticate: (_key, { headers }) => ({
        account: 'ann@example.com',
        key: `label${(label += Object.keys(headers).length)}`,
      }),
    });
    gateways.push(gateway);
    await gateway.router.credits.grant('ann@example.com', '5.00', { id: 'g1' });
    await gateway.router.accounts.update('ann@example.com', { requestsPerMinute: 2 });
    const responses = await Promise.all([1, 2, 3, 4, 5].map(() => gateway.post(QUESTION)));
    expect(await codesOf(responses)).toEqual({ ok: 2, 'requests_per_minute_exceeded of account': 3 });
  });
});

describe('end users that a client makes up', () => {
  it('have no more than one together, once there are as many as may be', async () => {
    const events: LedgerEvent[] = [];
    const gateway = await startGateway({
      dimensions: { user: true },
      hooks: [{ onLedgerEvent: (event) => events.push(event) }],
    });
    gateways.push(gateway);
    await gateway.router.accounts.update('acct', { endUsers: { requestsPerMinute: 1, max: 2 } });
    const responses: Response[] = [];
    for (const user of ['a', 'b', 'a', 'c', 'd', 'e'])
      responses.push(await gateway.post({ ...QUESTION, user }));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429, 200, 429, 429]);
    const told = events.filter(({ type }) => type === 'end_users_full');
    expect(told).toEqual([{ type: 'end_users_full', account: 'acct' }]);
  });
});
