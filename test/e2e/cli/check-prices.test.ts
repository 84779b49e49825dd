import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { completion, error, type FakeProvider, respond, startFakeProvider } from '../../../src/testing.ts';
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

/** A provider whose list is this, if it has one, and which answers for every model. */
async function start(listed: readonly object[] | undefined): Promise<FakeProvider> {
  const provider = await startFakeProvider();
  providers.push(provider);
  const list = listed ? respond(200, { object: 'list', data: listed }) : error(404);
  provider.answer((response, request) => (request.method === 'GET' ? list : completion())(response, request));
  return provider;
}

/** What models were asked for a completion. */
function askedOf(provider: FakeProvider): ReadonlySet<unknown> {
  return new Set(provider.requests.filter(({ method }) => method === 'POST').map(({ json }) => json.model));
}

function check(config: object, ...args: string[]): Promise<Ended> {
  const path = join(folder, 'c.json');
  writeFileSync(path, JSON.stringify({ store: 'memory:', ...config }));
  return runCli(['check', '--config', path, ...args]);
}

/** A model that is served at one place. */
function at(target: string | object, input: string, output: string): object {
  return { targets: [target], pricing: { input, output }, maxOutputTokens: 10 };
}

/** The rows of targets, of `--json`. */
function targetsIn(stdout: string): readonly object[] {
  const rows = stdout.trimEnd().split('\n');
  return rows.map((row) => JSON.parse(row) as object).filter((row) => 'model' in row);
}

/** The end of the report: what went wrong, what may be meant so, and the sum of it. */
function endOf(stdout: string): readonly string[] {
  return stdout.trimEnd().split('\n\n').at(-1)?.split('\n') ?? [];
}

/** As OpenRouter lists them, in USD per token. */
const OPENROUTER = { id: 'm', pricing: { prompt: '0.00000015', completion: '0.0000006' } };
/** As Vercel does. */
const VERCEL = { id: 'm', type: 'language', pricing: { input: '0.00000015', output: '0.0000006' } };

describe('check of tools that providers run', () => {
  it('says for each model what its provider bills apart and it has no price for', async () => {
    const provider = await start([OPENROUTER, { ...OPENROUTER, id: 'n' }]);
    const { code, stdout } = await check(
      {
        providers: { openrouter: { baseURL: provider.baseURL, apiKey: 'sk-of-openrouter' } },
        models: {
          some: {
            ...at('openrouter/m', '1', '2'),
            serverTools: { file: { fee: '0.002', atMost: 10 }, speed: { fee: '0.1', atMost: 1 } },
          },
          none: at('openrouter/n', '1', '2'),
        },
      },
      '--strict',
    );
    expect(code).toBe(0);
    const names = 'service tier priority, service tier flex, openrouter:*, web_search, web_search_preview';
    expect(stdout).toMatch(
      new RegExp(
        `^openrouter has no price in the config for ${names.replace('*', '[*]')}, .* and 5 more [(]m[)]`,
        'm',
      ),
    );
    expect(stdout).toMatch(
      new RegExp(
        `^openrouter has no price in the config for ${names.replace('*', '[*]')}, .* and 7 more [(]n[)]`,
        'm',
      ),
    );
    expect(stdout).toContain('Such requests are rejected.');
    expect(endOf(stdout)).toEqual(['no problems found']);
  });
});

