import { once } from 'node:events';
import * as http from 'node:http';
import * as net from 'node:net';

import { afterEach, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions, ProviderOptions, Settled } from '../../../src/index.ts';
import { type Gateway, listen, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  DONE,
  event,
  type Script,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

/** 36 characters: 9 tokens by estimate. QUESTION is estimated at 13, the usage of `STREAM` is 9 and 12. */
const HELLO = 'Hello there, dear reader of streams.';
/** The provider bills 500 nano-dollars a prompt token and 1,000 a completion token; the client pays 1,000 and 3,000. */
const COST = { input: '0.5', output: '1' };
const ERROR_EVENT = 'data: {"error":{"message":"overloaded"}}\n\n';

let gateway: Gateway;
/** Resolves when the router's side of the next request's connection closes. */
let closed: Promise<unknown>;

type Options = Partial<ChatCompletionsRouterOptions> & { readonly provider?: Partial<ProviderOptions> };

async function start(options: Options = {}, credits?: string): Promise<void> {
  gateway = await startGateway(
    {
      models: {
        'acme/fast': {
          targets: [{ provider: 'loopback', model: 'upstream-model', cost: COST }],
          pricing: PRICING,
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
      },
      ...options,
    },
    (router) => {
      const server = http.createServer((request, response) => {
        closed = once(response, 'close');
        void router(request, response);
      });
      return listen(server, '/v1');
    },
    credits,
  );
}

afterEach(async () => {
  const { held } = await gateway.router.credits.balance('acct');
  await gateway.close();
  expect(held).toBe('0.00');
});

interface Posted {
  readonly told: Settled;
  /** What the journal has of it; undefined where nothing was posted. */
  readonly line: { charge: bigint; cost: bigint | undefined; source: string; ending: string } | undefined;
}

interface Asked extends Posted {
  readonly status: number;
  readonly seen: string;
}

async function posted(settled: Promise<Settled>): Promise<Posted> {
  const told = await settled;
  const lines = await gateway.store.journal('acct', 0n, 100);
  const [line, ...more] = lines.filter(({ type }) => type !== 'g');
  expect(more).toEqual([]);
  expect(gateway.settled).toHaveLength(1);
  if (!line?.usage) return { told, line: undefined };
  const { cost, source, ending } = line.usage;
  return { told, line: { charge: line.amount, cost, source, ending } };
}

/** Asks, and reads to the end. */
async function ask(script: Script, fields: Record<string, unknown> = { stream: true }): Promise<Asked> {
  gateway.provider.script = script;
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...QUESTION, ...fields });
  const seen = await response.text().catch(() => 'reset');
  return { status: response.status, seen, ...(await posted(settled)) };
}

/** Asks for a stream, reads something of it, and leaves. */
async function leaveMidStream(script: Script): Promise<Posted> {
  gateway.provider.script = script;
  const settled = gateway.nextSettled();
  const controller = new AbortController();
  const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
  await response.body?.getReader().read();
  controller.abort();
  return posted(settled);
}

/** Asks, leaves once the provider has the request, and lets it go on then. */
async function leaveUnanswered(script: Script): Promise<Posted> {
  const controller = new AbortController();
  gateway.provider.script = async (response, request) => {
    controller.abort();
    await closed;
    await script(response, request);
  };
  const settled = gateway.nextSettled();
  await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal }).catch(() => 'left');
  return posted(settled);
}

/** Sends the pieces, and waits for the router to go. */
function sendAndWait(...pieces: readonly string[]): Script {
  return async (response, request) => {
    beginStream(response);
    response.write(pieces.join(''));
    await request.aborted;
  };
}

/** Sends the pieces, and the others once the client has left. */
function goOnFor(pieces: readonly string[], afterwards: readonly string[]): Script {
  return async (response) => {
    beginStream(response);
    response.write(pieces.join(''));
    await closed;
    response.end(afterwards.join(''));
  };
}

/** Sends the pieces, and dies. */
function breakAfter(...pieces: readonly string[]): Script {
  return (response) => {
    beginStream(response);
    response.write(pieces.join(''), () => response.destroy());
  };
}

