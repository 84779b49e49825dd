import { once } from 'node:events';
import * as http from 'node:http';

import { afterEach, describe, expect, it, vi } from 'vitest';

import type { ChatCompletionsRouterOptions } from '../../src/index.ts';
import { findingsOf } from '../helpers/audit.ts';
import { type Gateway, QUESTION, startGateway, untilStill } from '../helpers/gateway.ts';
import { beginStream, text } from '../helpers/provider.ts';

let gateway: Gateway;

afterEach(async () => {
  vi.useRealTimers();
  expect(await findingsOf(gateway.store)).toEqual([]);
  await gateway.close();
});

/** A text of 1,000 tokens by estimate, and more than all buffers on the way to a client hold of it. */
const LONG = text('abcd'.repeat(1000));
const TIMES = 16_000;

/** A client that has the head of an answer, and reads no further. */
async function stalledClient(): Promise<http.IncomingMessage> {
  const request = http.request(`${gateway.baseURL}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
  });
  request.end(JSON.stringify({ ...QUESTION, stream: true }));
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  response.on('error', () => {});
  return response;
}

/** Writes as much as is taken. */
async function writeUntilHeld(response: http.ServerResponse): Promise<void> {
  let written = 0;
  const writing = async (): Promise<void> => {
    for (; written < TIMES && !response.destroyed; written++) {
      if (!response.write(LONG)) await once(response, 'drain');
    }
  };
  void writing();
  await untilStill(gateway, () => written, 200);
}

/** Begins an answer, and says when nothing of it goes on any more. */
function answerUntilHeld(): { readonly held: Promise<void>; readonly cut: () => void } {
  const held = Promise.withResolvers<void>();
  let cut = (): void => {};
  gateway.provider.script = async (response) => {
    beginStream(response);
    cut = () => response.destroy();
    await writeUntilHeld(response);
    held.resolve();
  };
  return { held: held.promise, cut: () => cut() };
}

async function start(options: Partial<ChatCompletionsRouterOptions> = {}): Promise<void> {
  const models = {
    'acme/fast': {
      targets: ['loopback/upstream-model'],
      pricing: { input: '1', output: '3' },
      maxOutputTokens: 20_000_000,
    },
  };
  gateway = await startGateway({ emptyAnswerIsFree: true, models, ...options }, undefined, '100.00');
}

describe('an answer that its client does not read', () => {
  it('is paid for as far as it came, when its time is over', async () => {
    await start({ timeouts: { totalMs: 2000 } });
    const { held } = answerUntilHeld();
    const settled = gateway.nextSettled();
    const client = await stalledClient();
    await held;
    const { charged, ending } = await settled;
    expect(ending).toBe('timeout');
    // 1,000 tokens of output are 0.003, and more than one of them were sent.
    expect(Number(charged)).toBeGreaterThan(0.003);
    client.destroy();
  });

  it('is paid for as far as it came, when its provider gave up meanwhile, though the client reads on then', async () => {
    await start();
    vi.useFakeTimers({ toFake: ['performance'] });
    const { held, cut } = answerUntilHeld();
    const settled = gateway.nextSettled();
    const client = await stalledClient();
    await held;
    // It was held back for all of its time.
    vi.advanceTimersByTime(1000);
    cut();
    client.resume();
    const { charged, ending } = await settled;
    expect(ending).toBe('upstream_cut');
    expect(Number(charged)).toBeGreaterThan(0.003);
  });

  it('is paid for as well by who has read for long, and stalls only until its provider gives up', async () => {
    await start();
    vi.useFakeTimers({ toFake: ['performance'] });
    const reading = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    let cut = (): void => {};
    gateway.provider.script = async (response) => {
      beginStream(response);
      cut = () => response.destroy();
      response.write(LONG);
      await reading.promise;
      await writeUntilHeld(response);
      held.resolve();
    };
    const settled = gateway.nextSettled();
    const client = await stalledClient();
    client.once('readable', () => client.read());
    await once(client, 'readable');
    vi.advanceTimersByTime(300_000);
    reading.resolve();
    await held.promise;
    vi.advanceTimersByTime(61_000);
    cut();
    client.resume();
    const { charged, ending } = await settled;
    vi.useRealTimers();
    expect(ending).toBe('upstream_cut');
    expect(Number(charged)).toBeGreaterThan(0.003);
  });

  it('is free as before, where the client reads and the provider breaks it off', async () => {
    await start();
    gateway.provider.script = (response) => {
      beginStream(response);
      response.write(LONG, () => response.destroy());
    };
    const settled = gateway.nextSettled();
    (await stalledClient()).resume();
    expect(await settled).toMatchObject({ charged: '0.00', ending: 'upstream_cut' });
  });
});
