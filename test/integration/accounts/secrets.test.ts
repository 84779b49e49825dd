import { setImmediate as turn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { FAST_MODEL, type Gateway, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, DONE, type Script, text } from '../../helpers/provider.ts';

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

  describe('in an error inside of a good answer', () => {
    const error = JSON.stringify({ error: { message: `Not with ${PROVIDER_KEY}, ${PROVIDER_KEY}!` } });
    const shown = error.replaceAll(PROVIDER_KEY, '*'.repeat(PROVIDER_KEY.length));

    /** Each of these pieces arrives by itself. */
    function inPieces(type: string, pieces: readonly string[]): Script {
      return async (response) => {
        response.writeHead(200, { 'content-type': type });
        for (const piece of pieces) {
          await new Promise((resolve) => response.write(piece, resolve));
          await turn();
        }
        response.end();
      };
    }

    /** Cut in the middle of the key, and behind its first letter. */
    const cut = (text: string): string[] => text.split(/(?<=sk-provi|, s)/);

    it('shows no client its key, by a whole JSON', async () => {
      gateway.provider.script = answerJson(error);
      expect(await (await gateway.post(QUESTION)).text()).toBe(shown);
    });

    it('shows no client its key, by JSON in pieces', async () => {
      gateway.provider.script = inPieces('application/json', cut(error));
      expect(await (await gateway.post(QUESTION)).text()).toBe(shown);
    });

    it('shows no client its key, by an error that is a text', async () => {
      const plain = JSON.stringify({ error: `Not with ${PROVIDER_KEY}, ${PROVIDER_KEY}!` });
      const hidden = plain.replaceAll(PROVIDER_KEY, '*'.repeat(PROVIDER_KEY.length));
      gateway.provider.script = inPieces('application/json', cut(plain));
      expect(await (await gateway.post(QUESTION)).text()).toBe(hidden);
      const asked = { ...QUESTION, stream: true, stream_options: { include_usage: true } };
      const pieces = [...cut(`${text('Hello')}data: ${plain}`), '\n\n'];
      gateway.provider.script = inPieces('text/event-stream', pieces);
      expect(await (await gateway.post(asked)).text()).toContain(`data: ${hidden}\n\n`);
    });

    it.each([true, false])('shows no client its key, by an event; usage is asked for: %s', async (usage) => {
      const asked = { ...QUESTION, stream: true, stream_options: { include_usage: usage } };
      for (const before of ['', text('Hello')]) {
        const stream = `${before}data: ${error}\n\n`;
        gateway.provider.script = inPieces('text/event-stream', cut(stream));
        const got = await (await gateway.post(asked)).text();
        expect(got).toContain(`${before}data: ${shown}\n\n`);
      }
    });

    it('sends what only begins like the key, and ends there', async () => {
      const stream = `event: error\ndata: Not with ${PROVIDER_KEY.slice(0, 4)}`;
      gateway.provider.script = inPieces('text/event-stream', [stream]);
      expect(await (await gateway.post({ ...QUESTION, stream: true })).text()).toBe(stream);
    });

    it('shows no operator its key, by a hook or the list of providers', async () => {
      const apiKey = 'a-secret-of-no-usual-form';
      const said = JSON.stringify({ error: { message: `Not with ${apiKey}` } });
      const targets = ['loopback/one', 'loopback/two'];
      const other = await startGateway({
        provider: { apiKey },
        models: { 'acme/fast': { ...FAST_MODEL, targets } },
      });
      other.provider.script = answerJson(said);
      await (await other.post(QUESTION)).text();
      expect(other.errors).toMatchObject([{ cause: { message: 'Not with ***' } }]);
      const [{ errors } = {}] = other.router.providers.list();
      expect(errors?.map(({ model, message }) => [model, message])).toEqual([
        ['two', 'Not with ***'],
        ['one', 'Not with ***'],
      ]);
      await other.close();
    });

    it('leaves a completion as it is', async () => {
      const stream = text(`I am ${PROVIDER_KEY}`) + text('.', 'stop') + DONE;
      gateway.provider.script = inPieces('text/event-stream', cut(stream));
      expect(await (await gateway.post({ ...QUESTION, stream: true })).text()).toBe(stream);
    });
  });

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
