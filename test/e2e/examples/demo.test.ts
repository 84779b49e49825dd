import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startParrot } from '../../../examples/parrot/server.ts';
import { ENV, type Example, startExample } from '../../helpers/example.ts';

const run = promisify(execFile);

describe('npm run demo', () => {
  let demo: Example;
  let openai: OpenAI;

  beforeAll(async () => {
    demo = await startExample('express');
    openai = new OpenAI({ baseURL: demo.baseURL, apiKey: demo.apiKey, maxRetries: 0 });
  });
  afterAll(() => demo.stop());

  it('lists the parrot', async () => {
    const models = await openai.models.list();
    expect(models.data).toContainEqual(expect.objectContaining({ id: 'demo/parrot', owned_by: 'demo' }));
    expect(await openai.models.retrieve('demo/parrot')).toMatchObject({ context_window: 32_768 });
  });

  it('says what is worth knowing, without colours where no terminal is', () => {
    expect(demo.banner).toContain('$5.00');
    expect(demo.banner).toMatch(/demo\/parrot +0\.50 in · 1\.50 out/);
    expect(demo.banner).not.toContain('\u001b');
  });

  it('streams, the first chunk before the last', async () => {
    const stream = await openai.chat.completions.create({
      model: 'demo/parrot',
      messages: [{ role: 'user', content: 'Good morning' }],
      stream: true,
    });
    const times: number[] = [];
    for await (const chunk of stream) {
      expect(chunk.object).toBe('chat.completion.chunk');
      times.push(performance.now());
    }
    expect(times.at(-1)! - times[0]!).toBeGreaterThan(500);
  });

  it.each([false, true])('charges exactly what the usage costs (stream: %s)', async (stream) => {
    const before = await creditsOf(demo);
    const usage = await usageOfOne(openai, stream);
    const cost = BigInt(usage.prompt_tokens) * 500n + BigInt(usage.completion_tokens) * 1_500n;
    const after = await settledCredits(demo);
    expect(before.balance - after.balance).toBe(cost);
    expect(after.used - before.used).toBe(cost);
  });

  it('knows nobody without the key', async () => {
    const stranger = new OpenAI({ baseURL: demo.baseURL, apiKey: 'sk-ccr-wrong', maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toMatchObject({ status: 401 });
  });

  it.concurrent('prints a curl command that works', async ({ expect }) => {
    const { stdout } = await run('sh', ['-c', command(demo, 'curl -N')]);
    expect(stdout).toContain('"object":"chat.completion.chunk"');
    expect(stdout.trimEnd()).toMatch(/data: \[DONE\]$/);
  }, 30_000);

  it.concurrent('prints an openai client that works', async ({ expect }) => {
    const { stdout } = await run('sh', ['-c', command(demo, 'npx node')]);
    expect(stdout).toContain('“Tell me a story about a ship”, you say');
  }, 30_000);

  it('prints how to see the credits', async () => {
    const { stdout } = await run('sh', ['-c', command(demo, `curl ${demo.baseURL}/credits`)]);
    expect(JSON.parse(stdout)).toMatchObject({ balance: expect.stringMatching(/^4\.99\d+$/) });
  });

  it('finishes what it is saying on SIGTERM, and exits with 0', async () => {
    const stream = await openai.chat.completions.create({
      model: 'demo/parrot',
      messages: [{ role: 'user', content: 'Good night' }],
      stream: true,
    });
    const exit = once(demo.process, 'exit');
    demo.process.kill('SIGTERM');
    let finishReason: string | null | undefined;
    for await (const { choices } of stream) finishReason = choices[0]?.finish_reason;
    expect(finishReason).toBe('stop');
    expect(await exit).toEqual([0, null]);
  }, 15_000);
});

describe('the demo', () => {
  it('serves the models of UPSTREAM_BASE_URL, for free', async () => {
    const upstream = await startParrot({ chunkMs: 1 });
    const demo = await startExample('express', {
      UPSTREAM_BASE_URL: upstream.baseURL,
      UPSTREAM_API_KEY: 'secret',
    });
    expect(demo.banner).toMatch(/upstream\/parrot-1 +free/);

    const openai = new OpenAI({ baseURL: demo.baseURL, apiKey: demo.apiKey });
    const { choices } = await openai.chat.completions.create({
      model: 'upstream/parrot-1',
      messages: [{ role: 'user', content: 'hello' }],
    });
    expect(choices[0]!.message.content).toContain('“hello”');
    expect((await settledCredits(demo)).balance).toBe(5_000_000_000n);

    expect(await demo.stop()).toBe(0);
    await upstream.close();
  }, 15_000);

  it('serves the models of a provider whose key is set', async () => {
    const demo = await startExample('express', { GROQ_API_KEY: 'a-key' });
    expect(demo.banner).toMatch(/groq\/llama-3\.3-70b-versatile +0\.59 in · 0\.79 out/);
    expect(await demo.stop()).toBe(0);
  }, 15_000);

  it('says so when its port is taken, and exits with 1', async () => {
    const other = createServer().listen(0);
    await once(other, 'listening');
    const address = other.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const child = spawn(process.execPath, ['examples/express/server.ts'], {
      env: { ...ENV, PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [complaints, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect(complaints).toContain(`Can't listen on port ${port}`);
    expect(code).toBe(1);
    other.close();
  }, 15_000);
});

/** One of the printed commands, from its first words to the empty line after it. */
function command(demo: Example, beginning: string): string {
  const start = demo.banner.indexOf(`\n${beginning}`);
  return demo.banner.slice(start + 1, demo.banner.indexOf('\n\n', start));
}

async function usageOfOne(openai: OpenAI, stream: boolean): Promise<OpenAI.CompletionUsage> {
  const request = {
    model: 'demo/parrot',
    messages: [{ role: 'user' as const, content: 'What does it cost?' }],
  };
  if (!stream) return (await openai.chat.completions.create(request)).usage!;
  const answer = openai.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  return await answer.totalUsage();
}

interface Credits {
  readonly balance: bigint;
  readonly used: bigint;
  readonly held: bigint;
}

/** In nano-dollars. */
async function creditsOf({ baseURL, apiKey }: Example): Promise<Credits> {
  const response = await fetch(`${baseURL}/credits`, { headers: { authorization: `Bearer ${apiKey}` } });
  const { balance, total_used, held } = JSON.parse(await response.text());
  return { balance: nano(balance), used: nano(total_used), held: nano(held) };
}

/** Credits once nothing is held: charges are posted after the answer has gone out. */
async function settledCredits(demo: Example): Promise<Credits> {
  return vi.waitUntil(async () => {
    const credits = await creditsOf(demo);
    return credits.held === 0n && credits;
  });
}

function nano(usd: string): bigint {
  const [whole = '', decimals = ''] = usd.split('.');
  return BigInt(whole + decimals.padEnd(9, '0'));
}
