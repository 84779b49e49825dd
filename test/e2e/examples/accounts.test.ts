import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';

import { signToken, verifyToken } from '../../../examples/sessions/jwt.ts';
import { ENV, spawnExample, startExample } from '../../helpers/example.ts';

const ask = { model: 'demo/parrot', messages: [{ role: 'user' as const, content: 'Good morning' }] };

function client(baseURL: string, apiKey: string): OpenAI {
  return new OpenAI({ baseURL, apiKey, maxRetries: 0 });
}

interface Credits {
  readonly balance: string;
  readonly held: string;
  readonly total_used: string;
}

const credits = (openai: OpenAI): Promise<Credits> => openai.get<Credits>('/credits');

describe('examples/redis-cluster', () => {
  it('spends from one balance in two processes', { timeout: 60_000 }, async ({ onTestFinished }) => {
    const example = await startExample('redis-cluster', {}, /same key and credits at \S+/);
    onTestFinished(async () => void (await example.stop()));
    const [, other = ''] = /same key and credits at (\S+)/.exec(example.banner) ?? [];
    const clients = [client(example.baseURL, example.apiKey), client(other, example.apiKey)] as const;
    expect(other).not.toBe(example.baseURL);

    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => clients[i % 2]!.chat.completions.create(ask)),
    );
    const nano = answers.reduce(
      (sum, { usage }) => sum + usage!.prompt_tokens * 500 + usage!.completion_tokens * 1500,
      0,
    );
    for (const openai of clients) {
      await expect.poll(async () => (await credits(openai)).held).toBe('0.00');
      expect(Number((await credits(openai)).total_used)).toBeCloseTo(nano / 1e9, 9);
    }
    expect(await example.stop()).toBe(0);
  });

  it('leaves no app and no folder where a port is taken', { timeout: 60_000 }, async ({ onTestFinished }) => {
    const TMPDIR = temporaryFolder(onTestFinished);
    const other = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const PORT = String((other.address() as AddressInfo).port - 1);
    // Rejects once nobody has its output open any more.
    await expect(startExample('redis-cluster', { TMPDIR, PORT })).rejects.toThrow(/An app did not start/);
    expect(readdirSync(TMPDIR).filter((name) => name.startsWith('redis-cluster-'))).toEqual([]);
  });

  it('says that it needs a newer redis-server', { timeout: 60_000 }, async ({ onTestFinished }) => {
    const TMPDIR = temporaryFolder(onTestFinished);
    const old = join(temporaryFolder(onTestFinished), 'redis-server');
    writeFileSync(old, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    const PATH = [dirname(old), ENV['PATH']].join(delimiter);
    await expect(startExample('redis-cluster', { TMPDIR, PATH })).rejects.toThrow(/needs version 7 or later/);
    expect(readdirSync(TMPDIR)).toEqual([]);
  });
});

function temporaryFolder(onTestFinished: (end: () => void) => void): string {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-example-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('examples/sessions', () => {
  it('serves a token and a session cookie, each of its own account', async ({ onTestFinished }) => {
    const example = await spawnExample('sessions', {}, /Ctrl-C/);
    onTestFinished(async () => void (await example.stop()));
    const [address = ''] = /http:\/\/localhost:\d+/.exec(example.banner) ?? [];
    const signIn = async (user: string): Promise<{ token: string; cookie: string }> => {
      const response = await fetch(`${address}/sign-in`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ user }),
      });
      const { token } = (await response.json()) as { token: string };
      return { token, cookie: response.headers.get('set-cookie')!.split(';')[0]! };
    };
    const ada = await signIn('ada');
    const grace = await signIn('grace');
    await signIn('ada'); // a second time, for no more credits

    const byToken = client(`${address}/v1`, ada.token);
    const { choices } = await byToken.chat.completions.create(ask);
    expect(choices[0]?.message.content).toContain('“Good morning”');
    await expect.poll(async () => (await credits(byToken)).held).toBe('0.00');
    expect(Number((await credits(byToken)).balance)).toBeLessThan(1);

    const byCookie = (): Promise<Response> =>
      fetch(`${address}/v1/credits`, { headers: { cookie: grace.cookie } });
    expect(await (await byCookie()).json()).toMatchObject({ balance: '1.00' });
    await fetch(`${address}/sign-out`, { method: 'POST', headers: { cookie: grace.cookie } });
    expect((await byCookie()).status).toBe(401);
    expect((await fetch(`${address}/v1/credits`)).status).toBe(401);
  });

  it('prints commands that work', async ({ onTestFinished }) => {
    const example = await spawnExample('sessions', {}, /Ctrl-C/);
    onTestFinished(async () => void (await example.stop()));
    const start = example.banner.indexOf('\ntoken=');
    const commands = example.banner.slice(start, example.banner.indexOf('\n\n', start));
    const { stdout } = await promisify(execFile)('sh', ['-c', commands], { env: ENV });
    expect(stdout.trimEnd()).toMatch(/data: \[DONE\]$/);
  });

  it('verifies what it signed, and nothing else', () => {
    const exp = Math.floor(Date.now() / 1000) + 60;
    const token = signToken({ sub: 'ada', exp }, 'secret');
    expect(verifyToken(token, 'secret')).toEqual({ sub: 'ada', exp });
    const [header, payload, signature] = token.split('.');
    const none = Buffer.from('{"alg":"none"}').toString('base64url');
    const grace = Buffer.from(JSON.stringify({ sub: 'grace', exp })).toString('base64url');
    for (const other of [
      '',
      'sk-ccr-nobody',
      `${none}.${payload}.`,
      `${header}.${payload}.`,
      `${header}.${grace}.${signature}`,
      `${token}.more`,
      signToken({ sub: 'ada', exp }, 'another'),
      signToken({ sub: 'ada', exp: exp - 120 }, 'secret'),
    ]) {
      expect(verifyToken(other, 'secret'), other).toBeUndefined();
    }
  });
});