const upstreamClosed = async (): Promise<boolean> =>
  (await gateway.provider.received[0]?.aborted) !== undefined;

describe('refused at admit', () => {
  it('costs nothing, and reaches no provider', async () => {
    await start({}, '0.00001');
    const response = await gateway.post(QUESTION);
    expect(response.status).toBe(402);
    expect(gateway.provider.received).toEqual([]);
    expect((await gateway.store.journal('acct', 0n, 100)).map(({ type }) => type)).toEqual(['g']);
  });
});

describe('failed before dispatch', () => {
  it('costs nothing', async () => {
    await start({ provider: { apiKey: () => undefined } });
    const { status, told, line } = await ask(answerStream(STREAM));
    expect(status).toBe(502);
    expect(told).toMatchObject({ voided: true, ending: 'upstream_error' });
    expect(line).toBeUndefined();
    expect(gateway.provider.received).toEqual([]);
  });
});

describe('no answer from upstream', () => {
  it.each([
    ['an error of the client', answerJson('{"error":{"message":"bad"}}', 400), 400],
    ['an error of the provider', answerJson('{"error":{"message":"bad"}}', 500), 500],
    ['an error of MiniMax’s with 200', answerJson('{"base_resp":{"status_code":1008}}'), 200],
    ['an error of Gemini’s with 200', answerJson('[{"error":{"code":429}}]'), 200],
    ['a reset before the head', ((response) => response.destroy()) satisfies Script, 502],
  ])('costs nothing: %s', async (_name, script, expected) => {
    await start();
    const { status, told, line } = await ask(script);
    expect(status).toBe(expected);
    expect(told).toMatchObject({ voided: true, charged: '0.00', usageSource: 'none' });
    expect(line).toBeUndefined();
  });

  it('costs nothing: a timeout', async () => {
    await start({ timeouts: { firstByteMs: 50 } });
    const { status, told, line } = await ask((_response, request) => request.aborted);
    expect(status).toBe(504);
    expect(told).toMatchObject({ voided: true, ending: 'timeout' });
    expect(line).toBeUndefined();
  });

  it('costs nothing: a stream that breaks before any output', async () => {
    await start();
    const { seen, told, line } = await ask(breakAfter());
    expect(seen).toContain('"code":"upstream_cut"');
    expect(told).toMatchObject({ voided: true, ending: 'upstream_cut' });
    expect(line).toBeUndefined();
  });

  it('has its cost in the books where the refusal tells its usage', async () => {
    await start();
    const { line } = await ask(answerJson(completionBody({ choices: [] }), 400));
    expect(line).toEqual({ charge: 0n, cost: 16_500n, source: 'upstream', ending: 'finished' });
  });
});

describe('success with usage', () => {
  it('costs exactly that', async () => {
    await start();
    const { seen, line } = await ask(answerStream(STREAM));
    expect(seen).toContain('Hello');
    expect(line).toEqual({ charge: 45_000n, cost: 16_500n, source: 'upstream', ending: 'finished' });
  });

  it('costs nothing where the usage is 0: that is a value', async () => {
    await start();
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    const { line, told } = await ask(answerJson(completionBody({ usage })), {});
    expect(line).toEqual({ charge: 0n, cost: 0n, source: 'upstream', ending: 'finished' });
    expect(told.voided).toBe(false);
  });
});

describe('success without usage', () => {
  it('costs the estimate of the prompt and of the text, and says so', async () => {
    await start();
    const { line } = await ask(answerStream([text(HELLO, 'stop'), DONE]));
    expect(line).toEqual({ charge: 40_000n, cost: 15_500n, source: 'estimated', ending: 'finished' });
  });

  it('never costs more than was held', async () => {
    await start();
    // 10 tokens of output were allowed and are held for; 250 came.
    const { line } = await ask(answerStream([text('x'.repeat(1000), 'stop'), DONE]), {
      stream: true,
      max_tokens: 10,
    });
    expect(line?.charge).toBeLessThan(200_000n);
    expect(line).toMatchObject({ cost: 256_500n, source: 'estimated' });
  });
});

