import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';

import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { notOneOf } from '../../../src/platform/did-you-mean.ts';
import { KNOWN_PROVIDERS } from '../../../src/cli/init/known-providers.ts';
import { promptTerminal } from '../../../src/cli/init/prompts.ts';
import { suggest } from '../../../src/cli/init/init.ts';
import { PRESETS } from '../../../src/catalog/presets.ts';
import { type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { type Ended, runCli, type Served, startServe } from '../../helpers/cli.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const QUESTION = { model: 'openai/gpt-4o-mini', messages: [{ role: 'user' as const, content: 'Hi.' }] };

let provider: FakeProvider;
let folder: string;
/** As of someone who has a key of OpenAI, and another address for it. */
let env: Record<string, string>;

beforeAll(async () => {
  provider = await startFakeProvider();
  env = { OPENAI_API_KEY: 'sk-of-openai', OPENAI_BASE_URL: provider.baseURL };
});

afterAll(() => provider.close());

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-init-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const run = (...args: string[]): Promise<Ended> => runCli(args, { cwd: folder, env });

/** A key with 5 USD, as the command that was told to be next makes it. */
async function customer(): Promise<string> {
  const created = await run('keys', 'create', 'acme');
  expect(await run('credits', 'grant', 'acme', '5.00', '--id', 'welcome')).toMatchObject({
    stdout: 'acme: $5.00 available\n',
  });
  return created.stdout.split('\n')[0] ?? '';
}

async function ask(baseURL: string): Promise<void> {
  const client = new OpenAI({ baseURL, apiKey: await customer(), maxRetries: 0 });
  const answer = await client.chat.completions.create(QUESTION);
  expect(answer.choices[0]?.message.content).toBe('Hello there.');
  expect(provider.requests.at(-1)?.headers.authorization).toBe('Bearer sk-of-openai');
}

describe('init', () => {
  let served: Served | undefined;

  afterEach(() => served?.stop());

  it.each([
    ['TypeScript', [], 'chat-completions-router.config.ts'],
    ['JSON', ['--json'], 'chat-completions-router.config.json'],
  ])('writes a config in %s that serves at once', async (_what, args, file) => {
    const { code, stdout } = await run('init', ...args);
    expect(code).toBe(0);
    expect(stdout).toMatch(`Wrote ${file}\n  openai: OPENAI_API_KEY is set\n`);
    served = await startServe([], { cwd: folder, env });
    await ask(`${served.origin}/v1`);
    expect(readFileSync(join(folder, file), 'utf8')).not.toContain('sk-of-openai');
  });

  it('finds the providers whose key is in the environment, and else begins with OpenAI', async () => {
    const keys = { GROQ_API_KEY: 'a', MISTRAL_API_KEY: 'b', XAI_API_KEY: '' };
    const found = await runCli(['init', '--json'], { cwd: folder, env: keys });
    expect(found.stdout).toContain('groq: GROQ_API_KEY is set\n  mistral: MISTRAL_API_KEY is set\n\n');
    const none = await runCli(['init', '--json', '--force'], { cwd: folder });
    expect(none.stdout).toContain('openai: OPENAI_API_KEY is NOT set yet\n\n');
    const start = await runCli(['serve'], { cwd: folder });
    expect(start.stderr).toContain(
      'providers.openai.apiKey: OPENAI_API_KEY is not set: put it into .env and use --env-file .env',
    );
  });

  it.each([
    ['TypeScript', []],
    ['JSON', ['--json']],
  ])('can set up each preset, in %s, and the router takes each', async (_what, args) => {
    expect(KNOWN_PROVIDERS.map(({ name }) => name).toSorted()).toEqual(Object.keys(PRESETS).toSorted());
    const names = KNOWN_PROVIDERS.map(({ name }) => name);
    const variables = KNOWN_PROVIDERS.flatMap(({ name, variables: wanted }) =>
      Object.entries(wanted ?? {}).map(([variable, value]) => `${name}.${variable}=${value}`),
    );
    const keys = Object.fromEntries(KNOWN_PROVIDERS.map(({ variable = 'NONE' }) => [variable, 'x']));
    const { stdout } = await runCli(
      ['init', ...args, '--providers', names.join(','), '--variables', variables.join(',')],
      { cwd: folder },
    );
    expect(stdout).toContain('\nPut into .env, and .env into .gitignore:\n\n  OPENAI_API_KEY=\n');
    expect(stdout).toContain('npx chat-completions-router serve --env-file .env\n');
    served = await startServe([], { cwd: folder, env: keys });
    expect(served.log.find(({ event }) => event === 'listening')).toMatchObject({ providers: names.length });
  });

  it('writes over nothing unless it is forced to', async () => {
    const path = join(folder, 'chat-completions-router.config.ts');
    writeFileSync(path, 'mine');
    expect(await run('init')).toMatchObject({
      code: 1,
      stderr:
        'chat-completions-router: chat-completions-router.config.ts exists already; overwrite it with --force\n',
    });
    expect(await run('init', '--json')).toMatchObject({ code: 1 });
    expect(readFileSync(path, 'utf8')).toBe('mine');
    expect(readdirSync(folder)).toEqual(['chat-completions-router.config.ts']);
    // The other one would be read in its place.
    expect((await run('init', '--json', '--force')).stderr).toContain(
      'config.ts exists and takes precedence; remove it first',
    );
    expect((await run('init', '--force')).code).toBe(0);
    expect(readFileSync(path, 'utf8')).toContain('satisfies ServerConfig');
  });

  it.each<[string, string[], string]>([
    ['an unknown app', ['--app', 'rails'], '--app must be one of standalone, node, express, next, fastify'],
    ['an unknown provider', ['--providers', 'openai,acme'], 'got "acme"'],
    ['a provider that is nearly one', ['--providers', 'opnai'], 'did you mean "openai"?'],
    ['a base URL with a gap', ['--providers', 'azure'], 'azure requires --variables azure.resource=…'],
    [
      'a variable that no provider has',
      ['--providers', 'azure', '--variables', 'azure.region=x'],
      'with azure.resource;',
    ],
    ['a store that is none', ['--store', 'redis:/x'], '--store: store must be redis://HOST'],
    [
      'a store in a folder that is not there',
      ['--store', 'sqlite:./data/credits.db'],
      'the folder of ./data/credits.db does not exist',
    ],
    ['JSON for an app', ['--app', 'koa', '--json'], '--json is only for a standalone server'],
  ])('refuses %s', async (_what, args, message) => {
    const { code, stderr } = await run('init', ...args);
    expect([code, readdirSync(folder)]).toEqual([2, []]);
    expect(stderr).toContain(message);
  });

  it('writes TypeScript that compiles strictly', { timeout: 60_000 }, async () => {
    await run('init', '--store', "redis://it's");
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(ROOT, join(folder, 'node_modules/chat-completions-router'));
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2023',
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      skipLibCheck: true,
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules/@types')],
    };
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    const { stdout } = spawnSync('tsc', ['-p', folder], { encoding: 'utf8', cwd: ROOT });
    expect(stdout).toBe('');
  });
});

