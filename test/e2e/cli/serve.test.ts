import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import {
  chunk,
  DONE,
  end,
  type FakeProvider,
  hang,
  head,
  respond,
  sequence,
  startFakeProvider,
} from '../../../src/testing.ts';
import { type RunOptions, runCli, type Served, startCli, startServe } from '../../helpers/cli.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

let redis: RedisServer;
let provider: FakeProvider;
let folder: string;
let store: string;
const running: Served[] = [];

beforeAll(async () => {
  redis = await startRedis();
});

afterAll(async () => {
  await redis.stop();
});

beforeEach(async () => {
  provider = await startFakeProvider();
  folder = mkdtempSync(join(tmpdir(), 'ccr-serve-'));
  store = `sqlite:${join(folder, 'credits.db')}`;
});

afterEach(async () => {
  for (const served of running.splice(0)) {
    served.process.kill('SIGKILL');
    if (served.process.exitCode === null && served.process.signalCode === null)
      await once(served.process, 'exit');
  }
  await provider.close();
  rmSync(folder, { recursive: true });
});

/** A config in JSON; each token of the prompt costs 1,000 nano-dollars, each of the answer 3,000. */
function config(changes: object = {}): object {
  return {
    store,
    providers: { loopback: { baseURL: provider.baseURL, apiKey: 'sk-of-the-provider' } },
    models: {
      'acme/chat': {
        targets: ['loopback/m'],
        pricing: { input: '1', output: '3' },
        maxOutputTokens: 1000,
      },
    },
    ...changes,
  };
}

function write(name: string, content: string | object): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

async function serve(args: readonly string[], options: RunOptions = {}): Promise<Served> {
  const served = await startServe(args, { cwd: folder, ...options });
  running.push(served);
  return served;
}

/** A key with 5 USD, made by another process than the one that serves. */
async function customer(): Promise<string> {
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  const { key } = await router.keys.create({ account: 'acme' });
  await router.credits.grant('acme', '5.00', { id: 'welcome' });
  await router.close();
  return key;
}

async function clientOf({ origin }: Served): Promise<OpenAI> {
  return new OpenAI({ baseURL: `${origin}/v1`, apiKey: await customer(), maxRetries: 0 });
}

const QUESTION = { model: 'acme/chat', messages: [{ role: 'user' as const, content: 'Say hello.' }] };

