import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import {
  completionBody,
  DONE,
  type Provider,
  startProvider,
  text,
  USAGE_EVENT,
} from '../helpers/provider.ts';
import { answerOn, bodyOf, chunked, headOf, startVictim, type Victim, writeAll } from './victim.ts';

const MB = 1_000_000;

describe('a body in chunks of one byte', () => {
  let provider: Provider;
  let victim: Victim;

  beforeAll(async () => {
    provider = await startProvider();
  });

  afterEach(async () => {
    await victim.stop();
  });

  afterAll(async () => {
    await provider.close();
  });

  it.each(['node', 'web'] as const)(
    'takes memory by its bytes at the %s door, also of a client without credits',
    async (kind) => {
      victim = await startVictim({ kind, provider: provider.baseURL, credits: '0.00' }, 128);
      const socket = victim.connect();
      const answer = answerOn(socket);
      socket.write(headOf(victim.keys[0] ?? '', ['transfer-encoding: chunked']));
      await writeAll(socket, chunked(bodyOf(MB), 1));
      expect(await answer).toMatchObject({ status: 402 });
      // A buffer for each would have been 150 MB and more.
      expect(victim.isAlive()).toBe(true);
    },
    180_000,
  );
});

describe('an answer in chunks of one byte', () => {
  let provider: Provider;
  let victim: Victim;
  let bare: Victim;

  beforeAll(async () => {
    provider = await startProvider();
    const router = { answer: { cost: 'ours' as const } };
    victim = await startVictim({ kind: 'node', provider: provider.baseURL, router, twoTargets: true }, 96);
    bare = await startVictim({ kind: 'bare', provider: provider.baseURL }, 96);
  });

  afterAll(async () => {
    await victim.stop();
    await bare.stop();
    await provider.close();
  });

  const LONG = 'x'.repeat(200_000);
  const ANSWERS: readonly (readonly [what: string, status: number, type: string, body: string])[] = [
    [
      'JSON that is told its cost',
      200,
      'application/json',
      completionBody({ choices: [{ index: 0, message: { content: LONG }, finish_reason: 'stop' }] }),
    ],
    ['an event that is held back', 200, 'text/event-stream', text(LONG, 'stop') + USAGE_EVENT + DONE],
    [
      'a comment before the first event',
      200,
      'text/event-stream',
      `: ${LONG}\n\n${text('x', 'stop')}${DONE}`,
    ],
    ['an error', 400, 'application/json', JSON.stringify({ error: { message: LONG } })],
  ];

  /** The processor's time of one request, in ms. */
  async function timeOf(proxy: Victim, status: number, stream: boolean): Promise<number> {
    await proxy.taken();
    const request = bodyOf(100).replace('{', `{"stream":${stream},`);
    const socket = proxy.connect();
    const answer = answerOn(socket);
    const head = headOf(proxy.keys[0] ?? '', [`content-length: ${request.length}`, 'connection: close']);
    socket.write(head + request);
    expect((await answer).status).toBe(status);
    return (await proxy.taken()).cpuMs;
  }

  it.each(ANSWERS)(
    'that is %s takes what it takes of a bare proxy',
    async (_what, status, type, body) => {
      provider.script = (response) => {
        response.writeHead(status, { 'content-type': type, connection: 'close' });
        response.flushHeaders();
        const { socket } = response;
        if (socket) void writeAll(socket, chunked(body, 1)).then(() => socket.end());
      };
      // One that is asked for as a stream is never kept for its cost.
      const stream = type !== 'application/json';
      const took = await timeOf(victim, status, stream);
      expect(took).toBeLessThan(4 * (await timeOf(bare, status, stream)));
    },
    180_000,
  );
});
