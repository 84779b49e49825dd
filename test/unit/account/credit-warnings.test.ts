import { describe, expect, it } from 'vitest';

import { paceOf } from '../../../src/account/page/credits/pace.ts';
import { warningsOf } from '../../../src/account/page/credits/warnings.ts';
import type { Credits } from '../../../src/client/admin-api.generated.ts';
import type { UsageRow } from '../../../src/page/usage/range-usage.ts';

const NOW = Date.parse('2026-11-23T12:00:00Z');
const DAY_MS = 86_400_000;

function creditsOf(given: Partial<Credits>): Credits {
  return {
    account: 'acct',
    balance: '0.00',
    held: '0.00',
    spent: '0.00',
    granted: '0.00',
    expired: '0.00',
    credit_limit: '0.00',
    frozen: false,
    grants: [],
    allowances: [],
    ...given,
  };
}

const grant = (remaining: string, days?: number): Credits['grants'][number] => ({
  amount: remaining,
  remaining,
  expires_at: days === undefined ? null : new Date(NOW + days * DAY_MS).toISOString(),
  allowance: null,
});

const allowance = (days: number): Credits['allowances'][number] => ({
  id: 'plan',
  amount: '1.00',
  granted: '1.00',
  remaining: '1.00',
  per: 'day',
  resets_at: new Date(NOW + days * DAY_MS).toISOString(),
});

/** What was charged in seven days. */
function read(charged: string, given: Partial<Credits>): { text: string | undefined; warnings: string[] } {
  const credits = creditsOf({ granted: given.balance ?? '0.00', ...given });
  const row: UsageRow = {
    requests: 1,
    errors: 0,
    aborted: 0,
    prompt_tokens: 1,
    cached_tokens: 0,
    completion_tokens: 1,
    charged,
  };
  const pace = paceOf(credits, charged === '' ? [] : [row], NOW);
  return { text: pace.text, warnings: [...warningsOf(credits, pace)] };
}

