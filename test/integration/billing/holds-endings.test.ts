import * as http from 'node:http';

import { describe, expect, it } from 'vitest';

import type { LedgerEvent } from '../../../src/index.ts';
import { listen, type Mount, mountOnNode, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  beginStream,
  completionBody,
  DONE,
  type Script,
  STREAM,
  text,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

/** A stream up to five places: what was sent, and whether any of it was output. */
const CUTS = {
  'before the head': { pieces: undefined, output: false },
  'after the head': { pieces: [], output: false },
  'after the first piece': { pieces: [text('Hello')], output: true },
  'before the usage': { pieces: [text('Hello'), text('.', 'stop')], output: true },
  'after the usage': { pieces: [text('Hello'), text('.', 'stop'), USAGE_EVENT], output: true },
} as const;

type Ending = (response: http.ServerResponse, leave: () => void) => void;

const ENDINGS: Readonly<Record<string, Ending>> = {
  'is finished': (response) => response.end(DONE),
  'loses its client': (_response, leave) => leave(),
  'is cut by its provider': (response) => response.destroy(),
  'times out': () => {},
  'meets an error of its host': (response) => response.end(text(' more') + DONE),
};

/** A host whose response throws when it is given the last piece of a stream. */
const mountOnThrowing: Mount = (router) => {
  const server = http.createServer((request, response) => {
    const write = response.write.bind(response);
    response.write = ((chunk: Uint8Array) => {
      if (Buffer.from(chunk).includes(' more')) throw new Error('The host failed');
      return write(chunk);
    }) as typeof response.write;
    void router(request, response);
  });
  return listen(server, '/v1');
};

describe.each(Object.entries(ENDINGS))('a stream that %s', (ending, end) => {
  it.each(Object.entries(CUTS))(
    'is posted once, and paid for if there was output: %s',
    async (_at, { pieces, output }) => {
      const timeouts = { firstByteMs: 100, idleMs: 100 };
      const throws = ending === 'meets an error of its host';
      const gateway = await startGateway(
        ending === 'times out' ? { timeouts } : {},
        throws ? mountOnThrowing : mountOnNode,
      );
      const controller = new AbortController();
      const ends = (response: http.ServerResponse): void => {
        end(response, () => controller.abort());
      };
      let toRouter: http.ServerResponse | undefined;
      gateway.provider.script = (response) => {
        toRouter = response;
        if (!pieces) {
          ends(response);
          return;
        }
        beginStream(response);
        if (pieces.length === 0) ends(response);
        else response.write(pieces.join(''));
      };
      const settled = gateway.nextSettled();
      try {
        const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
        const reader = response.body!.getReader();
        // What was sent has reached the client before it ends.
        if (output) {
          await reader.read();
          ends(toRouter!);
        }
        while (!(await reader.read()).done);
      } catch {
        // The connection was reset, or given up.
      }
      const { charged } = await settled;
      await gateway.router.close();
      expect(gateway.settled).toHaveLength(1);
      if (output) expect(Number(charged)).toBeGreaterThan(0);
      const lines = await gateway.store.journal('acct', 1n, 10);
      expect(lines.length).toBe(charged === '0.00' ? 0 : 1);
      expect((await gateway.store.balance('acct'))?.held).toBe(0n);
      await gateway.close();
    },
  );
});

describe('a provider that counts more than was held', () => {
  const DEAR = completionBody({ usage: { prompt_tokens: 9, completion_tokens: 3000, total_tokens: 3009 } });

  it('is paid down to a balance of 0; the rest is written off, both are reported, and nothing more is admitted', async () => {
    const events: LedgerEvent[] = [];
    let onSettled = (): void => {};
    const settled = new Promise<void>((resolve) => (onSettled = resolve));
    const hooks = { onSettled, onLedgerEvent: (event: LedgerEvent) => events.push(event) };
    const gateway = await startGateway({ hooks }, undefined, '0.005');
    gateway.provider.script = answerJson(DEAR);
    // 1,000 tokens of output and 142 of prompt are held, at most; 3,000 and 9 are billed.
    await gateway.post(QUESTION);
    await settled;
    expect(await gateway.store.balance('acct')).toMatchObject({ available: 0n, spent: 5_000_000n });
    const [line] = await gateway.store.journal('acct', 1n, 10);
    expect(line).toMatchObject({ amount: 5_000_000n, hold: 3_142_000n, writtenOff: 4_009_000n });
    expect(events).toMatchObject([
      { type: 'overrun', account: 'acct', held: '0.003142', charged: '0.005' },
      { type: 'write_off', account: 'acct', amount: '0.004009' },
    ]);
    expect((await gateway.post(QUESTION)).status).toBe(402);
    expect(gateway.provider.received).toHaveLength(1);
    await gateway.close();
  });

  it('is believed as far as an answer could be long: four times the model’s limit, and 2,000', async () => {
    const gateway = await startGateway();
    // Ten times what was asked for and what the model writes, and then some.
    const usage = { prompt_tokens: 9, completion_tokens: 10_000, total_tokens: 10_009 };
    gateway.provider.script = answerJson(completionBody({ usage }));
    const settled = gateway.nextSettled();
    await gateway.post(QUESTION);
    expect(await settled).toMatchObject({
      charged: '0.018009',
      usageSource: 'upstream',
      writtenOff: '0.00',
    });
    await gateway.close();
  });
});

describe('an answer without usable usage', () => {
  it.each(['null', '-1', '"12"', '1.5', '1e300', 'NaN', '[]', '{}', ''])(
    'is neither free nor charged above its hold: completion_tokens is %s',
    async (count) => {
      const gateway = await startGateway();
      const usage = `{"prompt_tokens":9,"completion_tokens":${count}}`;
      gateway.provider.script = answerJson(completionBody({ usage: 'U' }).replace('"U"', usage));
      const settled = gateway.nextSettled();
      await (await gateway.post(QUESTION)).text();
      const { charged, usageSource } = await settled;
      expect(usageSource).toBe('estimated');
      expect(Number(charged)).toBeGreaterThan(0);
      expect(Number(charged)).toBeLessThanOrEqual(0.003142);
      await gateway.close();
    },
  );
});

describe('usage of a stream', () => {
  /** A provider that answers 400 where it is asked for usage. */
  const rejecting: Script = (response, request) => {
    const asked = String(request.body).includes('"stream_options"');
    return (asked ? answerJson('{"error":{"message":"unknown field"}}', 400) : answerStream(STREAM))(
      response,
      request,
    );
  };
  const ASKS = { include_usage: true };
  const SILENT = { include_usage: false };
  const OTHER = { include_obfuscation: false };
  const CASES = [
    ['option', 'nothing', undefined, '0.000045'],
    ['option', 'true', ASKS, '0.000045'],
    ['option', 'false', SILENT, '0.000045'],
    ['option', 'another option', OTHER, '0.000045'],
    ['native', 'nothing', undefined, '0.000045'],
    ['native', 'true', ASKS, '0.000045'],
    ['native', 'false', SILENT, '0.000045'],
    ['native', 'another option', OTHER, '0.000045'],
    ['rejected', 'nothing', undefined, '0.000045'],
    ['rejected', 'true', ASKS, '0.00'],
    ['rejected', 'false', SILENT, '0.00'],
    ['rejected', 'another option', OTHER, '0.00'],
  ] as const;

  it.each(CASES)(
    'is charged rightly: a provider that is %s, a client that says %s',
    async (streamUsage, _says, options, charged) => {
      const gateway = await startGateway({ provider: { streamUsage } });
      gateway.provider.script = streamUsage === 'rejected' ? rejecting : answerStream(STREAM);
      const settled = gateway.nextSettled();
      const response = await gateway.post({
        ...QUESTION,
        stream: true,
        ...(options && { stream_options: options }),
      });
      await response.text();
      expect(response.status).toBe(charged === '0.00' ? 400 : 200);
      expect(await settled).toMatchObject({ charged, voided: charged === '0.00' });
      await gateway.close();
    },
  );
});