describe('client leaves before dispatch', () => {
  it('costs nothing, and reaches no provider', async () => {
    const controller = new AbortController();
    await start({
      provider: {
        apiKey: async () => {
          controller.abort();
          await closed;
          return 'sk-late';
        },
      },
    });
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    const { told, line } = await posted(settled);
    expect(told).toMatchObject({ voided: true, ending: 'client_gone' });
    expect(line).toBeUndefined();
    expect(gateway.provider.received).toEqual([]);
  });
});

describe('client leaves before output', () => {
  it('costs the prompt, and closes the connection to the provider', async () => {
    await start();
    const { line } = await leaveUnanswered((_response, request) => request.aborted);
    expect(line).toEqual({ charge: 13_000n, cost: 6500n, source: 'estimated', ending: 'client_gone' });
    expect(await upstreamClosed()).toBe(true);
  });

  it('costs the prompt after the head too', async () => {
    await start();
    const { line } = await leaveMidStream(sendAndWait(STREAM[0] ?? ''));
    expect(line).toEqual({ charge: 13_000n, cost: 6500n, source: 'estimated', ending: 'client_gone' });
    expect(await upstreamClosed()).toBe(true);
  });
});

describe('client leaves mid-stream', () => {
  it('costs the prompt and what was delivered, and closes the connection to the provider', async () => {
    await start();
    const { line } = await leaveMidStream(sendAndWait(text(HELLO)));
    expect(line).toEqual({ charge: 40_000n, cost: 15_500n, source: 'estimated', ending: 'client_gone' });
    expect(await upstreamClosed()).toBe(true);
  });

  it('costs the usage that was reported last', async () => {
    await start();
    const usage = { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 };
    const counted = event({ choices: [{ index: 0, delta: { content: HELLO }, finish_reason: null }], usage });
    const { line } = await leaveMidStream(sendAndWait(counted));
    expect(line).toEqual({ charge: 110_000n, cost: 40_000n, source: 'upstream', ending: 'client_gone' });
  });
});

describe('client leaves, and the rest is drained', () => {
  it('costs the usage, and lets the provider finish', async () => {
    await start({ provider: { onDisconnect: 'drain' } });
    const { line } = await leaveMidStream(goOnFor([text(HELLO)], [text('.', 'stop'), USAGE_EVENT, DONE]));
    expect(line).toEqual({ charge: 45_000n, cost: 16_500n, source: 'upstream', ending: 'client_gone' });
  });

  it('costs the usage also of an answer whose head was not awaited', async () => {
    await start({ provider: { onDisconnect: 'drain' } });
    const { line } = await leaveUnanswered(answerStream(STREAM));
    expect(line).toEqual({ charge: 45_000n, cost: 16_500n, source: 'upstream', ending: 'client_gone' });
  });

  it('costs what staying costs, also where the provider counts more than was held', async () => {
    await start({ provider: { onDisconnect: 'drain' } });
    // Held were 1,000 tokens of output, and the 142 that its prompt has at most.
    const usage = event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 3000 } });
    const { line } = await leaveMidStream(goOnFor([text(HELLO)], [usage, DONE]));
    expect(line).toMatchObject({ charge: 9_009_000n, cost: 3_004_500n, source: 'upstream' });
  });

  it('costs nothing where the provider fails after all', async () => {
    await start({ provider: { onDisconnect: 'drain' } });
    const { told, line } = await leaveUnanswered(answerJson('{"error":{}}', 500));
    expect(told).toMatchObject({ voided: true, ending: 'client_gone' });
    expect(line).toBeUndefined();
  });

  it('costs the estimate of what was read where the router is closed meanwhile', async () => {
    await start({ provider: { onDisconnect: 'drain' } });
    let read = (): void => {};
    const drained = new Promise<void>((resolve) => (read = resolve));
    const left = leaveMidStream(async (response, request) => {
      beginStream(response);
      response.write(text(HELLO));
      await closed;
      response.write(text(HELLO), read);
      await request.aborted;
    });
    await drained;
    await gateway.router.close();
    const { line } = await left;
    expect(line).toMatchObject({ source: 'estimated', ending: 'client_gone' });
    expect(await upstreamClosed()).toBe(true);
  });
});