describe('check of fees', () => {
  it('warns of those below their cost, and of those that have none beside a cost', async () => {
    const openrouter = await start([{ id: 'm' }, { id: 'acme/m' }, { id: 'openai/gpt-4o-search' }]);
    const cost = { input: '1', output: '2', webSearch: '0.01', request: '0.003' };
    const model = { pricing: { input: '1', output: '2', request: '0.001' }, maxOutputTokens: 10 };
    const { stdout } = await check(
      {
        providers: { openrouter: { baseURL: openrouter.baseURL, apiKey: 'k' } },
        models: {
          low: {
            ...model,
            targets: [{ provider: 'openrouter', model: 'm', cost: { reported: true, ceiling: cost } }],
            markup: { factor: '1.5' },
            serverTools: {
              web_search: { fee: '0.006', atMost: 1 },
              'openrouter:web_search': { fee: '0.007', atMost: 1 },
              'openrouter:fusion': { fee: '0.5', cost: '0.8', atMost: 1 },
              'openrouter:advisor': { fee: '0', cost: '0.8', atMost: 1 },
            },
          },
          unknown: {
            ...model,
            targets: [{ provider: 'openrouter', model: 'm', cost: { ...cost, request: '0' } }],
            serverTools: { speed: { fee: '0.1', atMost: 1 } },
          },
          searching: at('openrouter/openai/gpt-4o-search', '1', '2'),
          'acme/*': at('openrouter/acme/*', '1', '2'),
        },
      },
      '--no-completion',
    );
    const fees = endOf(stdout).filter((line) => / fee |no fee/.test(line));
    expect(fees).toEqual([
      'warning: low at openrouter/m has a fee for web_search below its cost: 0.006 USD plus markup; costs 0.01 USD',
      'warning: low at openrouter/m has a fee for openrouter:fusion below its cost: 0.50 USD plus markup; costs 0.80 USD',
      'warning: low at openrouter/m has a fee for a request below its cost: 0.001 USD plus markup; costs 0.003 USD',
      'warning: unknown at openrouter/m has a fee but no cost for speed, so the cost of its requests is unknown',
      'warning: searching at openrouter/openai/gpt-4o-search searches the web, by its name, but its price has no fee for that (webSearch or request)',
    ]);
    const { stdout: json } = await check(
      {
        providers: { openrouter: { baseURL: openrouter.baseURL, apiKey: 'k' } },
        models: { 'acme/*': at('openrouter/acme/*', '1', '2') },
      },
      '--no-completion',
      '--json',
    );
    expect(targetsIn(json)).toMatchObject([
      { model: 'acme/m', unpriced: expect.arrayContaining(['models that search']) as unknown },
    ]);
  });
});

describe('check of cache writes', () => {
  it('warns where they cost more than input, and the price has no more for them', async () => {
    const provider = await start(undefined);
    const price = { pricing: { input: '1', output: '2' }, maxOutputTokens: 10 };
    const names = ['gpt-5.6-x', 'gpt-6-x', 'openai/gpt-5.10', 'us.anthropic.claude-x', 'qwen-x'];
    const others = ['gpt-5.5-x', 'gpt-5-2026', 'gpt-35-turbo', 'gpt-4o', 'gpt-oss-6', 'my-model'];
    const models = Object.fromEntries(
      [...names, ...others].map((name) => [`m/${name}`, { ...price, targets: [`qwen/${name}`] }]),
    );
    const priced = {
      targets: ['qwen/gpt-5.6-y'],
      pricing: { ...price.pricing, cacheWriteInput: '1.25' },
      maxOutputTokens: 10,
    };
    const { stdout } = await check(
      {
        providers: { qwen: { preset: 'qwen', baseURL: provider.baseURL, apiKey: 'k' } },
        models: {
          ...models,
          priced,
          free: { targets: ['qwen/gpt-5.6-z'], pricing: 'free', maxOutputTokens: 10 },
        },
      },
      '--no-completion',
    );
    expect(endOf(stdout).filter((line) => line.includes('cacheWriteInput'))).toEqual(
      names.map(
        (name) =>
          `warning: m/${name} at qwen/${name} costs more than input where a prompt is written to a cache, but its price has no cacheWriteInput above input`,
      ),
    );
  });
});

describe('check of service tiers', () => {
  it.each(['openai', 'vercel'])('knows the tier ultrafast of %s', async (preset) => {
    const provider = await start(undefined);
    const { stdout } = await check(
      {
        providers: { p: { preset, baseURL: provider.baseURL, apiKey: 'k' } },
        models: {
          sold: {
            targets: ['p/m'],
            pricing: { input: '1', output: '2', serviceTiers: { ultrafast: { factor: '6' } } },
            maxOutputTokens: 10,
          },
        },
      },
      '--no-completion',
    );
    expect(stdout).not.toContain('ultrafast');
    const { stdout: other } = await check(
      {
        providers: { p: { preset, baseURL: provider.baseURL, apiKey: 'k' } },
        models: { unsold: at('p/m', '1', '2') },
      },
      '--no-completion',
    );
    expect(other).toContain('service tier ultrafast');
  });
});

