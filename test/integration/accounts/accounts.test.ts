import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter, MemoryStore } from '../../../src/index.ts';
import { QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, beginStream, DONE, STREAM, text, USAGE_EVENT } from '../../helpers/provider.ts';

const bare = { providers: {}, models: {} };

/** Gives its accounts in no order that anybody would expect, and one of them twice. */
class DisorderlyStore extends MemoryStore {
  override async *accounts(): AsyncGenerator<string> {
    const ids: string[] = [];
    for await (const id of super.accounts()) ids.push(id);
    yield* [...ids.slice(-1), ...ids.toReversed()];
  }
}

describe('router.accounts', () => {
  it('pages through all accounts by id, each once, whatever order the store gives them in', async () => {
    const { accounts, credits } = createChatCompletionsRouter({ ...bare, store: new DisorderlyStore() });
    const ids = Array.from({ length: 25 }, (_, i) => `acct-${String(i).padStart(2, '0')}`);
    for (const id of ids.toSorted(() => 0.5 - Math.random())) await credits.grant(id, '1.00', { id: 'g' });
    const pages: string[][] = [];
    let cursor: string | undefined;
    do {
      const page = await accounts.list({ limit: 10, ...(cursor !== undefined && { cursor }) });
      pages.push(page.accounts.map(({ id }) => id));
      ({ cursor } = page);
    } while (cursor !== undefined);
    expect(pages).toEqual([ids.slice(0, 10), ids.slice(10, 20), ids.slice(20)]);
  });

  it('says that there is no next page when the last one is full', async () => {
    const { accounts, credits } = createChatCompletionsRouter({ ...bare, store: 'memory:' });
    for (const id of ['a', 'b']) await credits.grant(id, '1.00', { id: 'g' });
    expect((await accounts.list({ limit: 2 })).cursor).toBeUndefined();
    expect((await accounts.list({ limit: 1 })).cursor).toBe('a');
    expect(await accounts.list({ cursor: 'b' })).toEqual({ accounts: [] });
  });

  it('refuses a page of no size, and an unreadable one', async () => {
    const { accounts } = createChatCompletionsRouter({ ...bare, store: 'memory:' });
    for (const limit of [0, 1001, 1.5, Number.NaN]) {
      await expect(accounts.list({ limit })).rejects.toThrow(
        `limit must be an integer from 1 to 1000, got ${limit}`,
      );
    }
  });

  it('says what became of every dollar that was granted', async () => {
    let now = Date.UTC(2026, 10, 21);
    const store = new MemoryStore({ now: () => now });
    const router = createChatCompletionsRouter({ ...bare, store });
    const { accounts, credits } = router;
    await router.ready();
    await credits.grant('acme', '7.00', { id: 'for-ever' });
    await credits.grant('acme', '3.00', { id: 'soon', expiresAt: now + 1000 });
    now += 2000;
    expect(await accounts.get('acme')).toEqual({
      id: 'acme',
      balance: '7.00',
      creditLimit: '0.00',
      held: '0.00',
      spent: '0.00',
      granted: '10.00',
      expired: '3.00',
      writtenOff: '0.00',
      frozen: false,
      policy: {},
    });
    expect(await accounts.get('nobody')).toBeUndefined();
    await router.close();
  });

  it('refuses the completions of a frozen account until it is thawed', async () => {
    const gateway = await startGateway();
    const { accounts } = gateway.router;
    expect(await accounts.freeze('acct')).toBe(true);
    expect(await accounts.get('acct')).toMatchObject({ frozen: true });
    const refused = await gateway.post(QUESTION);
    expect([refused.status, await refused.json()]).toMatchObject([
      403,
      { error: { code: 'account_frozen' } },
    ]);
    expect(await accounts.unfreeze('acct')).toBe(true);
    expect((await gateway.post(QUESTION)).status).toBe(200);
    expect(await accounts.freeze('nobody')).toBe(false);
    await gateway.close();
  });
});

describe('router.requests', () => {
  it('shows a completion from its body to its end, with whose it is and who answers it', async () => {
    const gateway = await startGateway();
    let finish: () => void = () => {};
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(text('Hello'));
      finish = () => response.end(USAGE_EVENT + DONE);
    };
    expect(gateway.router.requests()).toEqual([]);
    const before = Date.now();
    const response = await gateway.post({ ...QUESTION, stream: true });
    const [key] = await gateway.router.keys.list('acct');
    const running = gateway.router.requests();
    expect(running).toEqual([
      {
        id: response.headers.get('x-request-id'),
        account: 'acct',
        key: key?.id,
        model: 'acme/fast',
        provider: 'loopback',
        startedAt: expect.any(Date),
        streaming: true,
      },
    ]);
    // In the store's time, which is behind by what its last reply took to arrive.
    expect(Math.abs(running[0]!.startedAt.getTime() - before)).toBeLessThan(10_000);
    const settled = gateway.nextSettled();
    finish();
    await response.text();
    await settled;
    await expect.poll(() => gateway.router.requests()).toEqual([]);
    await gateway.close();
  });

  it('is without those that are no completions, and those that were refused', async () => {
    const gateway = await startGateway();
    gateway.provider.script = answerStream(STREAM);
    await gateway.fetch('/models');
    await gateway.post({});
    await fetch(`${gateway.baseURL}/chat/completions`, { method: 'POST', body: '{}' });
    expect(gateway.router.requests()).toEqual([]);
    await gateway.close();
  });

  it('is in the order of their arrival', async () => {
    const gateway = await startGateway();
    gateway.provider.script = () => {};
    const controller = new AbortController();
    const arrived: string[] = [];
    for (const stream of [false, true, true]) {
      const next = gateway.provider.next();
      void gateway.post({ ...QUESTION, stream }, { signal: controller.signal }).catch(() => {});
      await next;
      arrived.push(String(stream));
    }
    expect(gateway.router.requests().map(({ streaming }) => String(streaming))).toEqual(arrived);
    controller.abort();
    await expect.poll(() => gateway.router.requests()).toEqual([]);
    await gateway.close();
  });
});