describe('upstream dies mid-stream', () => {
  it('costs the prompt and what was delivered', async () => {
    await start();
    const { seen, line } = await ask(breakAfter(text(HELLO)));
    expect(seen).toContain('"code":"upstream_cut"');
    expect(line).toEqual({ charge: 40_000n, cost: 15_500n, source: 'estimated', ending: 'upstream_cut' });
  });

  it('costs nothing with emptyAnswerIsFree, and the cost is in the books', async () => {
    await start({ emptyAnswerIsFree: true });
    const { line } = await ask(breakAfter(text(HELLO)));
    expect(line).toEqual({ charge: 0n, cost: 15_500n, source: 'estimated', ending: 'upstream_cut' });
  });

  it('costs its usage, with emptyAnswerIsFree too, where the answer was whole', async () => {
    await start({ emptyAnswerIsFree: true });
    const { line } = await ask(breakAfter(text(HELLO, 'stop'), USAGE_EVENT));
    expect(line).toEqual({ charge: 45_000n, cost: 16_500n, source: 'upstream', ending: 'upstream_cut' });
  });
});

describe('fallback before any output', () => {
  it('costs what the target costs that answered, once', async () => {
    const target = { provider: 'loopback', cost: COST };
    const dearer = { ...target, model: 'other', pricing: { input: '2', output: '4' } };
    await start({
      models: {
        'acme/fast': {
          targets: [{ ...target, model: 'upstream-model' }, dearer],
          pricing: PRICING,
          maxOutputTokens: 1000,
        },
      },
    });
    const { status, told, line } = await ask((response, request) => {
      const isFirst = String(request.body).includes('upstream-model');
      (isFirst ? answerJson('{"error":{}}', 503) : answerStream(STREAM))(response, request);
    });
    expect(status).toBe(200);
    expect(gateway.provider.received).toHaveLength(2);
    expect(told.upstreamModel).toBe('other');
    // 9 × 2,000 and 12 × 4,000
    expect(line).toEqual({ charge: 66_000n, cost: 16_500n, source: 'upstream', ending: 'finished' });
  });

  it('costs nothing where the client leaves after one refused and before another is asked', async () => {
    await start();
    const controller = new AbortController();
    gateway.provider.script = (response) => {
      response.writeHead(503, { 'retry-after-ms': '500' }).end();
      // Long after the refusal came, and long before it is asked again.
      setTimeout(() => controller.abort(), 100);
    };
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    const { told, line } = await posted(settled);
    expect(told).toMatchObject({ voided: true, ending: 'client_gone' });
    expect(line).toBeUndefined();
    expect(gateway.provider.received).toHaveLength(1);
  });
});

describe('an answer that is no use', () => {
  const EMPTY = completionBody({
    choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: null }],
    usage: { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 },
  });
  const FAILED = [text(HELLO, 'error'), USAGE_EVENT, DONE];

  it.each([
    ['empty, without a reason', answerJson(EMPTY), 9000n, 4500n],
    ['ended by an error', answerStream(FAILED), 45_000n, 16_500n],
    [
      'ended by an error event',
      answerStream([text(HELLO), ERROR_EVENT, USAGE_EVENT, DONE]),
      45_000n,
      16_500n,
    ],
  ])(
    'costs its usage by default, and nothing with emptyAnswerIsFree: %s',
    async (_name, script, charge, cost) => {
      await start();
      expect((await ask(script)).line).toMatchObject({ charge, cost });
      await gateway.close();
      await start({ emptyAnswerIsFree: true });
      expect((await ask(script)).line).toMatchObject({ charge: 0n, cost });
    },
  );

  it.each([
    [
      'empty, for a reason',
      answerJson(EMPTY.replace('"finish_reason":null', '"finish_reason":"stop"')),
      9000n,
    ],
    ['text without a reason', answerStream([text(HELLO), DONE]), 40_000n],
  ])('is not: %s', async (_name, script, charge) => {
    await start({ emptyAnswerIsFree: true });
    expect((await ask(script)).line).toMatchObject({ charge });
  });

  it('is given back whole where it is unknown what the provider bills', async () => {
    gateway = await startGateway({ emptyAnswerIsFree: true });
    const { told, line } = await ask(answerJson(EMPTY), {});
    expect(told).toMatchObject({ voided: true, charged: '0.00' });
    expect(line).toBeUndefined();
  });

  it('is paid for by a client that leaves', async () => {
    await start({ emptyAnswerIsFree: true });
    const { line } = await leaveMidStream(sendAndWait(text(HELLO)));
    expect(line).toMatchObject({ charge: 40_000n });
  });
});

