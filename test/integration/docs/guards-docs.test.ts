import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { documentedBlock, documentedModules } from '../../helpers/documented.ts';
import { listen } from '../../helpers/gateway.ts';

type Load = (name: string) => Promise<unknown>;

/** OpenAI's moderation endpoint, which flags a word. */
async function startModeration(): Promise<{ url: string; asked: unknown[]; close: () => void }> {
  const asked: unknown[] = [];
  const server = http.createServer(async (request, response) => {
    const body = (await json(request)) as { input: string };
    asked.push({ path: request.url, ...body });
    const flagged = body.input.includes('bomb');
    const result = { flagged, categories: {}, category_scores: {} };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: 'modr-1', model: 'omni-moderation-latest', results: [result] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return { url, asked, close: () => server.close() };
}

describe('docs/guards.md', () => {
  let provider: FakeProvider;
  let load: Load;
  const routers = new Set<ChatCompletionsRouter>();

  beforeAll(async () => {
    provider = await startFakeProvider();
    const names = ['word-list.ts', 'moderation.ts', 'redact.ts', 'route.ts'];
    load = documentedModules('guards.md', names, provider.baseURL);
  });

  beforeEach(() => {
    provider.requests.length = 0;
  });

  afterAll(async () => {
    for (const each of routers) await each.close();
    await provider.close();
  });

  /** Asks the router of a block as a customer does, with the official client. */
  async function customer(name: string, account = 'acme'): Promise<OpenAI> {
    const { router } = (await load(name)) as { router: ChatCompletionsRouter };
    routers.add(router);
    const { key } = await router.keys.create({ account });
    await router.credits.grant(account, '1.00', { id: `grant-${account}` });
    const mounted = await listen(http.createServer(router), '/v1');
    onTestFinished(async () => mounted.close());
    return new OpenAI({ baseURL: mounted.baseURL, apiKey: key, maxRetries: 0 });
  }

  async function ask(
    client: OpenAI,
    content: OpenAI.ChatCompletionUserMessageParam['content'],
  ): Promise<unknown> {
    try {
      await client.chat.completions.create({ model: 'small/chat', messages: [{ role: 'user', content }] });
      return 'sent';
    } catch (error) {
      if (!(error instanceof OpenAI.APIError)) throw error;
      return [error.status, error.code];
    }
  }

  function sent(): { model: string; messages: object[] } {
    return JSON.parse(provider.requests[0]?.body.toString() ?? '{}');
  }

  it('has guards of ten lines', () => {
    for (const [name, constant] of [
      ['word-list.ts', 'wordList'],
      ['moderation.ts', 'moderation'],
    ] as const) {
      const source = documentedBlock('guards.md', name);
      const guard = source.slice(source.indexOf(`const ${constant}`), source.indexOf('export const router'));
      expect(guard.trim().split('\n').length).toBeLessThanOrEqual(10);
    }
  });

  it('refuses the words of a list, wherever in a message', async () => {
    const client = await customer('word-list.ts');
    expect(await ask(client, 'Tell me of Bluebird')).toEqual([400, 'forbidden_word']);
    expect(await ask(client, [{ type: 'text', text: 'line\nhunter2' }])).toEqual([400, 'forbidden_word']);
    expect(provider.requests).toEqual([]);
    expect(await ask(client, 'Tell me of bluebirds')).toBe('sent');
  });

  it("asks OpenAI's moderation endpoint beside the call", async () => {
    const endpoint = await startModeration();
    onTestFinished(endpoint.close);
    process.env['OPENAI_BASE_URL'] = endpoint.url;
    process.env['OPENAI_API_KEY'] = 'sk-moderation';
    onTestFinished(() => {
      delete process.env['OPENAI_BASE_URL'];
      delete process.env['OPENAI_API_KEY'];
    });
    const client = await customer('moderation.ts');
    expect(await ask(client, 'Say hello')).toBe('sent');
    expect(await ask(client, [{ type: 'text', text: 'How is a bomb made?' }])).toEqual([
      400,
      'content_policy_violation',
    ]);
    expect(endpoint.asked).toEqual([
      { path: '/v1/moderations', model: 'omni-moderation-latest', input: 'Say hello' },
      { path: '/v1/moderations', model: 'omni-moderation-latest', input: 'How is a bomb made?' },
    ]);
    endpoint.close();
    expect(await ask(client, 'Say hello again')).toEqual([503, 'guard_unavailable']);
  });

  it('redacts numbers of cards', async () => {
    const client = await customer('redact.ts');
    expect(await ask(client, 'My card is 4111 1111 1111 1111, thanks')).toBe('sent');
    expect(sent().messages).toEqual([{ role: 'user', content: 'My card is [card], thanks' }]);
  });

  it('chooses a model by plan, header and size', async () => {
    const named = async (account: string, model: string, headers = {}): Promise<string> => {
      const client = await customer('route.ts', account);
      provider.requests.length = 0;
      await client.chat.completions.create(
        { model, messages: [{ role: 'user', content: 'Hello' }] },
        { headers },
      );
      return sent().model;
    };
    expect(await named('acme', 'auto')).toBe('gpt-4o');
    expect(await named('acme', 'auto', { 'x-quality': 'draft' })).toBe('gpt-4o-mini');
    expect(await named('initech', 'auto')).toBe('gpt-4o-mini');
    expect(await named('initech', 'large/chat')).toBe('gpt-4o');
  });
});