describe('check of output limits', () => {
  const LISTED = { ...OPENROUTER, top_provider: { max_completion_tokens: 64_000 } };

  it('warns where a model writes more than its maxOutputTokens, unless that is inserted', async () => {
    const acme = await start([LISTED]);
    const price = { pricing: { input: '1', output: '1' } };
    const { code, stdout } = await check({
      providers: { acme: { baseURL: acme.baseURL } },
      models: {
        low: { targets: ['acme/m'], ...price, maxOutputTokens: 4096 },
        inserted: { targets: ['acme/m'], ...price, maxOutputTokens: 4096, enforceOutputLimit: 'insert' },
        right: { targets: ['acme/m'], ...price, maxOutputTokens: 64_000 },
      },
    });
    expect(code).toBe(0);
    expect(endOf(stdout)).toEqual([
      "warning: low at acme/m has maxOutputTokens 4096, but writes up to 64000 (from the provider's model list) without " +
        "a limit from the client; raise it, or set enforceOutputLimit: 'insert'",
      '1 warning',
    ]);
  });
});

describe('check of prices', () => {
  it.each([
    ['OpenRouter', OPENROUTER],
    ['Vercel', VERCEL],
  ])('warns of a price below that of a list as %s has it, and fails by --strict only', async (_, listed) => {
    const acme = await start([listed]);
    const config = {
      providers: { acme: { baseURL: acme.baseURL } },
      models: { chat: at('acme/m', '0.15', '0.59') },
    };
    const { code, stdout } = await check(config);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^acme +m +yes +\d+ ms +reported +\$0.15 \/ \$0.60 +LOSS +ok$/m);
    expect(endOf(stdout)).toEqual([
      'warning: chat at acme/m is charged below the bill: input 0.15, output 0.59; billed input 0.15, output 0.60 ' +
        "(USD per million tokens, from the provider's model list)",
      '1 warning',
    ]);
    expect((await check(config, '--strict')).code).toBe(1);
  });

  it('finds nothing wrong with a price that is what is billed, or more by its markup', async () => {
    const acme = await start([OPENROUTER]);
    const { code, stdout } = await check(
      {
        providers: { acme: { baseURL: acme.baseURL } },
        models: {
          same: at({ provider: 'acme', model: 'm', cost: { input: '0.15', output: '0.6' } }, '0.15', '0.6'),
          marked: { ...at('acme/m', '0.1', '0.4'), markup: { factor: '1.5' } },
        },
      },
      '--strict',
    );
    expect(stdout).toMatch(/^acme +m .* \$0.15 \/ \$0.60 +ok +ok$/m);
    expect([code, ...endOf(stdout)]).toEqual([0, 'no problems found']);
  });

  it('warns of a cost that is not what is billed, more or less', async () => {
    const acme = await start([OPENROUTER]);
    const { code, stdout } = await check({
      providers: { acme: { baseURL: acme.baseURL } },
      models: {
        chat: at({ provider: 'acme', model: 'm', cost: { input: '0.2', output: '0.6' } }, '1', '1'),
      },
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^acme +m .* cost differs +ok$/m);
    expect(endOf(stdout)).toEqual([
      'warning: chat at acme/m has a cost that differs from the bill: input 0.20, output 0.60; billed input 0.15, ' +
        "output 0.60 (USD per million tokens, from the provider's model list)",
      '1 warning',
    ]);
  });

  it('compares the other rates and tiers that the list tells of, and the fee of a request', async () => {
    const pricing = {
      prompt: '0.000001',
      completion: '0.000002',
      input_cache_write: '0.00000125',
      request: '0.01',
      overrides: [{ min_prompt_tokens: 200_001, prompt: '0.000004' }],
    };
    const acme = await start([{ id: 'm', pricing }]);
    const { stdout } = await check({
      providers: { acme: { baseURL: acme.baseURL } },
      models: { chat: at('acme/m', '1', '2') },
    });
    const said = endOf(stdout).map((line) => / below the bill: (.*) \(/.exec(line)?.[1]);
    expect(said).toEqual([
      'input 1.00, output 2.00, cacheWriteInput 1.00, a request 0.00; ' +
        'billed input 1.00, output 2.00, cacheWriteInput 1.25, a request 0.01',
      'prompts above 200000 tokens: input 1.00, output 2.00, cacheWriteInput 1.00, a request 0.00; ' +
        'billed input 4.00, output 2.00, cacheWriteInput 1.25, a request 0.01',
      undefined,
    ]);
  });

  it("goes by the config's own prices where the list has none, and says of a model that it is unknown", async () => {
    const acme = await start([{ id: 'm' }, { id: 'n' }]);
    const path = join(folder, 'c.mts');
    writeFileSync(
      path,
      `const find = ({ model }) => model === 'm' ? { pricing: { input: '3', output: '4' } } : undefined;
      const pricing = { input: '1', output: '5' };
      export default {
        store: 'memory:',
        prices: { find },
        providers: { acme: { baseURL: '${acme.baseURL}' } },
        models: {
          known: { targets: ['acme/m'], pricing, maxOutputTokens: 10 },
          other: { targets: ['acme/n'], pricing, maxOutputTokens: 10 },
          given: { targets: ['acme/n'], pricing: 'free' },
        },
      };`,
    );
    const { code, stdout } = await runCli(['check', '--config', path, '--json']);
    expect(code).toBe(0);
    expect(targetsIn(stdout)).toEqual([
      expect.objectContaining({
        model: 'm',
        billed: { source: 'catalog', input: '3.00', output: '4.00' },
        prices: [{ model: 'known', charged: { input: '1.00', output: '5.00' }, verdict: 'loss' }],
        warnings: [
          'known at acme/m is charged below the bill: input 1.00, output 5.00; billed input 3.00, output 4.00 ' +
            "(USD per million tokens, from the config's prices)",
        ],
      }),
      expect.not.objectContaining({ billed: expect.anything(), warnings: expect.anything() }),
    ]);
    expect(targetsIn(stdout)[1]).toMatchObject({
      model: 'n',
      prices: [
        { model: 'other', charged: { input: '1.00', output: '5.00' } },
        { model: 'given', charged: 'free' },
      ],
    });
  });

  it.each([
    ['catalog', { prices: 'catalog' }],
    ['package', {}],
  ])('asks the %s where a provider lists no prices', async (source, prices) => {
    const openai = await start([{ id: 'gpt-4o-mini' }]);
    const { code, stdout } = await check(
      {
        ...prices,
        providers: { openai: { baseURL: openai.baseURL, apiKey: 'sk-of-openai' } },
        models: {
          chat: at('openai/gpt-4o-mini', '0.01', '9'),
          free: { targets: ['openai/gpt-4o-mini'], pricing: 'free' },
        },
      },
      '--json',
    );
    expect(code).toBe(0);
    expect(targetsIn(stdout)).toMatchObject([
      {
        billed: { source, input: '0.15', output: '0.60' },
        prices: [
          { model: 'chat', verdict: 'loss' },
          { model: 'free', verdict: 'free' },
        ],
      },
    ]);
  });

  it('does without the package where it is not installed', async () => {
    const openai = await start([{ id: 'gpt-4o-mini' }]);
    const absent = join(folder, 'absent.mjs');
    writeFileSync(
      absent,
      `import { registerHooks } from 'node:module';
      registerHooks({ resolve: (name, context, next) => next(name.replace('@pydantic/', '@nobody/'), context) });`,
    );
    const installed = await check({
      providers: { openai: { baseURL: openai.baseURL, apiKey: 'sk-of-openai' } },
      models: { chat: at('openai/gpt-4o-mini', '0.01', '9') },
    });
    expect(installed.stdout).toMatch(/ LOSS +ok$/m);
    const { stdout } = await runCli(['check', '--config', join(folder, 'c.json')], {
      flags: ['--import', absent],
    });
    expect(stdout).toMatch(/^openai +gpt-4o-mini .* unknown +ok$/m);
    expect(endOf(stdout)).toEqual(['no problems found']);
  });

  it('asks one model of an entry with a star, and one that is discovered, and says for what', async () => {
    const acme = await start([
      { id: 'small' },
      { id: 'gpt-image-1' },
      { id: 'gpt-own' },
      { id: 'gpt-a', pricing: { prompt: '0.000002', completion: '0.000002' } },
      { id: 'gpt-b', pricing: { prompt: '0.000002', completion: '0.000002' } },
    ]);
    const zeta = await start([{ id: 'z1', pricing: { prompt: '0.000001', completion: '0.000001' } }]);
    const { code, stdout } = await check({
      providers: {
        acme: { baseURL: acme.baseURL },
        zeta: { baseURL: zeta.baseURL, models: { maxOutputTokens: 10, markup: { factor: '2' } } },
      },
      models: {
        'a/own': { targets: ['acme/gpt-own'], pricing: 'free' },
        'a/*': at('acme/gpt-*', '1', '2'),
        'none/*': at('acme/none-*', '1', '2'),
        also: { targets: ['acme/gpt-a'], pricing: 'free' },
      },
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^acme +gpt-own +yes .* ok$/m);
    expect(stdout).toMatch(/^acme +gpt-a \(for a\/\*\) +yes .* \$2.00 \/ \$2.00 +LOSS +ok$/m);
    expect(stdout).toMatch(/^acme +none-\* \(for none\/\*\) +skipped$/m);
    expect(stdout).toMatch(/^zeta +z1 \(for discovered\) +yes .* \$1.00 \/ \$1.00 +ok +ok$/m);
    expect(acme.requests).toHaveLength(3);
    expect([askedOf(acme), askedOf(zeta)]).toEqual([new Set(['gpt-own', 'gpt-a']), new Set(['z1'])]);
    expect(endOf(stdout)).toEqual([
      expect.stringMatching(/^warning: a\/a at acme\/gpt-a is charged below the bill: input 1.00,/),
      'warning: acme lists no model with a known price that matches none/*',
      '2 warnings',
    ]);
  });

  it('shows no key that a list has as a model, and warns once of what several keys see', async () => {
    const key = 'sk-of-acme-secret';
    const acme = await start([{ id: `gpt-${key}` }, { ...OPENROUTER, id: 'gpt-m' }]);
    const { stdout } = await check(
      {
        providers: { acme: { baseURL: acme.baseURL, apiKeys: [key, 'sk-of-acme-another'] } },
        models: {
          'a/*': at('acme/gpt-*', '0.01', '1'),
        },
      },
      '--no-completion',
    );
    expect(stdout).not.toContain('secret');
    expect(stdout).toMatch(/^acme#1 +gpt-m .* LOSS +skipped$/m);
    expect(stdout).toMatch(/^acme#2 +gpt-m .* LOSS +skipped$/m);
    expect(endOf(stdout).at(-1)).toBe('1 warning');
    expect(askedOf(acme)).toEqual(new Set());
  });

  it('compares with a catalog as well where the list can not be had', async () => {
    const openai = await start(undefined);
    const { code, stdout } = await check({
      providers: { openai: { baseURL: openai.baseURL, apiKey: 'sk-of-openai' } },
      models: {
        chat: at('openai/gpt-4o-mini', '0.15', '0.60'),
        'o/*': { targets: ['openai/*'], pricing: 'free' },
      },
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^openai +gpt-4o-mini +\d+ ms +reported +\$0.15 \/ \$0.60 +/m);
    expect(stdout).toMatch(/^openai +\* \(for o\/\*\) +skipped$/m);
  });
});

describe('check of what has no price', () => {
  it('says which tiers of a target are not sold, and warns of prices of unknown tiers', async () => {
    const openai = await start([{ id: 'm' }]);
    const pricing = { input: '1', output: '1' };
    const cost = { ...pricing, cacheWriteInput: '1.25' };
    const { code, stdout } = await check(
      {
        providers: { openai: { baseURL: openai.baseURL, apiKey: 'k' } },
        models: {
          none: { targets: ['openai/m'], pricing: cost, maxOutputTokens: 10 },
          some: {
            targets: [{ provider: 'openai', model: 'n', cost }],
            pricing: { ...pricing, serviceTiers: { priority: { factor: '2' }, odd: { factor: '2' } } },
            maxOutputTokens: 10,
          },
          free: { targets: ['openai/o'], pricing: 'free' },
        },
      },
      '--no-completion',
    );
    expect(code).toBe(1); // n and o aren't listed.
    expect(stdout).toContain(
      '\nopenai has no price in the config for service tier priority, service tier flex, service tier scale, service tier ultrafast, ' +
        'cache writes for an hour, web_search_options (m). Such requests are rejected.\n' +
        'openai has no price in the config for service tier flex, service tier scale, service tier ultrafast, web_search_options (n). ' +
        'Such requests are rejected.\n',
    );
    expect(stdout).toContain(
      'some at openai/n has a price for the service tier odd, which openai is not known to offer\n',
    );
    expect(stdout).toContain(
      'some at openai/n has a price but no cost for the service tier priority, so the cost of its requests is unknown\n',
    );
  });

  it('goes by what is reported where that is the price: only its ceiling can be too low', async () => {
    const router = await start([OPENROUTER]);
    const { stdout } = await check({
      providers: { openrouter: { baseURL: router.baseURL, apiKey: 'k' } },
      models: {
        low: {
          targets: ['openrouter/m'],
          pricing: { reported: true, ceiling: { input: '0.1', output: '0.6' } },
          maxOutputTokens: 10,
        },
      },
    });
    expect(endOf(stdout)[0]).toBe(
      'warning: low at openrouter/m has a maximum price below the bill, so it holds too little: input 0.10, output 0.60; ' +
        "billed input 0.15, output 0.60 (USD per million tokens, from the provider's model list)",
    );
  });
});
