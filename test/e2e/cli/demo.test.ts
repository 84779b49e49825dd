import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startParrot } from '../../../src/cli/demo/parrot/server.ts';
import { ENV, type Example, startDemo } from '../../helpers/example.ts';

const run = promisify(execFile);

describe('chat-completions-router demo', () => {
  let demo: Example;
  let openai: OpenAI;

  beforeAll(async () => {
    demo = await startDemo();
    openai = new OpenAI({ baseURL: demo.baseURL, apiKey: demo.apiKey, maxRetries: 0 });
  });
  afterAll(() => demo.stop());

  it('lists the parrot', async () => {
    const models = await openai.models.list();
    expect(models.data).toContainEqual(expect.objectContaining({ id: 'demo/parrot', owned_by: 'demo' }));
    expect(await openai.models.retrieve('demo/parrot')).toMatchObject({ context_window: 32_768 });
  });

  it('prints the credits and the models, without colours where no terminal is', () => {
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

  it('refuses a wrong key', async () => {
    const other = new OpenAI({ baseURL: demo.baseURL, apiKey: 'sk-ccr-wrong', maxRetries: 0 });
    await expect(other.models.list()).rejects.toMatchObject({ status: 401 });
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

  it('prints a request that a small balance limits, and one that it cannot pay', async () => {
    const [first = '', clamp = '', tooMuch = ''] = commands(demo, 'curl -');
    expect(first).toContain('"stream":true');
    const limited = await run('sh', ['-c', clamp]);
    const [, limit] = /^x-ccr-max-tokens: (\d+)\r?$/m.exec(limited.stdout) ?? [];
    expect(limited.stdout).toMatch(/^HTTP\/1.1 200 OK/);
    expect(limited.stdout).toContain(`"completion_tokens":${limit},`);
    expect(limited.stdout).toContain('"finish_reason":"length"');

    const refused = await run('sh', ['-c', tooMuch]);
    expect(refused.stdout).toMatch(/^HTTP\/1.1 402 Payment Required/);
    expect(refused.stdout).toContain('"code":"insufficient_credits"');
  });

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'finishes running streams on %s, and exits with 0',
    async (signal) => {
      const demo = await startDemo();
      const openai = new OpenAI({ baseURL: demo.baseURL, apiKey: demo.apiKey, maxRetries: 0 });
      const stream = await openai.chat.completions.create({
        model: 'demo/parrot',
        messages: [{ role: 'user', content: 'Good night' }],
        stream: true,
      });
      const exit = once(demo.process, 'exit');
      demo.process.kill(signal);
      let finishReason: string | null | undefined;
      for await (const { choices } of stream) finishReason = choices[0]?.finish_reason;
      expect(finishReason).toBe('stop');
      expect(await exit).toEqual([0, null]);
    },
    15_000,
  );
});

describe('the demo', () => {
  it('serves the models of UPSTREAM_BASE_URL, for free', async () => {
    const upstream = await startParrot({ chunkMs: 1 });
    const demo = await startDemo({
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
    const demo = await startDemo({ GROQ_API_KEY: 'a-key' });
    expect(demo.banner).toMatch(/groq\/llama-3\.3-70b-versatile +0\.59 in · 0\.79 out/);
    expect(await demo.stop()).toBe(0);
  }, 15_000);

  it('serves the port that an option names, before that of the environment', async () => {
    const demo = await startDemo({ PORT: 'abc' }, ['--port', '0']);
    expect(demo.baseURL).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    expect(await demo.stop()).toBe(0);
  }, 15_000);

  it('names --port when its port is in use, and exits with 1', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const port = String(typeof address === 'object' ? address?.port : undefined);
    const complaint = `chat-completions-router: port ${port} of 127.0.0.1 is in use; choose another with --port`;
    expect(await failure({ PORT: port })).toEqual([1, expect.stringContaining(complaint)]);
    expect(await failure({}, ['--port', port])).toEqual([1, expect.stringContaining(complaint)]);
    other.close();
  }, 15_000);

  it.each([
    [{ PORT: 'abc' }, [], 'PORT in the environment must be a port from 0 to 65535, got "abc"'],
    [{}, ['--port', '99999'], '--port must be a port from 0 to 65535, got "99999"'],
  ])('refuses %j and %j, and exits with 2', async (env, args, complaint) => {
    expect(await failure(env, args)).toEqual([2, expect.stringContaining(complaint)]);
  });
});

/** Exit code and stderr of a demo that can't start. */
async function failure(env: NodeJS.ProcessEnv, args: readonly string[] = []): Promise<[unknown, string]> {
  const child = spawn(process.execPath, ['dist/cli.js', 'demo', ...args], {
    env: { ...ENV, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [complaints, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  return [code, complaints];
}

/** One of the printed commands, from its first words to the empty line after it. */
function command(demo: Example, beginning: string): string {
  return commands(demo, beginning)[0] ?? '';
}

function commands({ banner }: Example, beginning: string): string[] {
  return banner.split('\n\n').filter((block) => block.startsWith(beginning));
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
