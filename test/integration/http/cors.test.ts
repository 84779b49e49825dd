import { describe, expect, it, onTestFinished } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerStream, STREAM } from '../../helpers/provider.ts';

const PAGE = 'https://chat.example.com';

async function start(cors?: Parameters<typeof createChatCompletionsRouter>[0]['cors']): Promise<Gateway> {
  const gateway = await startGateway(cors === undefined ? {} : { cors });
  onTestFinished(() => gateway.close());
  return gateway;
}

/** What a browser asks before it sends a page's request. */
function ask(gateway: Gateway, origin: string): Promise<Response> {
  return fetch(`${gateway.baseURL}/chat/completions`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,x-stainless-lang',
    },
  });
}

describe('a page of another origin', () => {
  it('is kept out by browsers, unless the host lets it in', async () => {
    const gateway = await start();
    const { status, headers } = await ask(gateway, PAGE);
    expect(status).toBe(204);
    expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
  });

  it('is answered without a key that it may send what client libraries send', async () => {
    const gateway = await start(true);
    const { status, headers } = await ask(gateway, PAGE);
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('access-control-allow-methods')).toBe('POST, OPTIONS');
    expect(headers.get('access-control-allow-headers')).toBe('authorization,content-type,x-stainless-lang');
    expect(headers.get('access-control-max-age')).toBe('600');
  });

  it('may read a stream, and the ids and waits in its head', async () => {
    const gateway = await start(true);
    gateway.provider.script = answerStream(STREAM);
    const response = await gateway.post({ ...QUESTION, stream: true }, { headers: { origin: PAGE } });
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
    expect(response.headers.get('access-control-expose-headers')).toContain('x-request-id');
    expect(await response.text()).toContain('[DONE]');
  });

  it('may read an error, which says why', async () => {
    const gateway = await start(true);
    const response = await fetch(`${gateway.baseURL}/models`, { headers: { origin: PAGE } });
    expect(response.status).toBe(401);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  it('is let in by name, and caches are informed that others are not', async () => {
    const gateway = await start({ origins: [PAGE], maxAgeSeconds: 60 });
    const named = await ask(gateway, PAGE);
    expect(named.headers.get('access-control-allow-origin')).toBe(PAGE);
    expect(named.headers.get('access-control-max-age')).toBe('60');
    expect(named.headers.get('vary')).toBe('origin');
    const other = await ask(gateway, 'https://evil.example');
    expect(other.headers.get('access-control-allow-origin')).toBeNull();
    expect(other.headers.get('vary')).toBe('origin');
  });

  it('is let in at the fetch handler too', async () => {
    const { router } = await start(true);
    const headers = { origin: PAGE, 'access-control-request-method': 'GET' };
    const response = await router.fetch(
      new Request('https://api.example/v1/models', { method: 'OPTIONS', headers }),
    );
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });

  it.each([['https://chat.example.com/'], ['chat.example.com'], ['*']])(
    'can not be named %s: that is no origin',
    (origin) => {
      const options = { store: 'memory:', providers: {}, models: {}, cors: { origins: [origin] } };
      expect(() => createChatCompletionsRouter(options)).toThrow(/cors\.origins/);
    },
  );
});