describe('serve', () => {
  it('serves a config in JSON, with a byte order mark, comments, and secrets of the environment', async () => {
    const text = `\uFEFF${JSON.stringify(config(), null, 1)}`.replace(
      '"sk-of-the-provider"',
      '"${PROVIDER_KEY}" // a secret\n',
    );
    const served = await serve(['--config', write('gateway.json', text)], {
      env: { PROVIDER_KEY: 'sk-from-env' },
    });
    const client = await clientOf(served);
    const answer = await client.chat.completions.create(QUESTION);
    expect(answer.choices[0]?.message.content).toBe('Hello there.');
    expect(provider.requests[0]?.headers.authorization).toBe('Bearer sk-from-env');
    // 9 × 1,000 + 12 × 3,000 nano-dollars.
    expect(await served.logged('settled')).toMatchObject({
      account: 'acme',
      charged: '0.000045',
      promptTokens: 9,
    });
    expect(await served.logged('response')).toMatchObject({
      endpoint: 'completions',
      status: 200,
      account: 'acme',
    });
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['acme/chat']);
    expect(JSON.stringify(served.log)).not.toMatch(/sk-|hello/i);
    expect(await served.stop()).toBe(0);
  });

  it.each<[string, readonly string[]]>([
    ['this Node', []],
    ['a Node that strips no types by itself', ['--no-experimental-strip-types']],
  ])(
    'serves the config of its folder in TypeScript, whatever the package is, on %s',
    async (_node, flags) => {
      write('package.json', { type: 'commonjs' });
      write('models.mts', `export const targets: readonly string[] = ['loopback/m'];`);
      write(
        'chat-completions-router.config.ts',
        `import type { ServerConfig } from 'chat-completions-router';
       import { targets } from './models.mts';
       export default {
         store: ${JSON.stringify(store)},
         providers: { loopback: { baseURL: ${JSON.stringify(provider.baseURL)} } },
         models: { 'acme/chat': { targets, pricing: 'free' } },
       } satisfies ServerConfig;`,
      );
      const served = await serve([], { flags });
      const client = await clientOf(served);
      expect((await client.chat.completions.create(QUESTION)).choices).toHaveLength(1);
      const log = await served.stop();
      expect(log).toBe(0);
    },
  );

  it.each<[string, string, object | string, string]>([
    ['no provider', 'c.json', { models: {} }, 'c.json: must contain an object with providers and models'],
    [
      'an option that can not be',
      'c.json',
      { providers: {}, models: {}, heartbeatMs: -1 },
      'c.json: heartbeatMs must be',
    ],
    [
      'an unknown option',
      'c.json',
      { providers: {}, models: {}, holdmode: 1 },
      'c.json: options has an unknown key "holdmode"',
    ],
    [
      'a port that is none',
      'c.json',
      { providers: {}, models: {}, server: { port: '80' } },
      'c.json: server.port must be a port, got "80"',
    ],
    [
      'a variable that is not set',
      'c.json',
      { store: 'x', providers: { a: { apiKey: '${NOPE}' } }, models: {} },
      'c.json: providers.a.apiKey: NOPE is not set: put it into .env and use --env-file .env',
    ],
    ['no JSON', 'c.json', '{\n "store": memory:,\n "models": {} }', "c.json: line 2: Unexpected token 'm'"],
    [
      'no default export',
      'c.mts',
      'export const config = {};',
      'c.mts: its default export must be an object',
    ],
    ['a throw', 'c.mts', 'throw new Error("no luck")', 'c.mts: no luck'],
    [
      'another ending',
      'c.yaml',
      'a: 1',
      'c.yaml: unsupported file type; use one of .ts, .mts, .js, .mjs, .json, .jsonc',
    ],
  ])('refuses a config with %s, and names the file', async (_what, name, content, message) => {
    const path = write(name, content);
    const { code, stdout, stderr } = await runCli(['serve', '--config', path], { cwd: folder });
    expect(stderr).toContain(`chat-completions-router: ${folder}/${message}`);
    expect([code, stdout]).toEqual([1, '']);
  });

  it('says that there is no config, and what makes one', async () => {
    const { code, stderr } = await runCli(['serve'], { cwd: folder });
    expect([code, stderr]).toEqual([
      2,
      'chat-completions-router: no config in this folder: run npx chat-completions-router init\n',
    ]);
  });

  it('says that its port is taken', async () => {
    const path = write('c.json', config());
    const { origin } = await serve(['--config', path]);
    const { port } = new URL(origin);
    const { code, stderr } = await runCli(['serve', '--config', path, '--port', port]);
    expect([code, stderr]).toEqual([
      1,
      `chat-completions-router: port ${port} of 127.0.0.1 is in use; choose another with --port or PORT in the environment: ` +
        `listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`,
    ]);
  });

  it('does not begin without its store', async () => {
    const path = write('c.json', config({ store: 'redis://127.0.0.1:1' }));
    const { code, stderr } = await runCli(['serve', '--config', path, '--port', '0']);
    expect(code).toBe(1);
    expect(stderr).toContain('connect ECONNREFUSED 127.0.0.1:1');
  });
});

describe('its health', () => {
  it('is answered without a key', async () => {
    const { origin } = await serve(['--config', write('c.json', config())]);
    const healthz = await fetch(`${origin}/healthz`);
    expect([healthz.status, await healthz.json()]).toEqual([200, { status: 'ok' }]);
    const readyz = await fetch(`${origin}/readyz?verbose`);
    expect([readyz.status, await readyz.json()]).toEqual([200, { status: 'ready' }]);
    expect((await fetch(`${origin}/healthzz`)).status).toBe(401);
  });

  it('is bad while the store is unavailable, and good again', async () => {
    const away = await startRedis();
    const served = await serve(['--config', write('c.json', config({ store: away.url }))]);
    const { origin } = served;
    expect((await fetch(`${origin}/readyz`)).status).toBe(200);
    await away.stop();
    await expect.poll(async () => (await fetch(`${origin}/readyz`)).status, { timeout: 10_000 }).toBe(503);
    const problem = 'not ready; see the log for the reason';
    expect(await (await fetch(`${origin}/readyz`)).json()).toEqual({ status: 'not ready', problem });
    expect(await served.logged('not_ready')).toMatchObject({
      level: 'warn',
      message: expect.stringContaining('store'),
    });
    expect((await fetch(`${origin}/healthz`)).status).toBe(200);
  });
});

/** The provider begins a stream and goes on when it is told to: 9 tokens of prompt, 12 of answer. */
function holdAnswer(): () => void {
  const { promise: released, resolve } = Promise.withResolvers<void>();
  const begin = head(200, { 'content-type': 'text/event-stream' });
  const usage = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 };
  const rest = [
    chunk({ choices: [{ index: 0, delta: { content: 'Late.' }, finish_reason: 'stop' }], usage }),
    DONE,
  ];
  provider.answer(async (response, request) => {
    await sequence(begin, ': first\n\n')(response, request);
    await released;
    await sequence(...rest, end)(response, request);
  });
  return resolve;
}

