import * as net from 'node:net';

import { describe, expect, it } from 'vitest';

import { endpointFinder, findEndpoint } from '../../../src/router/routes.ts';
import { startGateway } from '../../helpers/gateway.ts';

describe('a path', () => {
  it.each([
    ['/models', 'models'],
    ['/v1/models', 'models'],
    ['/api/v1/models/', 'models'],
    ['/v1/models?limit=1', 'models'],
    ['/v1/credits', 'credits'],
    ['/v1//credits', 'credits'],
    ['/chat/completions', 'completions'],
    ['/some/where/else/chat/completions/', 'completions'],
    ['http://gateway.example/v1/chat/completions?a=b', 'completions'],
    ['http://models/v1/credits', 'credits'],
    ['/v1/key', 'key'],
    ['/v1/auth/key/', 'key'],
    ['/usage?from=2026-11-01', 'usage'],
    ['/v1/activity', 'usage'],
    ['/v1/report', 'usage'],
    ['/usage/v1/models', 'models'],
    ['/key/v1/chat/completions', 'completions'],
  ])('%s stands for %s', (url, name) => {
    expect(findEndpoint(url, '')).toEqual({ name });
  });

  it.each([
    ['/v1/models/gpt', 'gpt'],
    ['/v1/models/openai/gpt-4o', 'openai/gpt-4o'],
    ['/v1/models/openai%2Fgpt-4o', 'openai/gpt-4o'],
    ['/v1/models/openai%2Fgpt-4o/', 'openai/gpt-4o'],
    ['/v1/models/a/models/b', 'a/models/b'],
    ['/v1/models/chat/completions', 'chat/completions'],
    ['/v1/models/a%252Fb', 'a%2Fb'],
    ['/v1/models/%E0%A4%A', '%E0%A4%A'],
    ['/v1/models/meta@v1:free?x=1', 'meta@v1:free'],
  ])('%s stands for the model %s', (url, id) => {
    expect(findEndpoint(url, '')).toEqual({ name: 'model', id });
  });

  it.each([
    ['/model/openai/gpt-4o', 'openai/gpt-4o'],
    ['/v1/model/openai/gpt-4o?x=1', 'openai/gpt-4o'],
    ['/v1/model/openrouter/meta%2Fllama', 'openrouter/meta/llama'],
    ['/v1/model/openai/gpt-4o/', 'openai/gpt-4o'],
    ['/v1/model/acme/usage', 'acme/usage'],
  ])('%s stands for the model %s as OpenRouter answers it', (url, id) => {
    expect(findEndpoint(url, '')).toEqual({ name: 'model', id, inData: true });
  });

  it.each([
    ['/model/v1/models', 'models'],
    ['/model/acme/credits', 'credits'],
    ['/model/v1/chat/completions', 'completions'],
  ])('%s stands for %s: a mount may have the word "model" in it', (url, name) => {
    expect(findEndpoint(url, '')).toEqual({ name });
  });

  it.each([
    '/',
    '',
    '*',
    '/v1',
    '/v1/responses',
    '/v1/chat',
    '/v1/completions',
    '/v1/chat/completions/extra',
    '/v1/credits/extra',
    '/v1/Models',
    '/v1/chat%2Fcompletions',
    '/v1/chat/./completions',
    '/v1/embeddings',
    '/v1/model',
    '/v1/model/gpt',
    '/v1/model/openai/',
    '/v1/model/openai/gpt-4o/endpoints',
  ])('%s stands for nothing', (url) => {
    expect(findEndpoint(url, '')).toBeUndefined();
  });

  it('may begin with a mount that holds these words, if basePath names it', () => {
    expect(findEndpoint('/models/v1/credits', '/models/v1')).toEqual({ name: 'credits' });
    expect(findEndpoint('/credits', '/models/v1')).toEqual({ name: 'credits' });
  });
});

describe('endpointFinder', () => {
  it('finds what findEndpoint finds, whatever it found before', () => {
    const urls = ['/v1/chat/completions', '/v1/credits', '/v1/chat/completions?a', '/v1/models', '/nothing'];
    const find = endpointFinder('/v1');
    for (const url of [...urls, ...urls.toReversed()]) {
      expect(find(url)).toEqual(findEndpoint(url, '/v1'));
    }
  });
});

describe('whatever shape a request has', () => {
  it('reaches no provider and leaves no hold, unless it is the one endpoint that is metered', async () => {
    const gateway = await startGateway();
    const port = Number(new URL(gateway.baseURL).port);
    const methods = ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'POST'];
    const paths = [
      '',
      '/',
      '//',
      '/v1',
      '/v1/',
      '/v1/models',
      '/v1/chat',
      '/v1/chat/completions',
      '/v1/credits',
    ];
    const ends = ['', '/', '//', '?x=1', '/../admin', '/%2e%2e/', '/x', '%00', ';jsessionid=1', '/responses'];
    const requests = methods.flatMap((method) =>
      paths.flatMap((path) => ends.map((end) => ({ method, url: path + end }))),
    );
    expect(requests.length).toBeGreaterThan(500);

    const metered = requests.filter(
      ({ method, url }) => method === 'POST' && findEndpoint(url, '')?.name === 'completions',
    );
    for (const { method, url } of requests) {
      if (metered.some((one) => one.method === method && one.url === url)) continue;
      await rawRequest(port, `${method} ${url || '/'} HTTP/1.1`, gateway.key);
    }
    expect(gateway.provider.received).toHaveLength(0);
    expect(await gateway.router.credits.balance('acct')).toMatchObject({ balance: '5.00', held: '0.00' });
    await gateway.close();
  });

  it('is unknown, and no model of the wrong method, under a mount with the word "model" in it', async () => {
    const gateway = await startGateway();
    const { origin } = new URL(gateway.baseURL);
    const headers = { authorization: `Bearer ${gateway.key}` };
    const response = await fetch(`${origin}/api/model/v1/embeddings`, { method: 'POST', headers });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: 'unknown_endpoint' } });
    await gateway.close();
  });

  it('answers a preflight without a key', async () => {
    const gateway = await startGateway();
    const response = await fetch(`${gateway.baseURL}/chat/completions`, { method: 'OPTIONS' });
    expect(response.status).toBe(204);
    expect(response.headers.get('allow')).toBe('POST, OPTIONS');
    await gateway.close();
  });

  it('answers HEAD like GET, without a body', async () => {
    const gateway = await startGateway();
    const response = await gateway.fetch('/models', { method: 'HEAD' });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('');
    await gateway.close();
  });
});

/** One request with a small chat completion as its body, sent as it is; resolves when it was answered. */
function rawRequest(port: number, line: string, key: string): Promise<void> {
  const body = '{"model":"acme/fast","messages":[]}';
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.end(
        `${line}\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
      );
    });
    socket.once('data', (answer) => {
      socket.destroy();
      if (answer.toString().startsWith('HTTP/1.1 5')) reject(new Error(`${line}: ${answer.toString()}`));
      else resolve();
    });
    socket.once('error', reject);
  });
}
