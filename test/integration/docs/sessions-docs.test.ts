import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { documentedModules } from '../../helpers/documented.ts';

interface Documented {
  readonly router: ChatCompletionsRouter;
  readonly sessionFor: (account: string, user: string) => string;
}

describe('docs/sessions.md', () => {
  let provider: FakeProvider;
  let shop: Documented;

  beforeAll(async () => {
    provider = await startFakeProvider();
    process.env['CREDITS_STORE'] = 'memory:';
    process.env['SESSION_SECRET'] = 'a secret of the test, which has more than 32 characters';
    shop = (await documentedModules(
      'sessions.md',
      ['sessions.ts'],
      provider.baseURL,
    )('sessions.ts')) as Documented;
  });

  afterAll(async () => {
    await shop.router.close();
    await provider.close();
  });

  it('gives a page a key that can ask, for its user, until its limit', async () => {
    const { router, sessionFor } = shop;
    await router.credits.grant('acme', '5.00', { id: 'welcome' });
    provider.answer(completion({ tokens: { prompt: 1000, completion: 1000 } }));
    const request = new Request('https://api.example.com/v1/chat/completions', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${sessionFor('acme', 'ann')}`,
        origin: 'https://chat.example.com',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ model: 'small/chat', messages: [{ role: 'user', content: 'Hi' }] }),
    });
    const response = await router.fetch(request);
    expect(response.status).toBe(200);
    await response.text();
    await router.settled(request);
    expect(await router.keys.list('acme')).toMatchObject([{ name: 'ann', budget: { amount: '0.50' } }]);
    expect((await router.credits.balance('acme')).totalUsed).toBe('0.00075');
  });
});