/** An app around the lines that `init` says; it prints its port. */
const APPS: Readonly<Record<string, (lines: string) => string>> = {
  node: (lines) =>
    lines.replace(
      /\.listen\(8787\);.*/,
      ".listen(0, '127.0.0.1', function () { console.log(this.address().port); });",
    ),
  express: (lines) => `import express from 'express';
    const app = express();
    ${lines}
    app.use(express.json());
    const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));`,
  fastify: (lines) => `import { fastify } from 'fastify';
    const app = fastify();
    ${lines}
    await app.listen({ port: 0 });
    console.log(app.server.address().port);`,
  koa: (lines) => `import Koa from 'koa';
    const app = new Koa();
    ${lines}
    const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));`,
  hono: (lines) => `import { serve } from '@hono/node-server';
    import { Hono } from 'hono';
    const app = new Hono();
    ${lines}
    serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => console.log(port));`,
  nest: (lines) => `import { Module } from '@nestjs/common';
    import { NestFactory } from '@nestjs/core';
    class AppModule {}
    Module({})(AppModule);
    const app = await NestFactory.create(AppModule, { logger: false });
    ${lines}
    await app.listen(0);
    console.log(app.getHttpServer().address().port);`,
};

describe('init for an app', () => {
  let app: ChildProcess | undefined;

  afterEach(async () => {
    if (!app || app.exitCode !== null || app.signalCode !== null) return;
    app.kill('SIGKILL');
    await once(app, 'exit');
  });

  it.each(Object.keys(APPS))('of %s says lines that serve at once', async (name) => {
    for (const each of [
      'express',
      'fastify',
      'koa',
      'hono',
      '@hono/node-server',
      '@nestjs/common',
      '@nestjs/core',
    ]) {
      const link = join(folder, 'node_modules', each);
      mkdirSync(dirname(link), { recursive: true });
      const packages = each.startsWith('@nestjs/') ? 'test/e2e/node_modules' : 'node_modules';
      symlinkSync(join(ROOT, packages, each), link);
    }
    symlinkSync(ROOT, join(folder, 'node_modules/chat-completions-router'));
    const { stdout } = await run('init', '--app', name);
    const [, lines = ''] = /Add to your app:\n\n(.*?)\n\nThen:/s.exec(stdout) ?? [];
    writeFileSync(join(folder, 'app.mjs'), APPS[name]?.(lines) ?? '');
    const child = spawn(process.execPath, ['app.mjs'], {
      cwd: folder,
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    app = child;
    const [port] = (await once(child.stdout, 'data')) as [Buffer];
    await ask(`http://127.0.0.1:${Number(port)}/v1`);
  });

  it('of Next.js writes its route where its app is', async () => {
    mkdirSync(join(folder, 'src/app'), { recursive: true });
    writeFileSync(join(folder, 'tsconfig.json'), '{}');
    const { stdout } = await run('init', '--app', 'next');
    const route = 'src/app/v1/[...path]/route.ts';
    expect(stdout).toMatch(`Wrote chat-completions-router.config.ts\nWrote ${route}\n`);
    expect(readFileSync(join(folder, route), 'utf8'))
      .toBe(`import { createChatCompletionsRouter } from 'chat-completions-router';
import { toNextHandlers } from 'chat-completions-router/next';
import config from '../../../../chat-completions-router.config';

const router = createChatCompletionsRouter(config);
export const { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } = toNextHandlers(router);
`);
  });

  it('of Next.js in JavaScript writes a route that Next.js finds', async () => {
    await run('init', '--app', 'next');
    const route = readFileSync(join(folder, 'app/v1/[...path]/route.js'), 'utf8');
    expect(route).toContain("import config from '../../../chat-completions-router.config.mjs';");
    expect(existsSync(join(folder, 'chat-completions-router.config.mjs'))).toBe(true);
  });
});

describe('the questions of init', () => {
  const suggested = suggest({ folder: ROOT, env: { GROQ_API_KEY: 'x' } });

  it('take what is suggested for an empty answer, and say what is wrong with an answer', async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    output.setEncoding('utf8');
    const answers = promptTerminal({ input, output, folder, suggested, notOneOf });
    let [asked, all] = ['', ''];
    for (const answer of ['expres', 'hono', 'opnai', 'groq azure', 'contoso', 'redis:/x', 'redis://host']) {
      while (!asked.endsWith('] ')) asked += String((await once(output, 'data'))[0]);
      all += asked;
      asked = '';
      input.write(`${answer}\n`);
    }
    expect(await answers).toEqual({
      app: 'hono',
      providers: ['groq', 'azure'],
      variables: { azure: { resource: 'contoso' } },
      store: 'redis://host',
    });
    expect(all).toContain('got "expres"; did you mean "express"?\n');
    expect(all).toContain('got "opnai"; did you mean "openai"?\n');
    expect(all).toContain('azure: which resource? [contoso] ');
    expect(all).toContain('  store must be redis://HOST');
  });

  it('write nothing where they are left', async () => {
    const input = new PassThrough();
    const answers = promptTerminal({ input, output: new PassThrough(), folder, suggested, notOneOf });
    input.end();
    await expect(answers).rejects.toThrow('nothing was written');
  });

  it.each([
    [{ next: '16' }, 'next'],
    [{ '@nestjs/core': '12', express: '5' }, 'nest'],
    [{ express: '5', openai: '7' }, 'express'],
    [{ openai: '7' }, 'standalone'],
  ])('begin with what the project is: %o', (dependencies, app) => {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ dependencies }));
    expect(suggest({ folder, env: {} }).app).toBe(app);
  });
});
