import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, type Provider, startProvider } from '../../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy"}}', 503);
const NAMES = ['plain', 'tools', 'dropping', 'unknown'] as const;
const TOOLS = [{ type: 'function', function: { name: 'weather' } }];
const SCHEMA = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } };

let providers: Readonly<Record<(typeof NAMES)[number], Provider>>;
let gateway: Gateway;

beforeEach(async () => {
  const [plain, tools, dropping, unknown] = await Promise.all([
    startProvider(BUSY),
    startProvider(BUSY),
    startProvider(BUSY),
    startProvider(BUSY),
  ]);
  providers = { plain, tools, dropping, unknown };
  const supportedParameters = ['tools', 'seed', 'reasoning', 'structured_outputs', 'temperature'];
  gateway = await startGateway({
    clientRouting: true,
    retries: { perTarget: 0 },
    providers: Object.fromEntries(
      NAMES.map((name) => [name, { baseURL: providers[name].baseURL, apiKey: `sk-${name}` }]),
    ),
    models: {
      'acme/fast': {
        targets: [
          { provider: 'plain', model: 'm', supportedParameters: ['temperature', 'response_format'] },
          { provider: 'tools', model: 'm' },
          { provider: 'dropping', model: 'm', body: { drop: ['seed'], set: { temperature: 1 } } },
        ],
        supportedParameters,
        pricing: PRICING,
        maxOutputTokens: 1000,
      },
      'acme/new': { targets: ['unknown/m'], pricing: PRICING, maxOutputTokens: 1000 },
    },
    modelInfo: {
      find: ({ provider }) => (provider === 'plain' ? { supportedParameters: ['top_k'] } : undefined),
    },
  });
});

afterEach(async () => {
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
  for (const provider of Object.values(providers)) await provider.close();
});

/** Who is asked, in order of trying. */
async function asked(fields: object, provider: object = { require_parameters: true }): Promise<string[]> {
  const response = await gateway.post({ ...QUESTION, ...fields, provider });
  expect([404, 503]).toContain(response.status);
  await response.text();
  return NAMES.filter((name) => providers[name].received.length > 0);
}

describe('require_parameters', () => {
  it.each<[string, object, string[]]>([
    ['no parameters', {}, ['plain', 'tools', 'dropping']],
    ['what each target takes', { max_tokens: 5, user: 'ada', metadata: {} }, ['plain', 'tools', 'dropping']],
    ['parameters that are null', { tools: null, seed: null }, ['plain', 'tools', 'dropping']],
    ['tools', { tools: TOOLS }, ['tools', 'dropping']],
    ['a parameter that a target drops', { seed: 5 }, ['tools']],
    ['a parameter that a target sets itself', { temperature: 0 }, ['plain', 'tools']],
    ['all of several', { temperature: 0, tools: TOOLS }, ['tools']],
    ['a reasoning effort', { reasoning_effort: 'low' }, ['tools', 'dropping']],
    ['JSON', { response_format: { type: 'json_object' } }, ['plain']],
    ['a schema', { response_format: SCHEMA }, ['tools', 'dropping']],
    ['what nobody takes', { top_k: 5 }, []],
    ['what nobody knows', { guided_choice: ['a'] }, []],
    ['settings within settings', { extra_body: { seed: 5 } }, []],
  ])('asks with %s only targets that take it', async (_name, fields, expected) => {
    expect(await asked(fields)).toEqual(expected);
  });

  it('excludes a target of which nothing is known', async () => {
    expect(await asked({ model: 'acme/new', seed: 5 })).toEqual([]);
    expect(await asked({ model: 'acme/new', max_tokens: 5 })).toEqual(['unknown']);
  });

  it('is off by default', async () => {
    expect(await asked({ seed: 5, top_k: 5 }, { require_parameters: false })).toEqual([
      'plain',
      'tools',
      'dropping',
    ]);
  });

  it('says what excluded whom', async () => {
    const provider = { require_parameters: true, ignore: [] };
    const response = await gateway.post({ ...QUESTION, seed: 5, top_k: 5, provider });
    expect(response.status).toBe(404);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('no_matching_target');
    expect(error.message).toContain('"seed"');
    expect(error.message).toContain('excludes 2 of 3 (plain, dropping)');
    expect(error.message).toContain('excludes 3 of 3 (plain, tools, dropping)');
  });

  it('is a 400 where it is no boolean', async () => {
    const response = await gateway.post({ ...QUESTION, provider: { require_parameters: 'yes' } });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: 'provider.require_parameters' } });
  });

  it('bounds what it says of a thousand long names', async () => {
    const fields = Object.fromEntries(
      Array.from({ length: 1000 }, (_, n) => [`${'y'.repeat(900)}${n}`, n] as const),
    );
    const body = { ...QUESTION, ...fields, provider: { require_parameters: true } };
    const response = await gateway.post(body);
    expect(response.status).toBe(404);
    expect((await response.text()).length).toBeLessThan(3000);
  });
});
