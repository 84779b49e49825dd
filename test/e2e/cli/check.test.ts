import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  completion,
  error,
  type FakeProvider,
  hang,
  type ReceivedRequest,
  respond,
  type Script,
  startFakeProvider,
  stream,
} from '../../../src/testing.ts';
import { type Ended, runCli } from '../../helpers/cli.ts';

let providers: FakeProvider[];
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-check-'));
  providers = [];
});

afterEach(async () => {
  for (const provider of providers) await provider.close();
  rmSync(folder, { recursive: true });
});

/** A provider that lists these models and answers for them, unless a script says otherwise. */
async function start(listed: readonly string[], onCompletion: Script = completion()): Promise<FakeProvider> {
  const provider = await startFakeProvider();
  providers.push(provider);
  provider.answer((response, request) =>
    isList(request)
      ? respond(200, { object: 'list', data: listed.map((id) => ({ id })) })(response, request)
      : onCompletion(response, request),
  );
  return provider;
}

function isList({ method, url }: ReceivedRequest): boolean {
  return method === 'GET' && url === '/v1/models';
}

function completionsOf(provider: FakeProvider): readonly ReceivedRequest[] {
  return provider.requests.filter((request) => !isList(request));
}

function check(config: object, ...args: string[]): Promise<Ended> {
  const path = join(folder, 'c.json');
  writeFileSync(path, JSON.stringify({ store: 'memory:', ...config }));
  return runCli(['check', '--config', path, ...args]);
}

/** A model of its own for each target, as none needs to be a fallback here. */
function serving(targets: readonly string[]): object {
  return Object.fromEntries(targets.map((target) => [target, { targets: [target], pricing: 'free' }]));
}

