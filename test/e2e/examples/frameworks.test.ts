import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { promisify } from 'node:util';

import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';

import { ENV, startExample } from '../../helpers/example.ts';

const FRAMEWORKS = ['node-http', 'express', 'fastify', 'koa', 'hono', 'nest'];

describe('the examples of frameworks', () => {
  it.concurrent.for(FRAMEWORKS)(
    '%s streams, charges, and finishes what it is saying on SIGTERM',
    { timeout: 60_000 },
    async (name, { expect, onTestFinished }) => {
      const example = await startExample(name);
      onTestFinished(async () => {
        await example.stop();
      });
      const openai = new OpenAI({ baseURL: example.baseURL, apiKey: example.apiKey, maxRetries: 0 });
      expect((await openai.models.list()).data).toMatchObject([{ id: 'demo/parrot' }]);
      const stranger = new OpenAI({ baseURL: example.baseURL, apiKey: 'sk-ccr-wrong', maxRetries: 0 });
      await expect(stranger.models.list()).rejects.toMatchObject({ status: 401 });

      const first = await listen(openai);
      expect(first.text).toContain('“Good morning”');
      expect(first.ms).toBeGreaterThan(500);
      await expect.poll(() => balance(openai)).toBeLessThan(5);

      const exit = once(example.process, 'exit');
      const last = await listen(openai, () => example.process.kill('SIGTERM'));
      expect(last.finishReason).toBe('stop');
      expect(await exit).toEqual([0, null]);
    },
  );
});

interface Heard {
  readonly text: string;
  readonly finishReason: string | null | undefined;
  /** Between the first chunk and the last. */
  readonly ms: number;
}

async function listen(openai: OpenAI, onFirstChunk: () => void = () => {}): Promise<Heard> {
  const times: number[] = [];
  let text = '';
  let finishReason: string | null | undefined;
  const stream = await openai.chat.completions.create({
    model: 'demo/parrot',
    messages: [{ role: 'user', content: 'Good morning' }],
    stream: true,
  });
  for await (const { choices } of stream) {
    if (times.push(performance.now()) === 1) onFirstChunk();
    text += choices[0]?.delta.content ?? '';
    finishReason = choices[0]?.finish_reason;
  }
  return { text, finishReason, ms: times.at(-1)! - times[0]! };
}

async function balance(openai: OpenAI): Promise<number> {
  return Number((await openai.get<{ balance: string }>('/credits')).balance);
}

describe('an example whose port is taken', () => {
  it.concurrent.for(['express', 'admin', 'observability', 'sessions', 'payments'])(
    '%s says so',
    async (name, { expect, onTestFinished }) => {
      const other = createServer().listen(0, '127.0.0.1');
      onTestFinished(() => void other.close());
      await once(other, 'listening');
      const { port } = other.address() as AddressInfo;
      const stripe = { STRIPE_SECRET_KEY: 'sk_test_1', STRIPE_WEBHOOK_SECRET: 'whsec_1' };
      await expect(startExample(name, { PORT: String(port), ...stripe })).rejects.toThrow(/EADDRINUSE/);
    },
  );
});

describe('npm run example', () => {
  const names = readdirSync('examples').filter((entry) => !/README|demo/.test(entry));

  it('names the examples that there are', async () => {
    const run = promisify(execFile)(process.execPath, ['scripts/example.ts', 'nobody'], { env: ENV });
    const { stderr } = await run.catch((error: { stderr: string }) => error);
    expect(stderr).toContain(`one of ${names.sort().join(', ')}\n`);
  });

  it('has a row in the page of examples for each', () => {
    const page = readFileSync('examples/README.md', 'utf8');
    const linked = [...page.matchAll(/\]\((\w[\w-]*)\//g)].map(([, name]) => name);
    expect(linked).toEqual(expect.arrayContaining(names));
    expect(names.length).toBeGreaterThanOrEqual(10);
  });
});
