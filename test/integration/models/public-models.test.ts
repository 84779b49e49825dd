import { afterEach, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions } from '../../../src/index.ts';
import { type Gateway, startGateway } from '../../helpers/gateway.ts';

const FREE = { targets: ['loopback/x'], pricing: 'free' } as const;
const OPTIONS: Partial<ChatCompletionsRouterOptions> = {
  models: {
    'acme/fast': { ...FREE, aliases: ['fast'] },
    'acme/secret': FREE,
    tiny: FREE,
    'wild/*': { targets: ['loopback/*'], pricing: 'free' },
  },
};

let gateway: Gateway;

afterEach(() => gateway.close());

/** The status, with the IDs of the list or the code of the error. */
async function ask(path: string, key?: string, method = 'GET'): Promise<unknown[]> {
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(gateway.baseURL + path, { method, headers });
  const text = await response.text();
  const { id, data, error } = JSON.parse(text === '' ? '{}' : text);
  const list: { readonly id: string }[] | undefined = Array.isArray(data) ? data : undefined;
  return [response.status, list?.map((model) => model.id) ?? id ?? data?.id ?? error?.code];
}

describe('without publicModels', () => {
  it('the list needs a key', async () => {
    gateway = await startGateway(OPTIONS);
    expect(await ask('/models')).toEqual([401, 'missing_api_key']);
    expect(await ask('/models/tiny')).toEqual([401, 'missing_api_key']);
  });
});

describe('publicModels: true', () => {
  it('shows the list and its records without a key', async () => {
    gateway = await startGateway({ ...OPTIONS, publicModels: true });
    expect(await ask('/models')).toEqual([200, ['acme/fast', 'acme/secret', 'tiny']]);
    expect(await ask('/models?q=fast')).toEqual([200, ['acme/fast']]);
    expect(await ask('/models/tiny')).toEqual([200, 'tiny']);
    expect(await ask('/models/fast')).toEqual([200, 'acme/fast']);
    expect(await ask('/model/acme/fast')).toEqual([200, 'acme/fast']);
    expect(await ask('/models', undefined, 'HEAD')).toEqual([200, undefined]);
  });

  it('refuses a wrong key all the same', async () => {
    gateway = await startGateway({ ...OPTIONS, publicModels: true });
    for (const path of ['/models', '/models/tiny', '/model/acme/fast']) {
      expect(await ask(path, 'sk-ccr-unknown')).toEqual([401, 'invalid_api_key']);
      expect(await ask(path, '')).toEqual([401, 'missing_api_key']);
    }
  });

  it('shows a key what its policy allows', async () => {
    gateway = await startGateway({ ...OPTIONS, publicModels: true });
    const { key } = await gateway.router.keys.create({ account: 'acct', models: ['tiny'] });
    expect(await ask('/models', key)).toEqual([200, ['tiny']]);
    expect(await ask('/models/acme%2Ffast', key)).toEqual([404, 'model_not_found']);
  });

  it('opens nothing else, and makes no model of a wildcard', async () => {
    gateway = await startGateway({ ...OPTIONS, publicModels: true });
    expect(await ask('/credits')).toEqual([401, 'missing_api_key']);
    expect(await ask('/generation?id=x')).toEqual([401, 'missing_api_key']);
    expect(await ask('/chat/completions', undefined, 'POST')).toEqual([401, 'missing_api_key']);
    expect(await ask('/models', undefined, 'POST')).toEqual([401, 'missing_api_key']);
    expect(await ask('/nothing')).toEqual([401, 'missing_api_key']);
    expect(await ask('/models/wild/any')).toEqual([404, 'model_not_found']);
    expect(await ask('/models/wild/any', gateway.key)).toEqual([200, 'wild/any']);
  });

  it('has the router’s prices, and asks nothing of the host', async () => {
    const resolveMarkup = (): never => {
      throw new Error('there is no caller');
    };
    gateway = await startGateway({ ...OPTIONS, publicModels: true, resolveMarkup });
    expect(await ask('/models')).toEqual([200, ['acme/fast', 'acme/secret', 'tiny']]);
  });
});

describe('publicModels: a list', () => {
  it('hides all others', async () => {
    gateway = await startGateway({ ...OPTIONS, publicModels: ['fast', 't*'] });
    expect(await ask('/models')).toEqual([200, ['acme/fast', 'tiny']]);
    expect(await ask('/models/acme/fast')).toEqual([200, 'acme/fast']);
    expect(await ask('/models/acme/secret')).toEqual([404, 'model_not_found']);
    expect(await ask('/models/acme/secret', gateway.key)).toEqual([200, 'acme/secret']);
    expect(await ask('/models', gateway.key)).toEqual([200, ['acme/fast', 'acme/secret', 'tiny']]);
  });

  it.each([[[]], ['tiny'], [7], [null]])('is refused as %j', async (publicModels) => {
    gateway = await startGateway(OPTIONS);
    const options = { ...OPTIONS, publicModels: publicModels as string[] };
    await expect(startGateway(options)).rejects.toThrow(/^publicModels must be 1 to 100 model IDs/);
  });
});

describe('router.models', () => {
  it('has the records of GET /models', async () => {
    gateway = await startGateway(OPTIONS);
    const { data } = (await (await gateway.fetch('/models')).json()) as { data: unknown };
    expect(await gateway.router.models()).toEqual(data);
  });

  it('has what a caller may use, at its prices', async () => {
    gateway = await startGateway({
      models: {
        a: { targets: ['loopback/a'], pricing: { input: '1', output: '2' }, maxOutputTokens: 10 },
        b: FREE,
      },
      resolveMarkup: ({ account }) => (account === 'acme' ? { factor: '2' } : undefined),
    });
    const [model, ...others] = await gateway.router.models({ account: 'acme', models: ['a'] });
    expect(others).toEqual([]);
    expect(model?.pricing).toMatchObject({ input: '0.000002', output: '0.000004' });
    expect((await gateway.router.models())[0]?.pricing).toMatchObject({ input: '0.000001' });
    await expect(gateway.router.models({ account: 'a b' })).rejects.toThrow(TypeError);
  });
});
