import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter, once } from 'node:events';
import * as http from 'node:http';
import * as http2 from 'node:http2';
import * as https from 'node:https';
import { type AddressInfo, Socket } from 'node:net';
import { PassThrough } from 'node:stream';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ModelOptions } from '../../../src/index.ts';
import { createAuthority } from '../../helpers/certificates.ts';
import {
  type Gateway,
  mountAfter,
  type Mount,
  PRICING,
  startGateway,
  untilStill,
} from '../../helpers/gateway.ts';
import { completionBody, DONE, text, USAGE_EVENT } from '../../helpers/provider.ts';
import { TRANSPORT } from '../../helpers/transport.ts';

/** More than all buffers between a client and a provider that doesn't read. */
const LONG = 8_000_000;
const COMPLETION = completionBody();
const STREAM = { 'content-type': 'text/event-stream' };
const MODEL: ModelOptions = {
  targets: ['loopback/upstream-model'],
  pricing: PRICING,
  contextWindow: 100_000_000,
  maxOutputTokens: 1000,
};

const closing: (() => Promise<unknown>)[] = [];
/** What was freed. */
let freedBytes = 0;

beforeEach(() => {
  freedBytes = 0;
  // oxlint-disable-next-line typescript/unbound-method -- it is called with its buffer
  const { transfer } = ArrayBuffer.prototype;
  vi.spyOn(ArrayBuffer.prototype, 'transfer').mockImplementation(function free(this: ArrayBuffer, length) {
    freedBytes += this.byteLength;
    return transfer.call(this, length);
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).toReversed()) await close();
});

/** A request body of about this many bytes, none of which is like the one 10 before it. */
function bodyOf(bytes: number, stream = false): string {
  const words = Array.from({ length: Math.ceil(bytes / 9) }, (_, n) => String(n).padStart(8, '0'));
  const options = stream ? { stream, stream_options: { include_usage: true } } : {};
  const messages = [{ role: 'user', content: words.join(' ') }];
  return JSON.stringify({ model: 'acme/fast', ...options, messages });
}

/** What the provider gets for it. */
const sent = (body: string): string => body.replace('acme/fast', 'upstream-model');

async function start(
  { provider, ...options }: Parameters<typeof startGateway>[0] & object,
  mount?: Mount,
): Promise<Gateway> {
  const gateway = await startGateway(
    { models: { 'acme/fast': MODEL }, ...options, provider: { ...provider } },
    mount,
    '1000',
  );
  closing.push(() => gateway.close());
  return gateway;
}

/** Overwrites memory that was freed. */
function reuseMemory(): void {
  for (let n = 0; n < 400; n++) Buffer.allocUnsafeSlow(65_536).fill(0xff);
}

type Kind = 'http' | 'https' | 'http2';
type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void;

/** A provider over one of the protocols. */
async function startProvider(
  kind: Kind,
  handler: Handler,
): Promise<{ baseURL: string; tls?: { ca: string } }> {
  const authority = kind === 'http' ? undefined : createAuthority();
  const certificate = authority?.issue('DNS:localhost,IP:127.0.0.1');
  const server =
    kind === 'http2'
      ? // The compatible interface of HTTP/2.
        http2.createSecureServer({ ...certificate }, handler as never)
      : kind === 'https'
        ? https.createServer({ ...certificate }, handler)
        : http.createServer(handler);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `${kind === 'http' ? 'http' : 'https'}://localhost:${port}/v1`,
    ...(authority && { tls: { ca: authority.ca } }),
  };
}