describe('its admin API', () => {
  const ADMIN_TOKEN = 'a-token-that-nobody-guesses';

  it('opens to the token alone, and logs what was changed', async () => {
    const served = await serve(['--admin', '--config', write('c.json', config())], { env: { ADMIN_TOKEN } });
    const ask = (authorization: string, init?: RequestInit): Promise<Response> =>
      fetch(`${served.origin}/admin/accounts/acme/grants`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ id: 'g1', amount: '2.00' }),
        ...init,
      });
    expect((await served.logged('listening'))['admin']).toBe(`${served.origin}/admin`);
    expect((await ask('Bearer a-token-that-nobody-guesseS')).status).toBe(401);
    expect((await ask('')).status).toBe(401);
    expect((await ask(`Bearer ${ADMIN_TOKEN}`)).ok).toBe(true);
    await expect.poll(() => served.log.filter(({ event }) => event === 'audit')).toHaveLength(3);
    expect(await served.logged('audit')).toMatchObject({ operator: 'admin' });
    expect(JSON.stringify(served.log)).not.toContain(ADMIN_TOKEN);
    const balance = await runCli(['credits', 'balance', 'acme', '--json', '--store', store]);
    expect(JSON.parse(balance.stdout)).toMatchObject({ balance: '2.00', held: '0.00', totalGranted: '2.00' });
  });

  it('can be asked for by the config', async () => {
    const path = write('c.json', config({ server: { admin: true } }));
    const { origin } = await serve(['--config', path], { env: { ADMIN_TOKEN } });
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    expect((await fetch(`${origin}/admin/accounts`, { headers })).status).toBe(200);
    expect((await fetch(`${origin}/administrators`, { headers })).status).toBe(401);
  });

  it('is not there unless it is asked for', async () => {
    const { origin } = await serve(['--config', write('c.json', config())], { env: { ADMIN_TOKEN } });
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const response = await fetch(`${origin}/admin/accounts`, { headers });
    expect([response.status, await response.json()]).toMatchObject([
      401,
      { error: { code: 'invalid_api_key' } },
    ]);
  });

  it.each([
    ['no token', {}, 'with at least 16 characters; it has 0'],
    ['a token that can be guessed', { ADMIN_TOKEN: '123456789012345' }, 'it has 15'],
    ['a token from a file with a line break', { ADMIN_TOKEN: `${ADMIN_TOKEN}\n` }, 'and line breaks'],
    ['a blank token', { ADMIN_TOKEN: ' '.repeat(20) }, 'printable ASCII characters'],
    ['a token of other letters', { ADMIN_TOKEN: 'ein-schlüssel-für-alle' }, 'printable ASCII characters'],
  ])('does not open with %s', async (_what, env: Record<string, string>, message) => {
    const path = write('c.json', config());
    const { code, stderr } = await runCli(['serve', '--admin', '--port', '0', '--config', path], { env });
    expect(code).toBe(1);
    expect(stderr).toMatch(/ADMIN_TOKEN (in the environment|must)/);
    expect(stderr).toContain(message);
  });
});

describe('a log without a reader', () => {
  it('ends neither the server nor its streams', async () => {
    const served = await serve(['--config', write('c.json', config())]);
    const client = await clientOf(served);
    const release = holdAnswer();
    const stream = await client.chat.completions.create({ ...QUESTION, stream: true });
    served.process.stdout.destroy();
    for (let i = 0; i < 3; i++) await client.models.list();
    release();
    const said: unknown[] = [];
    for await (const { choices } of stream) said.push(choices[0]?.delta.content);
    expect(said).toContain('Late.');
    expect(await served.stop()).toBe(0);
    const { stdout } = await runCli(['credits', 'balance', 'acme', '--json', '--store', store]);
    expect(JSON.parse(stdout)).toMatchObject({ held: '0.00', totalUsed: '0.000045' });
  });
});

