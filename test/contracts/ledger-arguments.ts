import { describe, expect, it } from 'vitest';
import type { CreateKey, RotateKey, UpdateKey } from '../../src/ledger/contract/key-records.ts';
import { hashOf, MAX, NOON, requestId, USAGE, type LedgerFixture } from './ledger-fixture.ts';

type Call = readonly [argument: string, call: () => Promise<unknown>];
type Calls = readonly Call[];

/** How every ledger store rejects invalid arguments. Part of the suite in ledger-store.ts. */
export function describeArguments(ledger: LedgerFixture): void {
  const { admit, extend, settle, grant, adjust, state } = ledger;
  const account = '{acme}';
  const [short, upper] = ['short', requestId(1).toUpperCase()];
  const hash = 'a'.repeat(64);
  const createKey = (more: Partial<CreateKey>): Promise<unknown> =>
    ledger.store.createKey({ account: 'acme', key: 'k2', hash: hashOf('k2'), name: '', ...more });
  const updateKey = (more: Partial<UpdateKey>): Promise<unknown> =>
    ledger.store.updateKey({ account: 'acme', key: 'k1', version: 1, name: '', ...more });
  const rotateKey = (more: Partial<RotateKey>): Promise<unknown> =>
    ledger.store.rotateKey({
      account: 'acme',
      key: 'k1',
      hash: hashOf('k2'),
      version: 1,
      overlapMs: 0,
      ...more,
    });
  const usage = (more: Partial<typeof USAGE>) => ({ usage: { ...USAGE, ...more } });
  const voided = { account: 'acme', requestId: requestId(1) };
  const tags = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`tag:t${n}`, 'x']));

  const WRONG: Readonly<Record<string, Calls>> = {
    admit: [
      ['account', () => admit(1, 1n, { account })],
      ['account', () => admit(1, 1n, { account: '' })],
      ['account', () => admit(1, 1n, { account: 'a'.repeat(129) })],
      ['account', () => admit(1, 1n, { account: 7 as never })],
      ...['a b', 'a\n', '{a}', 'a}', '"a"', 'a\\b', '`', 'Zoë', 'a\u0000', '\u202ea', '.', '..'].map(
        (bad): Call => ['account', () => admit(1, 1n, { account: bad })],
      ),
      ['accountVersion', () => admit(1, 1n, { accountVersion: -1 })],
      ['endUser', () => admit(1, 1n, { endUser: '' })],
      ['endUser', () => admit(1, 1n, { endUser: 'x'.repeat(129) })],
      ['endUser', () => admit(1, 1n, { endUser: '\ud800' })],
      ['endUser', () => admit(1, 1n, { endUser: 7 as never })],
      ['key', () => admit(1, 1n, { key: 'k/1' })],
      ['key', () => admit(1, 1n, { key: '' })],
      ['key', () => admit(1, 1n, { key: 7 as never })],
      ['keyVersion', () => admit(1, 1n, { keyVersion: 0 })],
      ['keyVersion', () => admit(1, 1n, { keyVersion: 1.5 })],
      ['requestId', () => admit(1, 1n, { requestId: short })],
      ['requestId', () => admit(1, 1n, { requestId: upper })],
      ['requestId', () => admit(1, 1n, { requestId: `${requestId(1)}0` })],
      ['want', () => admit(1, -1n, { min: 0n })],
      ['want', () => admit(1, MAX + 1n, { min: 0n })],
      ['want', () => admit(1, 1 as never, { min: 0n })],
      ['min', () => admit(1, 1n, { min: -1n })],
      ['min', () => admit(1, 1n, { min: 2n })],
      ['leaseMs', () => admit(1, 1n, { leaseMs: 0 })],
      ['leaseMs', () => admit(1, 1n, { leaseMs: Infinity })],
      ['model', () => admit(1, 1n, { model: 7 as never })],
      ['tokens', () => admit(1, 1n, { tokens: -1 })],
      ['tokens', () => admit(1, 1n, { tokens: 0.5 })],
      ['notAfter', () => admit(1, 1n, { notAfter: NaN })],
      ['notAfter', () => admit(1, 1n, { notAfter: '5' as never })],
      ['idempotencyKey.key', () => admit(1, 1n, { idempotencyKey: { key: 'secret', body: hash } })],
      ['idempotencyKey.body', () => admit(1, 1n, { idempotencyKey: { key: hash, body: '' } })],
      ['idempotencyKey.body', () => admit(1, 1n, { idempotencyKey: { key: hash } as never })],
    ],
    extend: [
      ['account', () => extend(1, 1n, { account })],
      ['requestId', () => extend(1, 1n, { requestId: short })],
      ['hold', () => extend(1, -1n)],
      ['hold', () => extend(1, MAX + 1n)],
      ['leaseMs', () => extend(1, 1n, { leaseMs: 0 })],
      ['checkpoint', () => extend(1, 1n, { checkpoint: -1n })],
    ],
    settle: [
      ['account', () => settle(1, 1n, { account })],
      ['requestId', () => settle(1, 1n, { requestId: upper })],
      ['amount', () => settle(1, -1n)],
      ['amount', () => settle(1, MAX + 1n)],
      ['key', () => settle(1, 1n, { key: 'k 1' })],
      ['model', () => settle(1, 1n, { model: undefined as never })],
      ['usage.promptTokens', () => settle(1, 1n, usage({ promptTokens: NaN }))],
      ['usage.cachedTokens', () => settle(1, 1n, usage({ cachedTokens: NaN }))],
      ['usage.completionTokens', () => settle(1, 1n, usage({ completionTokens: -1 }))],
      ['usage.reasoningTokens', () => settle(1, 1n, usage({ reasoningTokens: 0.5 }))],
      ['usage.cost', () => settle(1, 1n, usage({ cost: -1n }))],
      ['usage.cost', () => settle(1, 1n, usage({ cost: 1 as never }))],
      ['idempotencyKey.key', () => settle(1, 1n, { idempotencyKey: { key: 'secret', body: hash } })],
      ['idempotencyKey.body', () => settle(1, 1n, { idempotencyKey: { key: hash, body: '' } })],
      ['dimensions', () => settle(1, 1n, { dimensions: 'ann' as never })],
      ['dimensions', () => settle(1, 1n, { dimensions: { team: 'a' } })],
      ['dimensions', () => settle(1, 1n, { dimensions: { 'tag:a b': 'a' } })],
      ['dimensions', () => settle(1, 1n, { dimensions: { user: 'u', provider: 'p', ...tags(5) } })],
      ['dimensions.user', () => settle(1, 1n, { dimensions: { user: '' } })],
      ['dimensions.tag:a', () => settle(1, 1n, { dimensions: { 'tag:a': 'x'.repeat(129) } })],
    ],
    usageBy: [
      ['account', () => ledger.store.usageBy(account, 'user', '2026-03-04', '2026-03-04')],
      ['dimension', () => ledger.store.usageBy('acme', 'key', '2026-03-04', '2026-03-04')],
      ['toDay', () => ledger.store.usageBy('acme', 'user', '2026-03-04', '2026-02-30')],
    ],
    void: [
      ['dimensions', async () => ledger.store.void({ ...voided, dimensions: { model: 'a' } })],
      ['account', async () => ledger.store.void({ account, requestId: requestId(1) })],
      ['requestId', async () => ledger.store.void({ account: 'acme', requestId: short })],
      ['key', async () => ledger.store.void({ account: 'acme', requestId: requestId(1), key: 'k 1' })],
      [
        'model',
        async () => ledger.store.void({ account: 'acme', requestId: requestId(1), model: 7 as never }),
      ],
    ],
    usage: [
      ['account', () => ledger.store.usage(account, '2026-03-04', '2026-03-04')],
      ['fromDay', () => ledger.store.usage('acme', '2026-3-4', '2026-03-04')],
      ['toDay', () => ledger.store.usage('acme', '2026-03-04', '2026-02-30')],
      ['key', () => ledger.store.usage('acme', '2026-03-04', '2026-03-04', 'k*')],
    ],
    compactUsage: [
      ['account', () => ledger.store.compactUsage(account, '2026-03-04')],
      ['beforeDay', () => ledger.store.compactUsage('acme', 'yesterday')],
    ],
    request: [
      ['account', () => ledger.store.request(account, requestId(1))],
      ['requestId', () => ledger.store.request('acme', short)],
    ],
    grant: [
      ['account', () => grant('g', 1n, { account })],
      ['id', () => grant('', 1n)],
      ['id', () => grant('two words', 1n)],
      ['id', () => grant('x'.repeat(129), 1n)],
      ['id', () => grant(7 as never, 1n)],
      ['amount', () => grant('g', 0n)],
      ['amount', () => grant('g', MAX + 1n)],
      ['expiresAt', () => grant('g', 1n, { expiresAt: NaN })],
      ['expiresAt', () => grant('g', 1n, { expiresAt: -1 })],
      ['priority', () => grant('g', 1n, { priority: -1 })],
      ['priority', () => grant('g', 1n, { priority: 101 })],
      ['recreate', () => grant('g', 1n, { recreate: 'no' as never })],
    ],
    adjust: [
      ['account', () => adjust('a', 1n, { account })],
      ['id', () => adjust('two words', 1n)],
      ['delta', () => adjust('a', 0n)],
      ['delta', () => adjust('a', MAX + 1n)],
      ['delta', () => adjust('a', -MAX - 1n)],
      ['delta', () => adjust('a', 1 as never)],
      ['reason', () => adjust('a', 1n, { reason: 'x'.repeat(501) })],
      ['reason', () => adjust('a', 1n, { reason: 7 as never })],
    ],
    createKey: [
      ['account', () => createKey({ account })],
      ['key', () => createKey({ key: 'k:2' })],
      ['hash', () => createKey({ hash: 'a'.repeat(63) })],
      ['hash', () => createKey({ hash: 'A'.repeat(64) })],
      ['hash', () => createKey({ hash: 7 as never })],
      ['version', () => createKey({ version: 0 })],
      ['recreate', () => createKey({ recreate: 1 as never })],
      ['name', () => createKey({ name: 'x'.repeat(201) })],
      ['name', () => createKey({ name: 7 as never })],
      [
        'limits.budgets\\[0\\].amount',
        () => createKey({ limits: { budgets: [{ amount: -1n, per: 'day' }] } }),
      ],
      [
        'limits.budgets\\[0\\].per',
        () => createKey({ limits: { budgets: [{ amount: 1n, per: 'year' as never }] } }),
      ],
      [
        'limits.budgets',
        () => createKey({ limits: { budgets: [5n, 6n].map((amount) => ({ amount, per: 'day' as const })) } }),
      ],
      ['endUsers.max', () => createKey({ endUsers: { max: 0 } })],
      ['paused', () => createKey({ paused: 'yes' as never })],
      ['limits.requestsPerMinute', () => createKey({ limits: { requestsPerMinute: 0 } })],
      ['limits.requestsPerMinute', () => createKey({ limits: { requestsPerMinute: 1_000_000_001 } })],
      ['limits.tokensPerMinute', () => createKey({ limits: { tokensPerMinute: 0.5 } })],
      ['limits.concurrentRequests', () => createKey({ limits: { concurrentRequests: 0 } })],
      ['expiresAt', () => createKey({ expiresAt: -1 })],
      ['expiresAt', () => createKey({ expiresAt: NaN })],
      ['policy', () => createKey({ policy: '' })],
      ['policy', () => createKey({ policy: 'x'.repeat(8193) })],
      ['policy', () => createKey({ policy: '\ud800' })],
      ['policy', () => createKey({ policy: {} as never })],
    ],
    updateKey: [
      ['account', () => updateKey({ account })],
      ['key', () => updateKey({ key: 'k:1' })],
      ['version', () => updateKey({ version: 0 })],
      ['name', () => updateKey({ name: 7 as never })],
      ['limits.requestsPerMinute', () => updateKey({ limits: { requestsPerMinute: 0 } })],
      ['expiresAt', () => updateKey({ expiresAt: 0.5 })],
      ['policy', () => updateKey({ policy: '' })],
    ],
    rotateKey: [
      ['account', () => rotateKey({ account })],
      ['key', () => rotateKey({ key: 'k:1' })],
      ['hash', () => rotateKey({ hash: 'secret' })],
      ['version', () => rotateKey({ version: 0 })],
      ['overlapMs', () => rotateKey({ overlapMs: -1 })],
      ['overlapMs', () => rotateKey({ overlapMs: 367 * 86_400_000 })],
    ],
    'the rest': [
      ['account', () => ledger.store.revokeKey(account, 'k1')],
      ['key', () => ledger.store.revokeKey('acme', 'k:1')],
      ['account', () => ledger.store.keyState(account, 'k1')],
      ['key', () => ledger.store.keyState('acme', 'k:1')],
      ['account', () => ledger.store.endUserState(account, 'alice')],
      ['endUser', () => ledger.store.endUserState('acme', '')],
      ['endUser', () => ledger.store.endUserState('acme', 'x'.repeat(129))],
      ['key', () => ledger.store.endUserState('acme', 'alice', 'k:1')],
      ['account', () => ledger.store.prune(account)],
      ['account', () => ledger.store.keys(account)],
      ['account', () => ledger.store.snapshot(account)],
      ['account', () => ledger.store.verify({ account, witnesses: [] })],
      ['account', () => ledger.store.balance(account)],
      ['account', () => ledger.store.freeze(account, true)],
      ['account', () => ledger.store.journal(account, 0n, 1)],
      ['afterSeq', () => ledger.store.journal('acme', -1n, 1)],
      ['afterSeq', () => ledger.store.journal('acme', 0 as never, 1)],
      ['limit', () => ledger.store.journal('acme', 0n, -1)],
      ['limit', () => ledger.store.journal('acme', 0n, NaN)],
      ['budget', () => ledger.store.sweep(-1)],
      ['budget', () => ledger.store.sweep(0.5)],
      ['account', () => ledger.store.compact(account, 1n)],
      ['seq', () => ledger.store.compact('acme', -1n)],
      ['seq', () => ledger.store.compact('acme', 1 as never)],
    ],
  };

  const RIGHT: Calls = [
    ['account', () => admit(1, 1n, { account: `Az09_-${'a'.repeat(58)}` })],
    ['account', () => admit(1, 1n, { account: 'a' })],
    ['key', () => admit(1, 1n, { key: 'a'.repeat(64) })],
    ['want', () => admit(1, MAX, { min: 0n })],
    ['leaseMs', () => admit(1, 1n, { leaseMs: 1 })],
    ['tokens', () => admit(1, 1n, { tokens: 0 })],
    ['notAfter', () => admit(1, 1n, { notAfter: -Infinity })],
    ['hold', () => extend(1, 0n, { leaseMs: 1, checkpoint: 0n })],
    ['amount', () => settle(1, MAX)],
    [
      'usage',
      () => settle(1, 0n, usage({ promptTokens: 0, cachedTokens: 0, completionTokens: 0, cost: 0n })),
    ],
    ['usage.cost', () => settle(1, 0n, usage({ cost: MAX + 1n }))],
    ['id', () => grant(`!~${'x'.repeat(126)}`, 1n)],
    ['amount', () => grant('g1', MAX)],
    ['expiresAt', () => grant('g1', 1n, { expiresAt: 0 })],
    ['expiresAt', () => grant('g1', 1n, { expiresAt: Number.MAX_SAFE_INTEGER })],
    ['priority', () => grant('g1', 1n, { priority: 0 })],
    ['priority', () => grant('g1', 1n, { priority: 100 })],
    ['delta', () => adjust('a1', MAX)],
    ['delta', () => adjust('a1', -MAX)],
    ['delta', () => adjust('a1', 1n)],
    ['reason', () => adjust('a1', 1n, { reason: 'x'.repeat(500) })],
    ...ACCOUNTS.map((account): Call => ['account', () => grant('g1', 1n, { account })]),
    ['endUser', () => admit(1, 1n, { endUser: '\u{1f600}'.repeat(64) })],
    ['name', () => createKey({ name: 'x'.repeat(200) })],
    ['expiresAt', () => createKey({ expiresAt: 0 })],
    ['policy', () => createKey({ policy: 'x'.repeat(8192) })],
    ['overlapMs', () => rotateKey({ overlapMs: 366 * 86_400_000 })],
    ['limits.budget.amount', () => createKey({ limits: { budgets: [{ amount: 0n, per: 'lifetime' }] } })],
    ['limits', () => createKey({ limits: { requestsPerMinute: 1, tokensPerMinute: 1_000_000_000 } })],
    ['limits', () => createKey({ limits: { concurrentRequests: 1 } })],
    ['limit', () => ledger.store.journal('acme', 0n, 0)],
  ];

  describe.each(Object.entries(WRONG))('arguments of %s', (_command, calls) => {
    it.each(calls)('that can only be a mistake are named: %s', async (argument, call) => {
      const before = await state();
      await expect(call()).rejects.toThrow(new RegExp(`^${argument} must be`));
      await expect(call()).rejects.toBeInstanceOf(TypeError);
      expect(await state()).toEqual(before);
    });
  });

  describe('arguments', () => {
    it.each(RIGHT)('may be as small or large as this: %s', async (_argument, call) => {
      await expect(call()).resolves.toBeDefined();
    });

    it('are refused with what was wrong about them', async () => {
      await expect(admit(1, 5n, { min: 6n })).rejects.toThrow('min must be at most want (5), got 6');
      await expect(extend(1, 1n, { leaseMs: 0 })).rejects.toThrow(
        'leaseMs must be an integer from 1 to 9007199254740991, got 0',
      );
      await expect(grant('g', 1n, { account: 'x'.repeat(200) })).rejects.toThrow(
        `account must be 1 to 128 visible ASCII characters other than " \` { } \\ and not . or .., got "${'x'.repeat(100)}"`,
      );
    });

    it('do not tell what should have been hashed', async () => {
      const named = { key: 'sk-ccr-secret', body: hash };
      await expect(createKey({ hash: 'sk-ccr-secret' })).rejects.toThrow(
        /^hash must be a SHA-256 in 64 hex digits$/,
      );
      await expect(admit(1, 1n, { idempotencyKey: named })).rejects.toThrow(
        /^idempotencyKey.key must be a SHA-256 in 64 hex digits$/,
      );
    });

    it('make no account where they are wrong', async () => {
      await grant('g', 0n, { account: 'zeta' }).catch(() => {});
      await createKey({ account: 'zeta', name: 'x'.repeat(201) }).catch(() => {});
      expect(await ledger.store.snapshot('zeta')).toBeUndefined();
      expect((await ledger.store.balance('acme'))?.granted).toBe(100n);
      expect(await admit(1, 1n, { requestId: requestId(1, NOON) })).toMatchObject({ code: 'ok' });
    });
  });
}

/** Accounts as hosts name them. */
const ACCOUNTS: readonly string[] = [
  'ann@example.com',
  "o'hara+billing@example.co.uk",
  'auth0|507f1f77bcf86cd799439011',
  'org/team:7',
  '123e4567-e89b-12d3-a456-426614174000',
  'https://example.com/?id=1&x=[2]#%7B',
  '~',
  '@',
  '$',
  '...',
  'x'.repeat(128),
];
