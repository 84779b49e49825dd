import { afterEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';
import { cpuTimeOf } from './cpu-time.ts';

/** A guard that looks for a word, and that passes what it can't check: the most that an attacker can hope for. */
const GUARD = {
  onError: 'pass',
  run: ({ messages }: { messages: () => readonly object[] }) =>
    JSON.stringify(messages()).includes('forbidden')
      ? { refuse: { code: 'forbidden_word', message: 'No.' } }
      : undefined,
} as const;

let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
});

/** The status and the code of a body that is sent as it is. */
async function ask(messages: string): Promise<string> {
  const answer = await gateway.post(`{"model":"acme/fast","messages":${messages}}`);
  const body = (await answer.json()) as { error?: { code: string } };
  return `${answer.status} ${body.error?.code ?? ''}`.trim();
}

describe('a prompt that a guard forbids', () => {
  it.each([
    ['as it is', '[{"role":"user","content":"forbidden"}]', '400 forbidden_word'],
    ['in escapes', '[{"role":"user","content":"\\u0066orbidden"}]', '400 forbidden_word'],
    ['in a part', '[{"role":"user","content":[{"type":"text","text":"forbidden"}]}]', '400 forbidden_word'],
    [
      'before a harmless one of the same name',
      '[{"content":"forbidden","content":"fine"}]',
      '400 ambiguous_parameter',
    ],
    [
      'under a name that Go reads as content',
      '[{"role":"user","CONTENT":"fine"}]',
      '400 ambiguous_parameter',
    ],
    ['beside messages that make a guard throw', '[null,{"content":"forbidden"}]', '400 invalid_type'],
    ['in a second list of messages', '[],"messages":[{"content":"forbidden"}]', '400 ambiguous_parameter'],
    [
      'among more values than are parsed',
      `[{"a":[${'0,'.repeat(100_000)}0]},{"content":"forbidden"}]`,
      '413 request_too_large',
    ],
    [
      'after more bytes than are parsed',
      `[{"content":"${'a'.repeat(9_000_000)}forbidden"}]`,
      '413 request_too_large',
    ],
    [
      'deeper than JSON may be nested',
      `[${'['.repeat(1001)}"forbidden"${']'.repeat(1001)}]`,
      '400 invalid_json',
    ],
  ])('reaches no provider %s', async (_, messages, refusal) => {
    gateway = await startGateway({ guard: GUARD });
    expect(await ask(messages)).toBe(refusal);
    expect(gateway.provider.received).toEqual([]);
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
  });
});

describe('messages made to be parsed for long', () => {
  it.each([
    ['millions of values', `[${'{},'.repeat(1_500_000)}{}]`],
    ['nesting', `[${`{"a":${'['.repeat(900)}${']'.repeat(900)}},`.repeat(100)}{}]`],
    ['keys', `[{${Array.from({ length: 90_000 }, (_, n) => `"k${n}":0`).join()}}]`],
  ])('of %s take little more time than without a guard', async (_, messages) => {
    const body = `{"model":"acme/fast","messages":${messages},"max_tokens":1}`;
    const timeOf = async (guard: typeof GUARD | undefined): Promise<number> => {
      gateway = await startGateway({
        ...(guard && { guard }),
        models: { 'acme/fast': { targets: ['loopback/upstream-model'], pricing: 'free' } },
      });
      await gateway.post(QUESTION);
      const ms = await cpuTimeOf(async () => {
        await (await gateway.post(body)).text();
      });
      return ms;
    };
    const plain = await timeOf(undefined);
    await gateway.close();
    expect(await timeOf(GUARD)).toBeLessThan(plain + 400);
  });
});

describe('bodies that a guard has parsed', () => {
  it('count once more in the bytes that may be buffered, while it runs', async () => {
    const asked = Promise.withResolvers<void>();
    const passed = Promise.withResolvers<undefined>();
    gateway = await startGateway({
      maxBodyBytes: 10_000,
      maxBufferedBytes: 10_000,
      guard: async ({ messages }) => {
        messages();
        asked.resolve();
        return passed.promise;
      },
    });
    const messages = `[{"role":"user","content":"${'a'.repeat(4000)}"}]`;
    const first = ask(messages);
    await asked.promise;
    expect(await ask(messages)).toBe('503 request_buffers_full');
    passed.resolve(undefined);
    expect(await first).toBe('200');
    expect(await ask(messages)).toBe('200');
  });
});
