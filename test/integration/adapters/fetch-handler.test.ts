import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setImmediate as turn } from 'node:timers/promises';

import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway, untilStill } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  DONE,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

const STREAMED = { ...QUESTION, stream: true };

describe('the fetch handler', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway({ maxBodyBytes: 1_000_000, bodyTimeoutMs: 300 });
  });

  afterEach(async () => {
    await gateway.close();
  });

  /** A request as a framework would hand it over. */
  function ask(path: string, init: RequestInit & { readonly duplex?: 'half' } = {}): Request {
    const headers = new Headers(init.headers);
    if (!headers.has('authorization')) headers.set('authorization', `Bearer ${gateway.key}`);
    return new Request(`http://app.example/v1${path}`, { ...init, headers });
  }

  function post(body: object | null, init: RequestInit = {}): Request {
    const given = body instanceof ReadableStream || body === null ? body : JSON.stringify(body);
    return ask('/chat/completions', { method: 'POST', body: given, duplex: 'half', ...init });
  }

  async function code(response: Response): Promise<string> {
    const { error } = (await response.json()) as { error: { code: string } };
    return error.code;
  }

  async function settledHolds(): Promise<string> {
    return (await gateway.router.credits.balance('acct')).held;
  }

  describe('with a request body', () => {
    it('reads one that comes in pieces, and sends it byte for byte', async () => {
      const body = `{"model":"acme/fast","seed":12345678901234567890,"messages":[],"e":"\\u00e9","é":1.0}`;
      const bytes = new TextEncoder().encode(body);
      const pieces = new ReadableStream({
        async start(controller) {
          for (const byte of bytes) {
            controller.enqueue(Uint8Array.of(byte));
            if (byte === 0x2c) await turn();
          }
          controller.close();
        },
      });
      expect((await gateway.router.fetch(post(pieces))).status).toBe(200);
      expect(String(gateway.provider.received[0]?.body)).toBe(body.replace('acme/fast', 'upstream-model'));
    });

    it.each(['bodyUsed', 'locked'])('says so when somebody has read it before: %s', async (how) => {
      const request = post(QUESTION);
      if (how === 'bodyUsed') await request.json();
      else request.body?.getReader();
      const response = await gateway.router.fetch(request);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: { code: 'truncated_body', message: expect.stringContaining('read a clone() of it') },
      });
    });

    it('refuses a POST without one', async () => {
      const response = await gateway.router.fetch(post(null));
      expect([response.status, await code(response)]).toEqual([400, 'invalid_json']);
    });

    it('refuses one that is shorter than its content-length, and names the setting of Next.js', async () => {
      const response = await gateway.router.fetch(
        post(QUESTION, { headers: { 'content-length': '11000000' } }),
      );
      expect(response.status).toBe(413);
      const short = await gateway.router.fetch(post(QUESTION, { headers: { 'content-length': '500000' } }));
      expect(short.status).toBe(413);
      expect(await short.text()).toContain('proxyClientMaxBodySize');
      expect(await settledHolds()).toBe('0.00');
      expect(gateway.provider.received).toHaveLength(0);
    });

    it('refuses one that grows beyond the limit, without a content-length', async () => {
      let sent = 0;
      const long = new ReadableStream({
        pull: (controller) => {
          controller.enqueue(new Uint8Array(65_536).fill(0x20));
          if (++sent === 64) controller.close();
        },
      });
      const response = await gateway.router.fetch(post(long));
      expect([response.status, await code(response)]).toEqual([413, 'request_too_large']);
    });

    it('gives one that does not go on its time, and no more', async () => {
      const stalled = new ReadableStream({
        start: (controller) => {
          controller.enqueue(new TextEncoder().encode('{"model":'));
        },
      });
      const response = await gateway.router.fetch(post(stalled));
      expect([response.status, await code(response)]).toEqual([408, 'request_timeout']);
    });

    it('refuses one that breaks off', async () => {
      const broken = new ReadableStream({
        start: (controller) => {
          controller.enqueue(new TextEncoder().encode('{"model":'));
          controller.error(new Error('reset'));
        },
      });
      const response = await gateway.router.fetch(post(broken));
      expect([response.status, await code(response)]).toEqual([400, 'truncated_body']);
    });

    it.each([
      [
        'SvelteKit',
        Object.assign(new Error('request body size exceeded'), { status: 413 }),
        'BODY_SIZE_LIMIT',
      ],
      ['Astro', new Error('Body size limit exceeded: received more than 9 bytes'), 'bodySizeLimit'],
    ])(
      "refuses one that is longer than %s takes, and names the host's setting",
      async (_host, error, setting) => {
        const broken = new ReadableStream({
          start: (controller) => {
            controller.error(error);
          },
        });
        const response = await gateway.router.fetch(post(broken));
        expect(response.status).toBe(413);
        expect(await response.json()).toMatchObject({
          error: { code: 'request_too_large', message: expect.stringContaining(setting) },
        });
      },
    );

    it("leaves an unauthenticated client's body alone", async () => {
      const request = post(QUESTION, { headers: { authorization: 'Bearer sk-nobody' } });
      expect((await gateway.router.fetch(request)).status).toBe(401);
      expect(request.bodyUsed).toBe(false);
      expect(await request.json()).toEqual(QUESTION);
    });
  });

  describe('answering', () => {
    it('gives the very headers of the Node handler', async () => {
      const requests: [string, RequestInit][] = [
        ['/models', {}],
        ['/models', { method: 'HEAD' }],
        ['/models/acme/none', {}],
        ['/models', { method: 'OPTIONS' }],
        ['/chat/completions', {}],
        ['/credits', {}],
        ['/nowhere', {}],
        ['/models', { headers: { authorization: 'Bearer sk-nobody' } }],
        ['/chat/completions', { method: 'POST', body: JSON.stringify(QUESTION) }],
        ['/chat/completions', { method: 'POST', body: JSON.stringify(STREAMED) }],
      ];
      const ownOfNode = ['connection', 'date', 'keep-alive', 'transfer-encoding'];
      const seen = async (response: Response): Promise<unknown> => {
        const body = await response.text();
        const headers = Object.fromEntries(response.headers);
        for (const name of ownOfNode) delete headers[name];
        expect(headers['x-request-id']).toMatch(/^[\da-z]{10,}$/);
        return { status: response.status, headers: { ...headers, 'x-request-id': '' }, body };
      };
      for (const [path, init] of requests) {
        const stream = init.body === JSON.stringify(STREAMED);
        if (stream) gateway.provider.script = answerStream(STREAM);
        const web = await seen(await gateway.router.fetch(ask(path, init)));
        const node = await seen(await gateway.fetch(path, init));
        expect(web, `${init.method ?? 'GET'} ${path}`).toEqual(node);
      }
    });

    it('gives a stream neither a content-length nor an encoding', async () => {
      gateway.provider.script = (response) => {
        const stream = STREAM.join('');
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-length': stream.length });
        response.end(stream);
      };
      const response = await gateway.router.fetch(post(STREAMED));
      expect(response.headers.get('content-length')).toBeNull();
      expect(response.headers.get('cache-control')).toBe('no-cache, no-transform');
      expect(await response.text()).toBe(STREAM.filter((piece) => piece !== USAGE_EVENT).join(''));
    });

    it.each([204, 205])('passes a status that can have no body: %i', async (status) => {
      gateway.provider.script = (response) => {
        response.writeHead(status).end();
      };
      const response = await gateway.router.fetch(post(QUESTION));
      expect([response.status, response.body]).toEqual([status, null]);
    });

    it('answers 502 for a status that no Web response can have', async () => {
      gateway.provider.script = answerJson('{}', 799);
      const response = await gateway.router.fetch(post(QUESTION));
      expect([response.status, await response.text()]).toEqual([502, '{}']);
    });

    it('is what the official client takes for fetch', async () => {
      gateway.provider.script = answerStream(STREAM);
      const client = new OpenAI({
        baseURL: 'http://app.example/v1',
        apiKey: gateway.key,
        fetch: (url, init) => gateway.router.fetch(new Request(url, init)),
      });
      let content = '';
      for await (const chunk of await client.chat.completions.create({ ...QUESTION, stream: true })) {
        content += chunk.choices[0]?.delta.content ?? '';
      }
      expect(content).toBe('Hello there.');
    });

    it('gives chunks that a host may take the memory of', async () => {
      gateway.provider.script = (response) => {
        beginStream(response);
        // Comes in one chunk, and goes on as two pieces of it, for what stood between them was ours.
        response.end(text('Hello') + USAGE_EVENT + text(' there') + DONE);
      };
      const response = await gateway.router.fetch(post(STREAMED));
      let received = '';
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array<ArrayBuffer>>) {
        received += Buffer.from(chunk).toString();
        structuredClone(chunk.buffer, { transfer: [chunk.buffer] });
      }
      expect(received).toBe(text('Hello') + text(' there') + DONE);
    });
  });

  describe('left by its client', () => {
    const hang = async (response: Parameters<typeof gateway.provider.script>[0]): Promise<void> => {
      beginStream(response);
      response.write(text('Hello there, dear reader.'));
    };

    it('asks no provider for a request that was aborted before it came', async () => {
      const response = await gateway.router.fetch(post(QUESTION, { signal: AbortSignal.abort() }));
      expect(response.status).toBe(499);
      expect(response.headers.get('x-request-id')).toMatch(/^[\da-z]{10,}$/);
      expect(gateway.provider.received).toHaveLength(0);
      expect(await settledHolds()).toBe('0.00');
    });

    it('reads no further in a body whose sender has left', async () => {
      let tell: () => void = () => {};
      const cancelled = new Promise<void>((resolve) => {
        tell = resolve;
      });
      const { promise: reading, resolve: isRead } = Promise.withResolvers<void>();
      let pulls = 0;
      const stalled = new ReadableStream({
        pull: (source) => {
          pulls += 1;
          if (pulls === 1) source.enqueue(new TextEncoder().encode('{"model":'));
          // Asked for more: the first piece was taken.
          else isRead();
        },
        cancel: tell,
      });
      const controller = new AbortController();
      const answered = gateway.router.fetch(post(stalled, { signal: controller.signal }));
      await reading;
      controller.abort();
      expect((await answered).status).toBe(499);
      await cancelled;
      await gateway.router.close();
      expect(gateway.errors).toEqual([]);
    });

    it('stops the provider before the head, and settles the promise at once', async () => {
      gateway.provider.script = () => {};
      const arrived = gateway.provider.next();
      const settled = gateway.nextSettled();
      const controller = new AbortController();
      const answered = gateway.router.fetch(post(QUESTION, { signal: controller.signal }));
      const request = await arrived;
      controller.abort();
      expect((await answered).status).toBe(499);
      await request.aborted;
      expect((await settled).ending).toBe('client_gone');
    });

    it('stops the provider when the signal fires in mid-stream, and errors the body', async () => {
      gateway.provider.script = hang;
      const settled = gateway.nextSettled();
      const controller = new AbortController();
      const response = await gateway.router.fetch(post(STREAMED, { signal: controller.signal }));
      const reader = response.body!.getReader();
      await reader.read();
      controller.abort(new Error('left'));
      await expect(reader.read()).rejects.toThrow('left');
      await gateway.provider.received[0]!.aborted;
      expect((await settled).ending).toBe('client_gone');
    });

    it('hears the signal also after the host has forgotten the request', async () => {
      setFlagsFromString('--expose-gc');
      const collect = runInNewContext('gc') as () => void;
      gateway.provider.script = hang;
      const controller = new AbortController();
      const response = await gateway.router.fetch(post(STREAMED, { signal: controller.signal }));
      const reader = response.body!.getReader();
      await reader.read();
      for (let i = 0; i < 5; i++) {
        await turn();
        collect();
      }
      controller.abort(new Error('left'));
      await expect(reader.read()).rejects.toThrow('left');
      await gateway.provider.received[0]!.aborted;
    });

    it('stops the provider when the reader cancels, which is no error to the host', async () => {
      gateway.provider.script = hang;
      const settled = gateway.nextSettled();
      const response = await gateway.router.fetch(post(STREAMED));
      const reader = response.body!.getReader();
      await reader.read();
      await reader.cancel();
      await gateway.provider.received[0]!.aborted;
      expect((await settled).ending).toBe('client_gone');
      expect(gateway.errors).toEqual([]);
    });

    it('ends a body quietly for a host that cancels it when the signal fires', async () => {
      gateway.provider.script = hang;
      const controller = new AbortController();
      const response = await gateway.router.fetch(post(STREAMED, { signal: controller.signal }));
      const reader = response.body!.getReader();
      await reader.read();
      const next = reader.read();
      controller.signal.addEventListener('abort', () => void reader.cancel());
      controller.abort(new Error('left'));
      expect(await next).toEqual({ done: true, value: undefined });
      await expect(reader.closed).resolves.toBeUndefined();
    });

    it.each(['signal', 'cancel'])('takes a stream that ends at [DONE] for finished: %s', async (how) => {
      gateway.provider.script = (response) => {
        beginStream(response);
        response.write(STREAM.join(''));
      };
      const settled = gateway.nextSettled();
      const controller = new AbortController();
      const response = await gateway.router.fetch(post(STREAMED, { signal: controller.signal }));
      const reader = response.body!.getReader();
      let received = '';
      while (!received.includes('[DONE]')) {
        const { value } = await reader.read();
        received += String(Buffer.from(value ?? []));
      }
      if (how === 'signal') controller.abort();
      else await reader.cancel();
      expect(await settled).toMatchObject({ ending: 'finished', charged: '0.000045' });
    });

    it('is not disturbed by a signal that fires after the end', async () => {
      gateway.provider.script = answerStream(STREAM);
      const settled = gateway.nextSettled();
      const controller = new AbortController();
      const response = await gateway.router.fetch(post(STREAMED, { signal: controller.signal }));
      expect((await settled).ending).toBe('finished');
      controller.abort();
      expect(await response.text()).toContain('[DONE]');
      expect(gateway.errors).toEqual([]);
    });
  });

  describe('read slowly', () => {
    it('stops the provider at a few MB, and goes on from there without losing a byte', async () => {
      const TOTAL = 64e6;
      const piece = text('x'.repeat(65_536));
      let sent = 0;
      gateway.provider.script = async (response) => {
        beginStream(response);
        while (!response.destroyed && sent < TOTAL) {
          sent += piece.length;
          if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
        }
        response.end(DONE);
      };
      const response = await gateway.router.fetch(post(STREAMED));
      const reader = response.body!.getReader();
      const before = process.memoryUsage();
      const stalledAt = await untilStill(gateway, () => sent);
      const after = process.memoryUsage();
      expect(stalledAt).toBeLessThan(16e6);
      expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(8e6);
      let received = 0;
      for (let part = await reader.read(); !part.done; part = await reader.read())
        received += part.value.length;
      expect(received).toBe(sent + DONE.length);
    });

    it('stops the provider when its reader leaves while it waits', async () => {
      const piece = text('x'.repeat(65_536));
      let sent = 0;
      gateway.provider.script = async (response) => {
        beginStream(response);
        while (!response.destroyed) {
          sent += 65_536;
          if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
        }
      };
      const response = await gateway.router.fetch(post(STREAMED));
      await untilStill(gateway, () => sent);
      await response.body!.cancel();
      await gateway.provider.received[0]!.aborted;
    });
  });

  describe('cut by its provider', () => {
    it('errors the body when that happens inside an event', async () => {
      gateway.provider.script = (response) => {
        beginStream(response);
        response.write(text('Hello') + text(' there').slice(0, -20), () => response.destroy());
      };
      const response = await gateway.router.fetch(post(STREAMED));
      await expect(response.text()).rejects.toThrow('The response was broken off');
      expect(gateway.errors).toHaveLength(1);
    });

    it('errors the body of a JSON answer', async () => {
      gateway.provider.script = (response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"id":', () => response.destroy());
      };
      const response = await gateway.router.fetch(post(QUESTION));
      await expect(response.text()).rejects.toThrow('The response was broken off');
    });

    it('gives a reader all that came, an error event and an end without [DONE] between events', async () => {
      gateway.provider.script = (response) => {
        beginStream(response);
        response.write(text('Hello') + text(' there'), () => response.destroy());
      };
      const settled = gateway.nextSettled();
      const response = await gateway.router.fetch(post(STREAMED));
      expect((await settled).ending).toBe('upstream_cut');
      // Read only now: what was queued must have outlived the cut.
      const received = await response.text();
      expect(received.startsWith(text('Hello') + text(' there') + 'data: {"error":{')).toBe(true);
      expect(received).not.toContain('[DONE]');
    });

    it('is never a clean end, wherever it happens', async () => {
      const stream = text('Hello') + text(' there');
      for (let cut = 1; cut < stream.length; cut += 7) {
        gateway.provider.script = (response) => {
          beginStream(response);
          response.write(stream.slice(0, cut), () => response.destroy());
        };
        const response = await gateway.router.fetch(post(STREAMED));
        const ending = await response.text().then(
          (received) => (received.includes('data: {"error":{') ? 'told' : 'clean'),
          () => 'broken',
        );
        expect(ending, `cut at byte ${cut}`).not.toBe('clean');
      }
    });
  });
});
