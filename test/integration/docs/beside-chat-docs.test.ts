import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouter } from '../../../src/index.ts';
import { documentedModules } from '../../helpers/documented.ts';

interface Embeddings {
  readonly router: ChatCompletionsRouter;
  readonly server: Server;
}
interface Job {
  readonly images: (account: string, id: string, make: () => Promise<boolean>) => Promise<string>;
}
interface Ask {
  readonly data: readonly { readonly embedding: readonly number[] }[];
}

describe('docs/beside-chat.md', () => {
  let provider: Server;
  let shop: Embeddings;
  let load: (name: string) => Promise<unknown>;
  const received: unknown[] = [];

  beforeAll(async () => {
    provider = createServer((request, response) => {
      void (async () => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        received.push([request.headers.authorization, JSON.parse(Buffer.concat(chunks).toString())]);
        response.setHeader('content-type', 'application/json');
        response.end(
          JSON.stringify({
            object: 'list',
            data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
            usage: { prompt_tokens: 1000, total_tokens: 1000 },
          }),
        );
      })();
    }).listen(0, '127.0.0.1');
    await once(provider, 'listening');
    process.env['CREDITS_STORE'] = 'memory:';
    process.env['OPENAI_API_KEY'] = 'sk-provider';
    process.env['EMBEDDINGS_URL'] = urlOf(provider);
    load = documentedModules('beside-chat.md', ['embeddings.ts', 'ask.ts', 'job.ts'], urlOf(provider));
    shop = (await load('embeddings.ts')) as Embeddings;
    shop.server.listen(0, '127.0.0.1');
    await once(shop.server, 'listening');
  });

  afterAll(async () => {
    shop.server.close();
    shop.server.closeAllConnections();
    provider.close();
    provider.closeAllConnections();
    await shop.router.close();
  });

  it('sells embeddings to the official client, for what the provider counted', async () => {
    const { router, server } = shop;
    const { key } = await router.keys.create({ account: 'acme' });
    await router.credits.grant('acme', '1.00', { id: 'welcome' });
    process.env['ROUTER_URL'] = `${urlOf(server)}/v1`;
    process.env['ROUTER_API_KEY'] = key;
    const { data } = (await load('ask.ts')) as Ask;
    expect(data[0]?.embedding).toEqual([0.5]);
    expect(received).toEqual([
      [
        'Bearer sk-provider',
        { model: 'text-embedding-3-small', input: 'Good morning', encoding_format: 'float' },
      ],
    ]);
    await expect.poll(() => router.credits.balance('acme')).toMatchObject({ totalUsed: '0.00002' });
    const [usage] = await router.usage.query({ account: 'acme', groupBy: ['model'] });
    expect(usage).toMatchObject({ model: 'text-embedding-3-small', requests: 1, promptTokens: 1000 });
    expect((await fetch(`${urlOf(server)}/v1/models`)).status).toBe(401);
  });

  it('refuses a model that it does not sell', async () => {
    const response = await fetch(`${urlOf(shop.server)}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${process.env['ROUTER_API_KEY']}` },
      body: JSON.stringify({ model: 'constructor', input: 'hi' }),
    });
    expect(await response.json()).toMatchObject({ error: { code: 'model_not_found' } });
  });

  it('charges a job for the images that were made, once', async () => {
    const { router } = shop;
    const { images } = (await load('job.ts')) as Job;
    await router.credits.grant('artist', '1.00', { id: 'welcome' });
    const makes = [true, true, false];
    expect(await images('artist', 'job 1', async () => makes.shift() ?? false)).toBe('2 images');
    expect(await images('artist', 'job 1', async () => true)).toBe('done before');
    expect(await images('artist', 'job 2', async () => false)).toBe('0 images');
    const broken = images('artist', 'job 3', async () => {
      throw new Error('no paper');
    });
    await expect(broken).rejects.toThrow('no paper');
    expect(await router.credits.balance('artist')).toMatchObject({ totalUsed: '0.08', held: '0.00' });
  });
});

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
