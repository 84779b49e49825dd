import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { type Gateway, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { completionBody, type Script } from '../../helpers/provider.ts';

/** Puts whatever it was sent into every header that clients get to see, and into its body. */
function echo(status: number, pieces: number): Script {
  return async (response, { headers }) => {
    const seen = JSON.stringify(headers);
    const names = [
      'x-request-id',
      'retry-after',
      'retry-after-ms',
      'openai-processing-ms',
      'set-cookie',
      'x-debug',
    ];
    response.writeHead(status, {
      'content-type': 'application/json',
      location: `/?key=${headers.authorization}`,
      ...Object.fromEntries(names.map((name) => [name, seen])),
    });
    const body = JSON.stringify({
      error: { message: `You sent ${seen} and ${PROVIDER_KEY}${PROVIDER_KEY}.` },
    });
    const length = Math.ceil(body.length / pieces);
    for (let at = 0; at < body.length; at += length) {
      await new Promise((resolve) => response.write(body.slice(at, at + length), resolve));
    }
    response.end();
  };
}

describe('a provider that shows what it was sent', () => {
  let gateway: Gateway;
  let logged: string;

  beforeEach(async () => {
    logged = '';
    for (const method of ['log', 'warn', 'error'] as const) {
      vi.spyOn(console, method).mockImplementation(
        (...said: unknown[]) => void (logged += said.map(String).join()),
      );
    }
    gateway = await startGateway({ retries: false });
  });

  afterEach(async () => {
    await gateway.close();
    vi.restoreAllMocks();
  });

  it.each([302, 400, 401, 403, 404, 422, 429, 500, 503])(
    'shows no client its key, by a %i',
    async (status) => {
      for (const pieces of [1, 7, 400]) {
        gateway.provider.script = echo(status, pieces);
        const response = await gateway.post(QUESTION, { redirect: 'manual' });
        const text = await response.text();
        expect([...response.headers].join() + text).not.toContain(PROVIDER_KEY);
        if (status === 400) expect(text).toContain(`and ${'*'.repeat(2 * PROVIDER_KEY.length)}."`);
        expect(() => JSON.parse(text) as unknown).not.toThrow();
      }
      expect(gateway.errors.map((error) => `${error.stack} ${JSON.stringify(error)}`).join()).not.toContain(
        PROVIDER_KEY,
      );
      expect(JSON.stringify(gateway.settled) + logged).not.toContain(PROVIDER_KEY);
    },
  );

  it('shows no client its key in the headers of a good answer', async () => {
    gateway.provider.script = (response, { headers }) => {
      response
        .writeHead(200, { 'content-type': 'application/json', 'x-request-id': headers.authorization })
        .end(completionBody());
    };
    const response = await gateway.post(QUESTION);
    expect(response.headers.get('x-upstream-request-id')).toBeNull();
    expect(await response.text()).toBe(completionBody());
  });

  it('may say a word that is a key and no secret', async () => {
    const other = await startGateway({ provider: { apiKey: 'ollama' }, retries: false });
    other.provider.script = (response) => response.writeHead(400).end('{"error":"ollama says no"}');
    expect(await (await other.post(QUESTION)).text()).toBe('{"error":"ollama says no"}');
    await other.close();
  });
});
