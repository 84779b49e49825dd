import { afterAll, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter, MemoryStore, migrate, verifyLedger } from '../../../src/index.ts';

const router = createChatCompletionsRouter({
  store: 'memory:',
  providers: { local: { baseURL: 'http://127.0.0.1:1/v1' } },
  models: { chat: { targets: ['local/chat'], pricing: 'free' } },
  sessions: { secret: 's'.repeat(32) },
});
const { accounts, credits, holds, keys, providers, requestLog, sessions, usage } = router;

afterAll(() => router.close());

/** The calls that take options, by the name of one that each has. Their other arguments are valid. */
const CALLS: readonly (readonly [call: string, option: string, (options: object) => unknown])[] = [
  ['accounts.list', 'cursor', (options) => accounts.list(options)],
  ['accounts.verify', 'account', (options) => accounts.verify(options)],
  ['accounts.endUser', 'key', (options) => accounts.endUser('a', 'u', options)],
  ['credits.grant', 'expiresAt', (options) => credits.grant('a', '5.00', { id: 'x', ...options })],
  ['credits.adjust', 'force', (options) => credits.adjust('a', '5.00', { id: 'x', reason: 'r', ...options })],
  ['credits.refund', 'amount', (options) => credits.refund('r', { reason: 'r', ...options })],
  [
    'credits.allow',
    'rollover',
    (options) => credits.allow('a', { id: 'x', amount: '5.00', per: 'month', ...options }),
  ],
  ['credits.endAllowance', 'at', (options) => credits.endAllowance('a', 'x', options)],
  ['credits.journal', 'after', (options) => credits.journal('a', options)],
  ['credits.exportJournal', 'after', (options) => credits.exportJournal(options).next()],
  ['keys.create', 'account', (options) => keys.create({ account: 'a', ...options })],
  ['keys.rotate', 'overlapMs', (options) => keys.rotate('a', 'k', options)],
  ['holds.open', 'tokens', (options) => holds.open({ account: 'a', amount: '1.00', model: 'm', ...options })],
  [
    'meter',
    'methods',
    (options) => router.meter(() => new Response(), { model: 'm', price: '1', ...options }),
  ],
  ['providers.eject', 'reason', (options) => providers.eject('local', options)],
  ['providers.readmit', 'target', (options) => providers.readmit('local', options)],
  ['providers.setWeight', 'target', (options) => providers.setWeight('chat', 'local', 1, options)],
  ['requestLog.search', 'provider', (options) => requestLog.search(options)],
  [
    'sessions.create',
    'require',
    (options) =>
      sessions.create({
        account: 'a',
        maxSpend: '1.00',
        ttlMs: 1,
        origins: ['https://a.example'],
        ...options,
      }),
  ],
  ['usage.query', 'groupBy', (options) => usage.query(options)],
  ['migrate', 'force', (options) => migrate(new MemoryStore(), new MemoryStore(), options)],
  ['verifyLedger', 'account', (options) => verifyLedger(new MemoryStore(), options).next()],
];

describe('an option of a call that it does not have', () => {
  it.each(CALLS)('is refused by %s, which names the nearest', async (_call, option, call) => {
    await expect((async () => call({ [`${option}x`]: undefined }))()).rejects.toThrow(
      `options has an unknown key "${option}x"; did you mean "${option}"? It takes `,
    );
  });

  it('is refused before anything has happened', async () => {
    const options: object = { id: 'trial', expires: new Date(0) };
    await expect(credits.grant('new', '5.00', options as { id: string })).rejects.toThrow(
      'options has an unknown key "expires"',
    );
    expect(await accounts.get('new')).toBe(undefined);
  });

  it('of what a hold consumed is refused, and the hold stays open', async () => {
    await credits.grant('payer', '5.00', { id: 'x' });
    const hold = await holds.open({ account: 'payer', amount: '1.00', model: 'm' });
    const consumed: object = { unit: 1 };
    await expect(hold.settle('1.00', consumed)).rejects.toThrow('did you mean "units"?');
    expect(hold.state).toBe('open');
    await hold.void();
  });

  it('of sessions is refused by the router', () => {
    const secrets: object = { secret: 's'.repeat(32), secrets: [] };
    expect(() =>
      createChatCompletionsRouter({ providers: {}, models: {}, sessions: secrets as { secret: string } }),
    ).toThrow('sessions has an unknown key "secrets"; did you mean "secret"?');
  });
});