describe('check', () => {
  it('asks each provider for its models, and each target for one token', async () => {
    const acme = await start(['small', 'large']);
    const zeta = await start(['models/zeta-1']);
    const { code, stdout, stderr } = await check({
      providers: {
        acme: { baseURL: acme.baseURL, apiKey: 'sk-of-acme' },
        zeta: { baseURL: zeta.baseURL, outputLimitField: 'max_completion_tokens' },
      },
      models: serving(['acme/small', 'acme/large', 'zeta/zeta-1']),
    });
    expect([code, stderr]).toEqual([0, '']);
    expect(
      stdout
        .replaceAll(/ \d+ ms/g, ' 1 ms')
        .replaceAll(/ +/g, ' ')
        .split('\n'),
    ).toEqual([
      'PROVIDER MODEL LISTED FIRST BYTE USAGE BILLED PRICE',
      '(store) ok',
      'acme 2 models ok',
      'acme small yes 1 ms reported unknown ok',
      'acme large yes 1 ms reported unknown ok',
      'zeta 1 model ok',
      'zeta zeta-1 yes 1 ms reported unknown ok',
      '',
      'no problems found',
      '',
    ]);
    expect(acme.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer sk-of-acme',
      'Bearer sk-of-acme',
      'Bearer sk-of-acme',
    ]);
    expect(completionsOf(acme)[0]?.json).toMatchObject({ max_tokens: 1, stream: true });
    expect(completionsOf(zeta)[0]?.json).toMatchObject({ max_completion_tokens: 1 });
  });

  it('says what failed and why, and ends with 1', async () => {
    const acme = await start(['good'], (response, request) =>
      (request.json.model === 'good' ? completion() : error(404, { message: 'no model of this name' }))(
        response,
        request,
      ),
    );
    const gone = await startFakeProvider();
    await gone.close();
    const { code, stdout } = await check({
      store: 'redis://127.0.0.1:1',
      providers: { acme: { baseURL: acme.baseURL }, gone: { baseURL: gone.baseURL } },
      models: serving(['acme/good', 'acme/bad', 'gone/m']),
    });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^acme +good +yes .* ok$/m);
    expect(stdout).toMatch(/^acme +bad +no +unknown +FAILED$/m);
    const [, problems = ''] = stdout.split('\n\n');
    expect(problems.split('\n')).toEqual([
      '(store): connect ECONNREFUSED 127.0.0.1:1',
      'acme bad: 404: no model of this name',
      expect.stringMatching(/^gone: unreachable: connect ECONNREFUSED/),
      expect.stringMatching(/^gone m: 502: .*ECONNREFUSED/),
      '4 problems',
      '',
    ]);
  });

  it('finds the dead one of several keys, and shows none', async () => {
    const acme = await startFakeProvider();
    providers.push(acme);
    acme.answer((response, request) => {
      const isDead = request.headers.authorization === 'Bearer sk-dead-and-secret';
      const refusal = error(401, { message: `Incorrect API key provided: sk-dead-and-secret` });
      return (isDead ? refusal : isList(request) ? respond(200, { data: [{ id: 'm' }] }) : completion())(
        response,
        request,
      );
    });
    const { code, stdout, stderr } = await check({
      providers: { acme: { baseURL: acme.baseURL, apiKeys: ['sk-alive-secret', 'sk-dead-and-secret'] } },
      models: serving(['acme/m']),
    });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^acme#1 +m +yes .* ok$/m);
    expect(stdout).toContain('acme#2: rejects the API key (401 to GET /v1/models)\nacme#2 m: 502: ');
    expect(stdout + stderr).not.toContain('secret');
  });

  it('shows no key that a provider says back', async () => {
    const told = { error: { message: 'I know sk-of-acme-secret' } };
    const acme = await start(['m'], stream(`data: ${JSON.stringify(told)}\n\n`));
    const { stdout } = await check({
      providers: { acme: { baseURL: acme.baseURL, apiKey: 'sk-of-acme-secret' } },
      models: serving(['acme/m']),
    });
    expect(stdout).toContain('acme m: 200: I know *****************\n');
    expect(stdout).not.toContain('secret');
  });

  it('sends no request with a key that no header can hold', async () => {
    const acme = await start(['m']);
    const { code, stdout, stderr } = await check({
      providers: { acme: { baseURL: acme.baseURL, apiKey: 'sk-of-acme-secret\n' } },
      models: serving(['acme/m']),
    });
    expect(code).toBe(1);
    expect(stderr).toContain(
      'providers["acme"].apiKey contains a blank, a line break or a non-ASCII character\n',
    );
    expect(stdout + stderr).not.toContain('secret');
    expect(acme.requests).toEqual([]);
  });

  it('asks no target with --no-completion, and trusts the list then', async () => {
    const acme = await start(['good']);
    const { code, stdout } = await check(
      { providers: { acme: { baseURL: acme.baseURL } }, models: serving(['acme/good', 'acme/bad']) },
      '--no-completion',
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(/^acme +good +yes +unknown +skipped$/m);
    expect(stdout).toContain("acme bad: not in the provider's model list\n1 problem\n");
    expect(completionsOf(acme)).toEqual([]);
  });

  it('takes no offense at a provider without a list, or a stream without usage', async () => {
    const acme = await startFakeProvider();
    providers.push(acme);
    acme.answer((response, request) =>
      (isList(request) ? error(404) : completion({ usage: null }))(response, request),
    );
    const { code, stdout } = await check({
      providers: { acme: { baseURL: acme.baseURL } },
      models: serving(['acme/m']),
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^acme +m +\d+ ms +estimated +unknown +ok$/m);
  });

  it('asks a model again that refuses to write one token', async () => {
    const acme = await start(['o'], (response, request) =>
      (request.json['max_tokens'] === 1 ? error(400, { message: 'too few' }) : completion())(
        response,
        request,
      ),
    );
    const { code } = await check({
      providers: { acme: { baseURL: acme.baseURL } },
      models: serving(['acme/o']),
    });
    expect(code).toBe(0);
    expect(completionsOf(acme).map(({ json }) => json['max_tokens'])).toEqual([1, 16]);
  });

  it('shows what rules make of requests, without texts, and asks by them', async () => {
    const acme = await start(['small', 'large-1']);
    const { code, stdout } = await check({
      providers: {
        acme: {
          baseURL: acme.baseURL,
          apiKey: 'sk-of-acme',
          body: { set: { store: false, api_key: 'sk-of-another' }, default: { metadata: { a: 'b' } } },
        },
      },
      models: {
        small: {
          targets: [
            {
              provider: 'acme',
              model: 'small',
              body: {
                rename: { max_tokens: 'max_completion_tokens' },
                drop: ['seed'],
                set: { api_key: null },
              },
            },
          ],
          pricing: 'free',
        },
        'big/*': {
          targets: [{ provider: 'acme', model: 'large-*', body: { set: { top_k: 7 } } }],
          pricing: 'free',
        },
      },
    });
    expect(code).toBe(0);
    expect(stdout.split('\n').slice(-6)).toEqual([
      'BODY RULES',
      'small at acme/small: set store to false, default metadata to {…}, set api_key to null, drop seed, rename max_tokens to max_completion_tokens',
      'big/1 at acme/large-1: set store to false, set api_key to "…", default metadata to {…}, set top_k to 7',
      '',
      'no problems found',
      '',
    ]);
    expect(stdout).not.toContain('sk-of');
    const sent = new Map(completionsOf(acme).map(({ json }) => [json.model, json]));
    expect(sent.get('small')).toMatchObject({ store: false, max_completion_tokens: 1, metadata: { a: 'b' } });
    expect(sent.get('small')).not.toHaveProperty('max_tokens');
    expect(sent.get('large-1')).toMatchObject({ store: false, max_tokens: 1, top_k: 7 });
  });

  it('asks a target once, however many models it serves', async () => {
    const acme = await start(['m']);
    const model = { targets: ['acme/m'], pricing: 'free' };
    await check({ providers: { acme: { baseURL: acme.baseURL } }, models: { one: model, two: model } });
    expect(completionsOf(acme)).toHaveLength(1);
  });

  it('asks the targets that are named of a provider that is discovered, and one of the others', async () => {
    const acme = await start(['m', 'other', 'third']);
    const models = { pricing: 'free' };
    const { code, stdout } = await check({
      providers: { acme: { baseURL: acme.baseURL, models } },
      models: serving(['acme/m']),
    });
    expect([code, stdout.split('\n').at(-2)]).toEqual([0, 'no problems found']);
    expect(new Set(completionsOf(acme).map(({ json }) => json.model))).toEqual(new Set(['m', 'other']));
  });

  it('asks providers at the same time', async () => {
    const { promise: bothAsked, resolve } = Promise.withResolvers<void>();
    let asked = 0;
    const together: Script = async (response, request) => {
      if ((asked += 1) === 2) resolve();
      await bothAsked;
      await completion()(response, request);
    };
    const [acme, zeta] = [await start(['m'], together), await start(['m'], together)];
    const { code } = await check({
      providers: { acme: { baseURL: acme.baseURL }, zeta: { baseURL: zeta.baseURL } },
      models: serving(['acme/m', 'zeta/m']),
    });
    expect(code).toBe(0);
  });

  it('waits no longer than it is configured to', async () => {
    const acme = await startFakeProvider();
    providers.push(acme);
    acme.answer(hang);
    const { code, stdout } = await check(
      { providers: { acme: { baseURL: acme.baseURL } }, models: serving(['acme/m']) },
      '--timeout',
      '1',
    );
    expect(code).toBe(1);
    expect(stdout).toContain('acme: no list of models within 1000 ms\nacme m: 504: ');
  });

  it('says which key is missing, and sends no request with it', async () => {
    const acme = await start(['m']);
    const path = join(folder, 'c.mts');
    writeFileSync(
      path,
      `export default { store: 'memory:', models: ${JSON.stringify(serving(['acme/m']))},
        providers: { acme: { baseURL: '${acme.baseURL}', apiKey: () => process.env.NOPE } } };`,
    );
    const { code, stdout } = await runCli(['check', '--config', path]);
    expect(code).toBe(1);
    expect(stdout).toContain(
      'acme: apiKey is empty: put its environment variable into .env and use --env-file .env\n1 problem\n',
    );
    expect(acme.requests).toEqual([]);
  });

  it('says it in JSON', async () => {
    const acme = await start(['m']);
    const { stdout } = await check(
      { providers: { acme: { baseURL: acme.baseURL } }, models: serving(['acme/m']) },
      '--json',
    );
    const rows = stdout.trimEnd().split('\n');
    expect(rows.map((row) => JSON.parse(row) as object)).toMatchObject([
      { provider: '(store)', ok: true },
      { provider: 'acme', models: 1, ok: true },
      { provider: 'acme', model: 'm', listed: true, usage: 'reported', ok: true },
    ]);
  });

  it('refuses a config that the router would refuse', async () => {
    const { code, stderr } = await check({ providers: {}, models: serving(['acme/m']) });
    expect(code).toBe(1);
    expect(stderr).toContain(`${folder}/c.json: models["acme/m"].targets[0].provider must be one of`);
  });
});

it('checks a config on the fake provider as it is started', async () => {
  const provider = await startFakeProvider();
  providers.push(provider);
  const { code, stdout } = await check(
    {
      providers: { fake: { baseURL: provider.baseURL, models: 'discover' } },
      models: {},
    },
    '--json',
  );
  expect(code).toBe(0);
  expect(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object),
  ).toMatchObject([
    { provider: '(store)', ok: true },
    { provider: 'fake', models: 1, ok: true },
    {
      provider: 'fake',
      model: 'fake-model',
      sampleOf: ['discovered'],
      listed: true,
      usage: 'reported',
      ok: true,
    },
  ]);
});
