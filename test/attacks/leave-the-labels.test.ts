import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { clientsOf, type Gateway, PRICING, QUESTION, startGateway } from '../helpers/gateway.ts';
import { answerJson, type Provider, startProvider } from '../helpers/provider.ts';

const BUSY = answerJson('{"error":{"message":"busy"}}', 503);

let us: Provider;
let eu: Provider;
let gateway: Gateway;
let post: Gateway['post'];

beforeEach(async () => {
  [us, eu] = await Promise.all([startProvider(), startProvider()]);
  gateway = await startGateway({
    clientRouting: true,
    sessions: { secret: 'a secret of at least 32 characters' },
    providers: {
      us: { baseURL: us.baseURL, apiKey: 'sk-us' },
      eu: { baseURL: eu.baseURL, apiKey: 'sk-eu' },
    },
    models: {
      'acme/fast': {
        targets: [
          { provider: 'us', model: 'fast', labels: { region: 'us' } },
          { provider: 'eu', model: 'fast', labels: { region: 'eu' } },
        ],
        aliases: ['fast'],
        pricing: PRICING,
        maxOutputTokens: 1000,
      },
      'acme/plain': { targets: ['us/plain'], pricing: PRICING, maxOutputTokens: 1000 },
      'any/*': { targets: ['us/*'], pricing: PRICING, maxOutputTokens: 1000 },
    },
  });
  const { key } = await gateway.router.keys.create({ account: 'acct', require: { region: 'eu' } });
  post = clientsOf(gateway.baseURL, key).post;
});

afterEach(async () => {
  expect(us.received).toEqual([]);
  expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  await gateway.close();
  await Promise.all([us.close(), eu.close()]);
});

describe('a target that the labels of a key exclude is never asked', () => {
  it.each<[string, object]>([
    ['by its name', { provider: { only: ['us'] } }],
    ['by order', { provider: { order: ['us'], allow_fallbacks: false } }],
    ['by ignoring the others', { provider: { ignore: ['eu'] } }],
    ['by another requirement', { provider: { require: { region: 'us' } } }],
    ['by a list of requirements', { provider: { require: { region: ['eu', 'us'] } } }],
    ['by loosening', { provider: { zdr: false, data_collection: 'allow', require: {} } }],
    ['by the first one alone', { provider: { allow_fallbacks: false } }],
    ['by a list of models', { models: ['acme/plain'] }],
    ['by a model without labels', { model: 'acme/plain' }],
    ['by a model of a wildcard', { model: 'any/thing', models: ['any/other'] }],
    ['by a list with a model of a wildcard', { models: ['any/thing'] }],
    ['by another name', { model: 'fast', models: ['acme/plain', 'fast'] }],
    ['by extra_body', { extra_body: { provider: { only: ['us'] } } }],
    ['by a suffix', { model: 'acme/fast:floor' }],
    ['by a suffix of another name', { model: 'fast:nitro' }],
    ['by a suffix of a model without labels', { model: 'acme/plain:nitro' }],
    ['by a suffix in a list', { models: ['acme/plain:nitro', 'acme/fast:floor'] }],
    ['by a suffix of a wildcard', { model: 'any/thing:floor' }],
    ['by a price', { provider: { sort: 'price' } }],
    [
      'by a price over all models',
      { models: ['acme/plain'], provider: { sort: { by: 'price', partition: 'none' } } },
    ],
    ['by a speed that nobody has measured', { provider: { sort: 'throughput', allow_fallbacks: false } }],
    ['by an order before a price', { provider: { order: ['us'], sort: 'price' } }],
    ['in the words of another gateway', { providerOptions: { gateway: { only: ['us'], sort: 'tps' } } }],
    [
      'by labels that are false in these words',
      { providerOptions: { gateway: { zeroDataRetention: false } } },
    ],
    ['by parameters', { provider: { require_parameters: true, order: ['us'] } }],
  ])('%s', async (_name, body) => {
    eu.script = BUSY;
    expect((await post({ ...QUESTION, ...body })).status).not.toBe(200);
  });

  it.each<[string, object]>([
    ['a suffix', { model: 'acme/fast:floor' }],
    ['a suffix of another name', { model: 'fast:nitro' }],
    ['a price', { provider: { sort: 'price' } }],
    ['the words of another gateway', { providerOptions: { gateway: { order: ['us'], sort: 'tps' } } }],
  ])('nor with %s, which is followed among those that are left', async (_name, body) => {
    expect((await post({ ...QUESTION, ...body })).status).toBe(200);
    expect(eu.received).toHaveLength(1);
  });

  it('nor shown', async () => {
    const { key } = await gateway.router.keys.create({ account: 'acct', require: { region: 'eu' } });
    const { fetch: ask } = clientsOf(gateway.baseURL, key);
    const shown = await (await ask('/models/acme/fast/endpoints')).text();
    expect(shown).toContain('"eu"');
    expect(shown).not.toContain('"us"');
  });

  it('also when all others fail', async () => {
    eu.script = BUSY;
    for (let n = 0; n < 8; n++) expect((await post(QUESTION)).status).toBe(503);
  });

  it('nor with a session whose account requires them', async () => {
    await gateway.router.accounts.update('acct', { require: { region: 'eu' } });
    const { session } = gateway.router.sessions.create({
      account: 'acct',
      maxSpend: '1.00',
      ttlMs: 60_000,
      origins: ['https://chat.example.com'],
      require: { region: ['us', 'eu'] },
    });
    const own = clientsOf(gateway.baseURL, session);
    expect((await own.post(QUESTION)).status).toBe(200);
    expect((await own.post({ ...QUESTION, provider: { only: ['us'] } })).status).toBe(400);
  });
});
