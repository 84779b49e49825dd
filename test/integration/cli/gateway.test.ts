import { expect, it } from 'vitest';

import { Readiness } from '../../../src/cli/serve/server.ts';
import { createChatCompletionsRouter } from '../../../src/index.ts';
import { hang, startFakeProvider } from '../../../src/testing.ts';

const noLog = (): void => {};

it('a process is ready while a provider, or whoever has its key, hangs', async () => {
  await using provider = await startFakeProvider();
  provider.answer(hang);
  const asked = provider.nextRequest();
  const hooks = { onError: () => {} };
  const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {}, hooks });
  await router.ready();
  const { baseURL } = provider;
  const vault = { baseURL, apiKey: () => new Promise<string>(() => {}), timeouts: { connectMs: 6000 } };
  router.reload({ providers: { slow: { baseURL, models: 'discover' }, vault } });
  await asked;
  expect(await new Readiness(router, noLog).problem()).toBeUndefined();
  await router.close();
});
