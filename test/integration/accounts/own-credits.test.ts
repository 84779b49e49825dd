import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';

let gateway: Gateway;

beforeEach(async () => {
  gateway = await startGateway();
});

afterEach(async () => {
  await gateway.close();
});

async function credits(key: string): Promise<unknown> {
  const response = await fetch(`${gateway.baseURL}/credits`, { headers: { authorization: `Bearer ${key}` } });
  expect(response.status).toBe(200);
  return response.json();
}

describe('GET /credits', () => {
  it('tells of a key what is left of its budget and its limits', async () => {
    const { key, id } = await gateway.router.keys.create({
      account: 'acct',
      name: 'capped',
      budget: { amount: '1.00', per: 'month' },
      requestsPerMinute: 60,
      concurrentRequests: 4,
    });
    const settled = gateway.nextSettled();
    await fetch(`${gateway.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(QUESTION),
    });
    await settled;
    expect(await credits(key)).toMatchObject({
      balance: '4.999955',
      total_used: '0.000045',
      key: {
        id,
        name: 'capped',
        expires_at: null,
        budget: {
          amount: '1.00',
          per: 'month',
          spent: '0.000045',
          left: '0.999955',
          resets_at: expect.stringMatching(/^\d{4}-\d\d-01T00:00:00.000Z$/),
        },
        limits: {
          requests_per_minute: { limit: 60, remaining: 59, reset_ms: expect.any(Number) },
          tokens_per_minute: null,
          concurrent_requests: { limit: 4, remaining: 4 },
        },
      },
    });
  });

  it('tells of a key without limits that it has none', async () => {
    expect(await credits(gateway.key)).toMatchObject({
      key: {
        name: 'test',
        budget: null,
        limits: { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null },
      },
    });
  });

  it("tells of no key where the host knows it, and the ledger doesn't", async () => {
    await gateway.close();
    gateway = await startGateway({ authenticate: () => ({ account: 'acct', key: 'label' }) });
    expect(await credits('anything')).not.toHaveProperty('key');
  });
});