describe('a signal', () => {
  it('ends it once the streams have ended, which are charged', async () => {
    const served = await serve(['--config', write('c.json', config())]);
    const client = await clientOf(served);
    const release = holdAnswer();
    const stream = await client.chat.completions.create({ ...QUESTION, stream: true });
    served.process.kill('SIGTERM');
    expect(await served.logged('closing')).toMatchObject({ signal: 'SIGTERM' });
    const readyz = await fetch(`${served.origin}/readyz`);
    expect([readyz.status, await readyz.json()]).toEqual([503, { status: 'not ready', problem: 'closing' }]);
    expect((await fetch(`${served.origin}/healthz`)).status).toBe(200);
    await expect(client.chat.completions.create(QUESTION)).rejects.toMatchObject({ code: 'router_closing' });
    release();
    const said: unknown[] = [];
    for await (const { choices } of stream) said.push(choices[0]?.delta.content);
    expect(said).toContain('Late.');
    expect(await served.logged('settled')).toMatchObject({ charged: '0.000045', ending: 'finished' });
    if (served.process.exitCode === null) await once(served.process, 'exit');
    expect(served.process.exitCode).toBe(0);
  });

  it('that comes twice ends it at once', async () => {
    const served = await serve(['--config', write('c.json', config())]);
    const client = await clientOf(served);
    provider.answer(sequence(head(200, { 'content-type': 'text/event-stream' }), ': first\n\n', hang));
    await client.chat.completions.create({ ...QUESTION, stream: true });
    served.process.kill('SIGINT');
    await served.logged('closing');
    served.process.kill('SIGINT');
    await once(served.process, 'exit');
    expect(served.process.exitCode).toBe(1);
    expect(await served.logged('killed')).toMatchObject({ level: 'error', signal: 'SIGINT' });
  });
});

describe('a signal that comes before it listens', () => {
  /** It waits for the list of models of its provider. */
  async function starting(): Promise<{ child: ReturnType<typeof startCli>; release: () => void }> {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    provider.answer(async (response, request) => {
      resolve();
      await released;
      await respond(200, '{"data":[]}')(response, request);
    });
    const loopback = { baseURL: provider.baseURL, apiKey: 'sk', models: 'discover' };
    const path = write('c.json', config({ providers: { loopback } }));
    const child = startCli(['serve', '--port', '0', '--config', path], { cwd: folder });
    await asked;
    return { child, release };
  }

  it('ends it', async () => {
    const { child, release } = await starting();
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    release();
  });

  it('reloads its config then, if it is a hangup', async () => {
    const { child, release } = await starting();
    const exited = once(child, 'exit');
    child.kill('SIGHUP');
    release();
    const events: unknown[] = [];
    for await (const line of createInterface(child.stdout)) {
      const { event } = JSON.parse(line) as { event: unknown };
      events.push(event);
      if (event === 'reloaded') child.kill('SIGTERM');
    }
    expect(events).toEqual(['listening', 'reloaded', 'closing', 'closed']);
    expect(await exited).toEqual([0, null]);
  });
});

describe('a hangup', () => {
  it('takes new models, prices and providers, under a stream that goes on', async () => {
    const path = write('c.json', config());
    const served = await serve(['--config', path]);
    const client = await clientOf(served);
    const release = holdAnswer();
    const stream = await client.chat.completions.create({ ...QUESTION, stream: true });
    const other = await startFakeProvider();
    const next = { targets: ['other/m'], pricing: { input: '10', output: '10' }, maxOutputTokens: 1000 };
    write(
      'c.json',
      config({
        providers: { other: { baseURL: other.baseURL } },
        models: { 'acme/next': next },
        holdMode: 'strict',
      }),
    );
    served.process.kill('SIGHUP');
    expect(await served.logged('reloaded')).toMatchObject({ config: path, providers: 1, models: 1 });
    expect(await served.logged('needs_restart')).toMatchObject({ options: ['holdMode'] });
    release();
    let text = '';
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    expect(text).toBe('Late.');
    // The old price: 9 × 1,000 + 12 × 3,000 nano-dollars; then the new one, 21 × 10,000.
    expect(await served.logged('settled')).toMatchObject({ charged: '0.000045' });
    await expect(client.chat.completions.create(QUESTION)).rejects.toMatchObject({ code: 'model_not_found' });
    await client.chat.completions.create({ ...QUESTION, model: 'acme/next' });
    await expect.poll(() => served.log.filter(({ event }) => event === 'settled')).toHaveLength(2);
    expect(await served.logged('settled')).toMatchObject({ charged: '0.00021' });
    expect(other.requests).toHaveLength(1);
    await other.close();
  });

  it('says that another file of facts about models needs a restart', async () => {
    const facts = (name: string): string =>
      JSON.stringify({ acme: { models: { chat: { id: 'chat', name } } } });
    write('models.dev.json', facts('One'));
    const served = await serve(['--config', write('c.json', config({ modelInfo: 'models.dev.json' }))]);
    served.process.kill('SIGHUP');
    await served.logged('reloaded');
    write('models.dev.json', facts('Two'));
    served.process.kill('SIGHUP');
    expect(await served.logged('needs_restart')).toMatchObject({ options: ['modelInfo'] });
    expect(served.log.filter(({ event }) => event === 'reloaded')).toHaveLength(2);
    expect(served.log.filter(({ event }) => event === 'needs_restart')).toHaveLength(1);
  });

  it('reads TypeScript again', async () => {
    const model = (id: string): string =>
      `export default { store: ${JSON.stringify(store)}, providers: { a: { baseURL: 'http://127.0.0.1:1' } },
         models: { ${JSON.stringify(id)}: { targets: ['a/m'], pricing: 'free' } } };`;
    const served = await serve(['--config', write('c.mts', model('one'))]);
    const client = await clientOf(served);
    write('c.mts', model('two'));
    served.process.kill('SIGHUP');
    await served.logged('reloaded');
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['two']);
    expect(served.log.filter(({ event }) => event === 'needs_restart')).toEqual([]);
  });

  it.each<[string, object | string, string]>([
    [
      'whose model has no provider',
      { providers: {} },
      'models["acme/chat"].targets[0].provider must be one of',
    ],
    ['that is cut off', '{ "providers": {', "line 1: Expected property name or '}'"],
    ['of no port', { server: { port: -1 } }, 'server.port must be a port, got -1'],
  ])('with a config %s changes nothing, and says why', async (_what, changes, message) => {
    const path = write('c.json', config());
    const served = await serve(['--config', path]);
    const client = await clientOf(served);
    write('c.json', typeof changes === 'string' ? changes : config(changes));
    served.process.kill('SIGHUP');
    const refused = await served.logged('reload_refused');
    expect(refused['message']).toContain(`${path}: ${message}`);
    expect((await client.chat.completions.create(QUESTION)).choices).toHaveLength(1);
  });
});

