import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { answerJson, completionBody, startProvider } from '../helpers/provider.ts';
import { startRedis } from '../helpers/redis-server.ts';
import { closeBooks, COST, openBooks } from './books.ts';
import { startGatewayProcess } from './gateway-process.ts';
import { ask, statusesOf } from './client.ts';

describe('the last cent of an account', { timeout: 30_000 }, () => {
  it.each(['Redis', 'SQLite'])(
    'in %s is spent once by two gateways with 200 requests at once (LiteLLM #34732, one-api #2440)',
    async (kind) => {
      const store = kind === 'Redis' ? await startRedisUrl() : `sqlite:${join(newFolder(), 'credits.db')}`;
      const released = Promise.withResolvers<void>();
      const provider = await startProvider(async (response, request) => {
        await released.promise;
        await answerJson(completionBody())(response, request);
      });
      onTestFinished(() => provider.close());
      const options = { store, provider: provider.baseURL, credits: '0.01', holdMode: 'strict' } as const;
      const gateways = [await startGatewayProcess(options), await startGatewayProcess(options)];

      let refusals = 0;
      const asked = Array.from({ length: 200 }, async (_, n) => {
        let reply = await ask(gateways[n % 2]!);
        // So many at once may keep the store too busy for some of them, who come again.
        while (reply.status === 503) reply = await ask(gateways[n % 2]!);
        if (reply.status === 402) refusals += 1;
        return reply;
      });
      await expect.poll(() => refusals).toBe(197);
      released.resolve();
      const replies = await Promise.all(asked);

      // Each holds a byte of the prompt as a token, and 1,000 tokens of output: 3.042 million nano-dollars.
      expect(statusesOf(replies)).toEqual({ 200: 3, 402: 197 });
      const { required } = (JSON.parse(replies.find(({ status }) => status === 402)!.body) as Refusal).error;
      expect(Math.floor(0.01 / Number(required))).toBe(3);
      for (const gateway of gateways) await gateway.terminate();
      const { state } = await closeBooks(openBooks(store));
      expect(state).toMatchObject({ spent: 3n * COST, available: 10_000_000n - 3n * COST });
    },
  );
});

interface Refusal {
  readonly error: { readonly required: string };
}

async function startRedisUrl(): Promise<string> {
  const server = await startRedis();
  onTestFinished(() => server.kill());
  return server.url;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-chaos-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