describe('an error', () => {
  it('has no output, however long its text is', async () => {
    await start();
    const { line } = await ask(answerStream([text(HELLO), `data: {"error":"${'x'.repeat(5000)}"}\n\n`]));
    expect(line).toEqual({ charge: 40_000n, cost: 15_500n, source: 'estimated', ending: 'finished' });
  });
});

describe('the price', () => {
  const priced = (output: string): Options => ({
    models: {
      'acme/fast': {
        targets: ['loopback/upstream-model'],
        pricing: { ...PRICING, output },
        maxOutputTokens: 1000,
      },
    },
  });

  async function versionOf(output: string): Promise<string | undefined> {
    await start(priced(output));
    await ask(answerStream(STREAM));
    return (await gateway.store.journal('acct', 0n, 100)).at(-1)?.usage?.price;
  }

  it('is named by the journal: the same prices by the same name, others by another', async () => {
    const first = await versionOf('3');
    await gateway.close();
    const again = await versionOf('3');
    await gateway.close();
    expect(first).toMatch(/^\w+$/);
    expect(again).toBe(first);
    expect(await versionOf('4')).not.toBe(first);
  });

  it('is the one at which a request was admitted, whatever becomes of the options', async () => {
    const pricing = { ...PRICING };
    await start({
      models: { 'acme/fast': { targets: ['loopback/upstream-model'], pricing, maxOutputTokens: 1000 } },
    });
    const { line } = await ask((response, request) => {
      pricing.output = '1000';
      return answerStream(STREAM)(response, request);
    });
    expect(line?.charge).toBe(45_000n);
  });
});

describe('a client that leaves before its request went out', () => {
  it.each(['abort', 'drain'] as const)(
    'pays nothing: the provider was being connected to, %s',
    async (onDisconnect) => {
      // A TLS handshake that is never answered: the connection doesn't come about.
      const silent = net.createServer();
      silent.listen(0, '127.0.0.1');
      await once(silent, 'listening');
      const { port } = silent.address() as net.AddressInfo;
      await start({ provider: { baseURL: `https://127.0.0.1:${port}/v1`, onDisconnect } });
      const controller = new AbortController();
      const settled = gateway.nextSettled();
      const connected = once(silent, 'connection') as Promise<[net.Socket]>;
      const asked = gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
      const [socket] = await connected;
      controller.abort();
      expect(await asked).toBe('left');
      const { told, line } = await posted(settled);
      expect(told).toMatchObject({ ending: 'client_gone', voided: true, charged: '0.00' });
      expect(line).toBeUndefined();
      socket.destroy();
      silent.close();
    },
  );

  it('pays for its prompt once the provider has its request, also on a connection that was kept', async () => {
    await start();
    gateway.provider.script = answerJson(completionBody());
    await (await gateway.post(QUESTION)).text();
    gateway.provider.script = () => {};
    const controller = new AbortController();
    const arrived = gateway.provider.next();
    const asked = gateway.post(QUESTION, { signal: controller.signal }).catch(() => 'left');
    await arrived;
    const settled = gateway.nextSettled();
    controller.abort();
    expect(await asked).toBe('left');
    expect(await settled).toMatchObject({ ending: 'client_gone', voided: false, charged: '0.000013' });
  });
});