async function textOf(request: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const KINDS: readonly Kind[] = TRANSPORT === 'undici' ? ['http', 'https', 'http2'] : ['http', 'https'];

describe.each(KINDS)('the bytes of a long request to a provider by %s', (kind) => {
  it('are freed once its answer has begun', async () => {
    const got: string[] = [];
    const provider = await startProvider(kind, (request, response) => {
      void textOf(request).then((body) => {
        got.push(body);
        response.setHeader('content-type', 'application/json');
        response.end(COMPLETION);
      });
    });
    const gateway = await start({ provider });
    for (const bytes of [20_000, 60_000, 1_000_000]) {
      freedBytes = 0;
      const body = bodyOf(bytes);
      const response = await gateway.post(body);
      expect(await response.text()).toBe(COMPLETION);
      expect(got.pop()).toBe(sent(body));
      // All but chunks that are short by chance.
      expect(freedBytes).toBeGreaterThan(bytes * 0.8);
      expect(freedBytes).toBeLessThanOrEqual(body.length);
    }
  });

  it('stay where the provider answers before it has read them', async () => {
    const { promise: answered, resolve: read } = Promise.withResolvers<void>();
    const got = Promise.withResolvers<string>();
    const provider = await startProvider(kind, (request, response) => {
      response.writeHead(200, STREAM);
      response.write(text('early'));
      void answered
        .then(() => textOf(request))
        .then((body) => {
          got.resolve(body);
          response.end(text('', 'stop') + USAGE_EVENT + DONE);
        });
    });
    const gateway = await start({ provider });
    const body = bodyOf(LONG, true);
    const response = await gateway.post(body);
    const events = response.body?.getReader();
    expect(Buffer.from((await events?.read())?.value ?? []).toString()).toContain('early');
    expect(freedBytes).toBe(0);
    reuseMemory();
    read();
    const arrived = await got.promise;
    expect(arrived.length).toBe(sent(body).length);
    expect(arrived === sent(body)).toBe(true);
    await events?.cancel();
  });
});

describe('the bytes of a long request to two providers', () => {
  it('stay, as the one that failed may still be reading them', async () => {
    const got: string[] = [];
    const failing = await startProvider('http', (_request, response) => {
      response.writeHead(503);
      response.write('{');
    });
    const working = await startProvider('http', (request, response) => {
      void textOf(request).then((body) => {
        got.push(body);
        response.setHeader('content-type', 'application/json');
        response.end(COMPLETION);
      });
    });
    const gateway = await start({
      providers: { failing, working },
      models: { 'acme/fast': { ...MODEL, targets: ['failing/upstream-model', 'working/upstream-model'] } },
    });
    const body = bodyOf(LONG);
    const response = await gateway.post(body);
    expect(await response.text()).toBe(COMPLETION);
    expect(freedBytes).toBe(0);
    expect(got.map((each) => each === sent(body))).toEqual([true]);
  });
});

describe('the bytes of a long request beside a guard', () => {
  it('stay, as it may still read them', async () => {
    const answered = Promise.withResolvers<void>();
    const seen: unknown[] = [];
    const gateway = await start({
      guard: {
        parallel: true,
        run: async ({ messages }) => {
          await answered.promise;
          // The router has the answer once it has served some others.
          await untilStill(gateway, () => freedBytes);
          seen.push(...messages());
        },
      },
    });
    gateway.provider.script = (response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(COMPLETION, answered.resolve);
    };
    const body = bodyOf(300_000);
    const response = await gateway.post(body);
    expect(await response.text()).toBe(COMPLETION);
    expect(freedBytes).toBe(0);
    expect(JSON.stringify({ model: 'acme/fast', messages: seen }) === body).toBe(true);
  });
});

/** Mounts a router where the app does something just before the router begins to read a request. */
function mountBesideReading(act: (request: http.IncomingMessage) => void): Mount {
  return mountAfter((request) => {
    const onListener = (event: string): void => {
      if (event !== 'data') return;
      request.off('newListener', onListener);
      act(request);
    };
    request.on('newListener', onListener);
  });
}

describe('bytes that the app has, too,', () => {
  let kept: Buffer[] = [];
  const keep = (chunk: Buffer): void => {
    kept.push(chunk);
  };

  beforeEach(() => {
    kept = [];
  });

  const mounts: Record<string, Mount> = {
    'by a listener': mountBesideReading((request) => {
      request.on('data', keep);
    }),
    'by a listener that comes once the router reads': mountBesideReading((request) => {
      queueMicrotask(() => request.on('data', keep));
    }),
    'by a pipe': mountBesideReading((request) => {
      request.pipe(new PassThrough()).on('data', keep);
    }),
    'by reading it': mountBesideReading((request) => {
      request.on('readable', () => {
        for (let chunk = request.read(); chunk !== null; chunk = request.read()) keep(chunk);
      });
    }),
    'by a method in place of on': mountAfter((request) => {
      const on = request.on.bind(request);
      request.on = (event: string | symbol, listener: Parameters<typeof on>[1]) => {
        if (event !== 'data') return on(event, listener);
        return on(event, (chunk: Buffer) => {
          keep(chunk);
          listener(chunk);
        });
      };
    }),
    'by a method in place of push': mountAfter((request) => {
      const push = request.push.bind(request);
      request.push = (chunk: Buffer | null, ...rest): boolean => {
        if (chunk) keep(chunk);
        return push(chunk, ...rest);
      };
    }),
    'by a method in place of emit': mountAfter((request) => {
      const emit = request.emit.bind(request);
      request.emit = (event: string | symbol, ...args: unknown[]): boolean => {
        if (event === 'data') kept.push(...args.filter((each) => Buffer.isBuffer(each)));
        return emit(event, ...args);
      };
    }),
  };

  it.each(Object.entries(mounts))('%s, stay', async (_how, mount) => {
    const gateway = await start({}, mount);
    const body = bodyOf(300_000);
    const response = await gateway.post(body);
    expect(await response.text()).toBe(COMPLETION);
    expect(freedBytes).toBe(0);
    reuseMemory();
    expect(Buffer.concat(kept).toString() === body).toBe(true);
  });

  it.each([
    [
      'by a listener that waits',
      mountAfter((request) => {
        request.on('data', keep).pause();
      }),
    ],
    [
      'by a listener for one chunk that waits',
      mountAfter((request) => {
        request.once('data', keep).pause();
      }),
    ],
    [
      'by a method in place of read',
      mountAfter((request) => {
        const read = request.read.bind(request);
        request.read = (size): unknown => {
          const chunk: unknown = read(size);
          if (Buffer.isBuffer(chunk)) keep(chunk);
          return chunk;
        };
      }),
    ],
  ])('%s, stay where they came with the head of the request', async (_how, mount) => {
    const gateway = await start({}, mount);
    const body = bodyOf(30_000);
    const response = await gateway.post(body);
    expect(await response.text()).toBe(COMPLETION);
    expect(freedBytes).toBe(0);
    reuseMemory();
    expect(Buffer.concat(kept).toString() === body).toBe(true);
  });

  it('stay where a method of all requests was replaced', async () => {
    const replaced = vi.spyOn(EventEmitter.prototype, 'emit');
    const gateway = await start({});
    const response = await gateway.post(bodyOf(300_000));
    expect(await response.text()).toBe(COMPLETION);
    expect(replaced).toHaveBeenCalled();
    expect(freedBytes).toBe(0);
  });

  it('stay where a tool sees what is sent', async () => {
    const tool = (message: unknown): void => {
      kept.push(Reflect.get(Object(message), 'chunk'));
    };
    subscribe('undici:request:bodyChunkSent', tool);
    // oxlint-disable-next-line typescript/unbound-method -- it is called with its request
    const { end } = http.ClientRequest.prototype;
    vi.spyOn(http.ClientRequest.prototype, 'end').mockImplementation(function keepAndEnd(
      this: http.ClientRequest,
      ...args: unknown[]
    ) {
      kept.push(...args.filter((each) => Buffer.isBuffer(each)));
      return Reflect.apply(end, this, args);
    });
    try {
      const gateway = await start({});
      for (const bytes of [30_000, 300_000]) {
        const response = await gateway.post(bodyOf(bytes));
        expect(await response.text()).toBe(COMPLETION);
      }
      expect(freedBytes).toBe(0);
      expect(kept.length).toBeGreaterThan(1);
      expect(kept.map((chunk) => chunk.length > 0)).not.toContain(false);
    } finally {
      unsubscribe('undici:request:bodyChunkSent', tool);
    }
  });

  it('stay where the app made the request', async () => {
    const gateway = await start({});
    const body = Buffer.from(bodyOf(300_000));
    const request = new http.IncomingMessage(new Socket());
    Object.assign(request, { method: 'POST', url: '/chat/completions' });
    request.headers.authorization = `Bearer ${gateway.key}`;
    request.rawHeaders.push('authorization', `Bearer ${gateway.key}`);
    request.push(body);
    request.push(null);
    const response = new http.ServerResponse(request);
    const written: Buffer[] = [];
    const socket = new PassThrough().on('data', (chunk: Buffer) => written.push(chunk));
    response.assignSocket(socket as unknown as Socket);
    void gateway.router(request, response);
    await once(response, 'finish');
    expect(Buffer.concat(written).toString()).toContain(COMPLETION);
    expect(freedBytes).toBe(0);
    expect(body.length).toBeGreaterThan(300_000);
  });
});