describe('the commands beside it', () => {
  it.each(['SQLite', 'Redis'])('change what it serves on %s', async (kind) => {
    if (kind === 'Redis') store = `${redis.url}?prefix=beside:`;
    const path = write('c.json', config());
    const served = await serve(['--config', path]);
    const client = await clientOf(served);
    await client.chat.completions.create(QUESTION);
    await served.logged('settled');
    const usage = await runCli(['usage', '--by', 'account,model', '--csv', '--config', path]);
    expect(usage.stdout.split('\n')[1]).toBe('acme,acme/chat,1,0,0,9,0,12,0,0.000045,0.00');
    expect(await runCli(['freeze', 'acme', '--config', path])).toMatchObject({ code: 0 });
    await expect(client.chat.completions.create(QUESTION)).rejects.toMatchObject({ code: 'account_frozen' });
    await runCli(['unfreeze', 'acme', '--config', path]);
    const grant = await runCli(['credits', 'grant', 'acme', '1.00', '--id', 'p1', '--config', path]);
    expect(grant.stdout).toBe('acme: $5.999955 available\n');
    await client.chat.completions.create(QUESTION);
    const audit = await runCli(['verify'], { env: { CREDITS_STORE: store } });
    expect([audit.code, audit.stdout]).toEqual([0, '1 account, 4 journal entries: no problems found\n']);
  });

  it('find the store of the config in their folder, and may make it', async () => {
    write('chat-completions-router.config.json', config({ store: 'sqlite:./new.db' }));
    const missing = await runCli(['credits', 'balance'], { cwd: folder });
    expect(missing.stderr).toBe('chat-completions-router: file not found: ./new.db\n');
    const grant = await runCli(['credits', 'grant', 'acme', '1.00', '--id', 'p1'], { cwd: folder });
    expect([grant.code, grant.stdout]).toEqual([0, 'acme: $1.00 available\n']);
    expect(readFileSync(join(folder, 'new.db')).length).toBeGreaterThan(0);
  });

  it('load nothing of the router', async () => {
    const tell = join(folder, 'tell.mjs');
    writeFileSync(
      tell,
      `import { registerHooks } from 'node:module';
       registerHooks({ load: (url, context, next) => (console.error(url), next(url, context)) });`,
    );
    const balance = ['credits', 'grant', 'acme', '1.00', '--id', 'p1', '--config', write('c.json', config())];
    const { stderr } = await runCli(balance, { flags: ['--import', tell] });
    expect(stderr).toContain('/dist/ledger/stores/sqlite/sqlite-store.js');
    expect(stderr).not.toMatch(/\/dist\/(router|serve|upstream|completion)\b/);
  });
});
