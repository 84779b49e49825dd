import { expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { startAdmin } from '../../helpers/admin.ts';

it('lists what each model is sold for, what it costs, and what it has no price for', async () => {
  const router = createChatCompletionsRouter({
    store: 'memory:',
    markup: { factor: '1.5' },
    providers: {
      openai: { preset: 'openai', apiKey: 'sk-openai-0987654321' },
      local: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'sk-local-0987654321' },
    },
    models: {
      'openai/gpt-5-mini': {
        aliases: ['mini'],
        targets: [
          { provider: 'openai', model: 'gpt-5-mini', cost: { input: '0.25', output: '2' } },
          { provider: 'local', model: 'mini', weight: 3 },
        ],
        strategy: 'weighted',
        pricing: { input: '0.30', output: '2.40' },
        maxOutputTokens: 1000,
        shutdownDate: '2099-01-31',
      },
      'local/*': { targets: ['local/*'], pricing: 'free' },
    },
  });
  const door = await startAdmin({ router });
  const { status, body } = await door.ask('GET', '/models');
  await door.close();
  await router.close();
  expect(status).toBe(200);
  expect(body.data).toMatchObject([
    {
      id: 'openai/gpt-5-mini',
      aliases: ['mini'],
      strategy: 'weighted',
      shutdown_at: '2099-01-31T00:00:00.000Z',
      targets: [
        {
          provider: 'openai',
          model: 'gpt-5-mini',
          weight: 1,
          pricing: { input: '0.00000045', output: '0.0000036' },
          cost: { input: '0.00000025', output: '0.000002' },
          reports_cost: false,
        },
        { provider: 'local', model: 'mini', weight: 3, unpriced: [] },
      ],
    },
    { id: 'local/*', targets: [{ provider: 'local', model: '*', pricing: { input: '0' } }] },
  ]);
  const [{ targets }] = body.data;
  expect(targets[0].unpriced).toContain('service tier priority');
  expect(targets[1].cost).toBeUndefined();
});
