import { rmSync } from 'node:fs';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { documentedModules } from '../../helpers/documented.ts';

interface PlansModule {
  readonly router: ChatCompletionsRouter;
  signUp(account: string): Promise<string>;
  subscribe(account: string, plan: 'starter' | 'pro' | 'team', paidAt: Date): Promise<void>;
  unsubscribe(account: string): Promise<void>;
  signReseller(account: string): Promise<string>;
  invoice(account: string, month: string): Promise<string>;
  enrol(pupils: readonly string[]): Promise<Map<string, string>>;
}

const FILE = `${process.env['TMPDIR'] ?? '/tmp'}/plans-docs-${process.pid}.db`;

describe('docs/plans.md', () => {
  let provider: FakeProvider;
  let plans: PlansModule;

  beforeAll(async () => {
    provider = await startFakeProvider();
    provider.answer(completion({ tokens: { prompt: 1000, completion: 1000 } }));
    process.env['CREDITS_STORE'] = `sqlite:${FILE}`;
    const load = documentedModules('plans.md', ['plans.ts'], provider.baseURL);
    plans = (await load('plans.ts')) as PlansModule;
    delete process.env['CREDITS_STORE'];
  });

  afterAll(async () => {
    await plans.router.close();
    await provider.close();
    for (const suffix of ['', '-wal', '-shm', '-line']) rmSync(FILE + suffix, { force: true });
  });

  /** The answer's status, once the request is charged. */
  async function ask(key: string): Promise<number> {
    const request = new Request('http://localhost/chat/completions', {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'gpt-mini',
        max_tokens: 1000,
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    });
    const response = await plans.router.fetch(request);
    await response.text();
    await plans.router.settled(request);
    return response.status;
  }

  it('gives a free tier', async () => {
    const key = await plans.signUp('freda');
    expect(await ask(key)).toBe(200);
    const shown = await plans.router.fetch(
      new Request('http://localhost/credits', { headers: { authorization: `Bearer ${key}` } }),
    );
    expect(await shown.json()).toMatchObject({
      balance: '0.09775',
      allowances: [
        { id: 'free', amount: '0.10', remaining: '0.09775', per: 'day', resets_at: expect.any(String) },
      ],
      lots: [{ allowance: 'free', amount: '0.10', remaining: '0.09775' }],
    });
  });

  it('sells three plans, with upgrades at once and downgrades later', async () => {
    const paidAt = new Date();
    await plans.subscribe('paula', 'starter', paidAt);
    await plans.subscribe('paula', 'pro', paidAt);
    const [upgraded] = await plans.router.credits.allowances('paula');
    expect(upgraded).toMatchObject({ amount: '20.00', granted: '20.00' });
    expect(Number(upgraded?.remaining)).toBeGreaterThan(19.9);
    await plans.subscribe('paula', 'starter', paidAt);
    expect(await plans.router.credits.allowances('paula')).toMatchObject([
      { amount: '5.00', granted: '20.00' },
    ]);
    await plans.unsubscribe('paula');
    const [ended] = await plans.router.credits.allowances('paula');
    expect(ended?.until).toEqual(ended?.resetsAt);
  });

  it('invoices a reseller', async () => {
    const key = await plans.signReseller('resa');
    const before = new Date().toISOString().slice(0, 7);
    expect(await ask(key)).toBe(200);
    expect(await plans.router.credits.balance('resa')).toMatchObject({
      balance: '-0.00225',
      creditLimit: '500.00',
    });
    const after = new Date().toISOString().slice(0, 7);
    const invoiced = await Promise.all([before, after].map((month) => plans.invoice('resa', month)));
    expect(invoiced).toContain('0.00225');
  });

  it('gives 10,000 pupils an allowance and a limit each', async () => {
    const pupils = Array.from({ length: 10_000 }, (_, n) => `pupil-${n}`);
    const keys = await plans.enrol(pupils);
    expect(keys.size).toBe(10_000);
    const [busy = '', other = ''] = [keys.get('pupil-9999'), keys.get('pupil-0')];
    const statuses = await Promise.all(Array.from({ length: 50 }, () => ask(busy)));
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    const served = statuses.filter((status) => status === 200).length;
    expect(served).toBeGreaterThanOrEqual(20); // and those of the seconds that this took
    const { totalUsed } = await plans.router.credits.balance('pupil-9999');
    expect(Number(totalUsed)).toBeCloseTo(served * 0.00225, 9);
    expect(await ask(other)).toBe(200);
    expect(await plans.router.credits.balance('pupil-0')).toMatchObject({ balance: '0.49775' });
  });
});