describe('what the page says of credits', () => {
  it('counts only what is spent before it ends', () => {
    const grants = [grant('100.00', 2), grant('3.00')];
    expect(read('7.00', { balance: '103.00', grants })).toEqual({
      text: 'Lasts about 5 days at the pace of the last 7 days',
      warnings: [
        expect.stringMatching(/^At this pace \$98\.00 of your credits ends unspent on Nov 25, 2026/),
      ],
    });
  });

  it('says what ends unspent where nothing is spent at all', () => {
    expect(read('', { balance: '5.00', grants: [grant('5.00', 1), grant('1.00', 3)] })).toEqual({
      text: undefined,
      warnings: [expect.stringMatching(/\$5\.00 of your credits ends unspent .*, and more after that\.$/)],
    });
  });

  it('is silent of what ends much later, and of what is spent before', () => {
    expect(read('7.00', { balance: '9.00', grants: [grant('4.00', 5), grant('5.00', 30)] }).warnings).toEqual(
      [],
    );
  });

  it('warns of little, but not where an allowance is renewed before', () => {
    const given = { balance: '2.00', grants: [grant('2.00')] };
    expect(read('7.00', given).warnings).toEqual([
      'Your credits are running low. Add more, so that no request is rejected.',
    ]);
    expect(read('7.00', { ...given, allowances: [allowance(1)] }).warnings).toEqual([]);
  });

  it('says until when requests are rejected, where an allowance is renewed', () => {
    expect(read('7.00', { granted: '5.00', allowances: [allowance(1)] }).warnings).toEqual([
      expect.stringMatching(/used up, .* or wait until your allowance is renewed on Nov 24, 2026/),
    ]);
  });

  it('is no warning to owe what one may owe, until it is all', () => {
    const postpaid = { granted: '0.00', credit_limit: '100.00' };
    expect(read('7.00', { ...postpaid, balance: '-30.00' })).toEqual({
      text: 'Lasts about 70 days at the pace of the last 7 days',
      warnings: [],
    });
    expect(read('7.00', { ...postpaid, balance: '-100.00' }).warnings).toEqual([
      'You owe as much as you may, and requests are rejected. Pay what you owe to go on.',
    ]);
  });

  it.each([
    ['day', 'a day'],
    ['hour', 'an hour'],
    ['lifetime', 'in all'],
  ] as const)('names the budget of a %s that is used up, and when it is renewed', (per, written) => {
    // The API lists budgets only where there are several.
    const one = { amount: '50.00', per } as const;
    const limits = {
      spent: '50.00',
      held: '0.00',
      running: 0,
      budget_left: '0.00',
      budget_resets_at: '2026-11-24T00:00:00Z',
    };
    const account = { balance: '5.00', grants: [grant('5.00')] };
    const warning = `^Your account's budget of \\$50\\.00 ${written} is used up, .* until Nov 2`;
    expect(read('', { ...account, policy: { budget: one }, limits }).warnings).toEqual([
      expect.stringMatching(warning),
    ]);
    const other = { amount: '900.00', per: 'month', spent: '50.00', left: '850.00' } as const;
    const budgets = [other, { ...one, spent: '50.00', left: '0.00', resets_at: limits.budget_resets_at }];
    expect(
      read('', { ...account, policy: { budget: [other, one] }, limits: { ...limits, budgets } }).warnings,
    ).toEqual([expect.stringMatching(warning)]);
  });

  it('names the budget that is renewed last, where several are used up', () => {
    const empty = { amount: '1.00', spent: '1.00', left: '0.00' };
    const hour = { ...empty, per: 'hour', resets_at: '2026-11-23T13:00:00Z' } as const;
    const day = { ...empty, per: 'day', resets_at: '2026-11-24T00:00:00Z' } as const;
    const lifetime = { ...empty, per: 'lifetime' } as const;
    const warningsWith = (budgets: NonNullable<Credits['limits']>['budgets']): string[] =>
      read('', {
        balance: '5.00',
        grants: [grant('5.00')],
        limits: { spent: '1.00', held: '0.00', running: 0, ...(budgets && { budgets }) },
      }).warnings;
    expect(warningsWith([hour, day])).toEqual([
      expect.stringMatching(/^Your account's budget of \$1\.00 a day/),
    ]);
    expect(warningsWith([hour, lifetime, day])).toEqual([
      "Your account's budget of $1.00 in all is used up, and requests are rejected.",
    ]);
  });

  it('promises no renewal of an allowance that ends before it', () => {
    const ends = { ...allowance(1), until: allowance(1).resets_at };
    expect(read('7.00', { granted: '5.00', allowances: [ends] }).warnings).toEqual([
      'Your credits are used up, and requests are rejected. Add more to go on.',
    ]);
    expect(read('7.00', { granted: '5.00', allowances: [ends, allowance(3)] }).warnings).toEqual([
      expect.stringMatching(/renewed on Nov 26, 2026/),
    ]);
    expect(read('7.00', { balance: '2.00', grants: [grant('2.00')], allowances: [ends] }).warnings).toEqual([
      'Your credits are running low. Add more, so that no request is rejected.',
    ]);
  });

  it('is silent of a budget of which something is left', () => {
    const limits = { spent: '49.00', held: '0.00', running: 0, budget_left: '1.00' };
    const policy = { budget: { amount: '50.00', per: 'lifetime' } } as const;
    expect(read('', { balance: '5.00', grants: [grant('5.00')], policy, limits }).warnings).toEqual([]);
  });

  it('says nothing of how long credits last where the usage of the account is not known', () => {
    const credits = creditsOf({ granted: '2.00', balance: '2.00', grants: [grant('2.00', 1)] });
    expect(paceOf(credits, undefined, NOW)).toEqual({ state: 'fine', text: undefined, ending: [] });
    const used = creditsOf({ granted: '2.00' });
    expect(warningsOf(used, paceOf(used, undefined, NOW))).toEqual([
      'Your credits are used up, and requests are rejected. Add more to go on.',
    ]);
  });

  it('says of a frozen account that alone', () => {
    expect(read('7.00', { frozen: true, balance: '1.00', grants: [grant('1.00', 1)] }).warnings).toEqual([
      'This account is on hold, and requests are rejected. Your credits are safe: contact support.',
    ]);
  });
});
