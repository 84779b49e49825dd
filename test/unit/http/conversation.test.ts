import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { ChatRequestScanner } from '../../../src/http/scan-request.ts';
import type { ConversationFields } from '../../../src/http/conversation-reader.ts';
import { resolveSticky } from '../../../src/options/resolve-sticky.ts';
import { RunningHash } from '../../../src/platform/running-hash.ts';
import { runs } from '../../helpers/runs.ts';

const sticky = resolveSticky({ by: ['prompt_cache_key', 'user', 'prefix'] })!;

/** What the scan says of a body that comes in pieces, cut at these offsets. */
function read(body: unknown, cuts: readonly number[] = []): ConversationFields {
  const bytes = Buffer.from(JSON.stringify(body));
  const scanner = new ChatRequestScanner({ sticky });
  let from = 0;
  for (const cut of cuts.map((each) => each % (bytes.length + 1)).toSorted((a, b) => a - b)) {
    scanner.write(bytes.subarray(from, cut));
    from = cut;
  }
  scanner.write(bytes.subarray(from));
  return scanner.end().conversation!;
}

interface Message {
  readonly role: string;
  readonly [member: string]: unknown;
}

/** The strings of a value that count, as JSON writes them, in their order. */
function stringsOf(value: unknown, isPart: boolean): string[] {
  if (typeof value === 'string') return [JSON.stringify(value)];
  if (Array.isArray(value)) return value.flatMap((each) => stringsOf(each, isPart));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => {
    if (name === 'cache_control' || (isPart && name === 'type')) return [];
    return stringsOf(each, name === 'content');
  });
}

/** The same as the scan says, of parsed messages: all at once, a prefix at a time. */
function reference(messages: readonly Message[]): Pick<ConversationFields, 'opening' | 'turns'> {
  const hashOf = (some: readonly Message[]): number => {
    const hash = new RunningHash();
    for (const message of some) {
      for (const text of stringsOf(message, false)) {
        const bytes = Buffer.from(text);
        hash.addNumber(bytes.length);
        hash.addBytes(bytes, 1, Math.min(bytes.length - 1, 257));
      }
      hash.addNumber(0);
    }
    return hash.value;
  };
  const turns = messages.map((_message, n) => hashOf(messages.slice(0, messages.length - n))).slice(0, 32);
  const firstUser = messages.findIndex(({ role }) => role === 'user');
  return { opening: firstUser === -1 ? turns[0] : hashOf(messages.slice(0, firstUser + 1)), turns };
}

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.string({ maxLength: 12 }).map((some) => `${some}"\\\n`.repeat(30)),
  fc.integer({ min: 240, max: 1200 }).map((length) => 'é漢a'.repeat(length)),
);
const mark = { cache_control: { type: 'ephemeral', ttl: '5m' } };
const part = fc.oneof(
  text.map((some) => ({ type: 'text', text: some })),
  text.map((some) => ({ type: 'text', text: some, ...mark })),
  text.map((some) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${some}` } })),
);
const message: fc.Arbitrary<Message> = fc.oneof(
  fc.record({
    role: fc.constantFrom('system', 'user', 'assistant', 'tool'),
    content: fc.oneof(text, fc.array(part, { maxLength: 3 }), fc.constant(null)),
  }),
  fc.record({
    role: fc.constant('assistant'),
    tool_calls: fc.array(
      fc.record({ id: text, type: fc.constant('function'), function: fc.record({ arguments: text }) }),
      { maxLength: 2 },
    ),
  }),
);
const messages = fc.array(message, { maxLength: 40 });

describe('the hash of a conversation', () => {
  it('is that of its parsed messages, wherever the body is cut', () => {
    fc.assert(
      fc.property(messages, fc.boolean(), fc.array(fc.nat(), { maxLength: 8 }), (some, isLast, cuts) => {
        const rest = { user: 'u1', tools: [{ type: 'function', function: { name: 'look' } }] };
        const body = isLast
          ? { model: 'm', ...rest, messages: some }
          : { model: 'm', messages: some, ...rest };
        expect(read(body, cuts)).toMatchObject(reference(some));
      }),
      { numRuns: runs(500) },
    );
  });

  it('of a turn is among those of the next one, and its opening stays', () => {
    fc.assert(
      fc.property(messages, fc.array(message, { minLength: 1, maxLength: 31 }), (before, more) => {
        fc.pre(before.some(({ role }) => role === 'user'));
        const [one, next] = [before, [...before, ...more]].map((some) =>
          read({ model: 'm', messages: some }),
        );
        expect(next!.turns).toContain(one!.turns[0]);
        expect(next!.opening).toBe(one!.opening);
      }),
      { numRuns: runs(300) },
    );
  });

  it('differs where a text, its length or the order of messages does', () => {
    const [a, b] = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ] as const;
    const long = 'x'.repeat(300);
    const all = [
      [a],
      [b],
      [a, b],
      [b, a],
      [a, a],
      [{ role: 'user', content: 'aa' }],
      [{ role: 'user', content: long }],
      [{ role: 'user', content: `${long}x` }],
      [{ role: 'usera', content: '' }],
    ].map((some) => read({ model: 'm', messages: some }).turns[0]);
    expect(new Set(all).size).toBe(all.length);
  });

  it('is the same for a text and for one part of text, marked or not', () => {
    const contents = ['hi', [{ type: 'text', text: 'hi' }], [{ type: 'text', text: 'hi', ...mark }]];
    const all = contents.map(
      (content) => read({ model: 'm', messages: [{ role: 'user', content }] }).turns[0],
    );
    expect(new Set(all).size).toBe(1);
  });

  it('keeps the last 32 ends of messages of any number', () => {
    const many = Array.from({ length: 500 }, (_, n) => ({ role: 'user', content: `${n}` }));
    expect(read({ model: 'm', messages: many }).turns).toEqual(reference(many).turns);
    expect(read({ model: 'm', messages: many }).turns).toHaveLength(32);
  });

  it('is nothing for no messages', () => {
    expect(read({ model: 'm', messages: [] })).toEqual({
      promptCacheKey: undefined,
      user: undefined,
      opening: undefined,
      turns: [],
    });
  });
});

describe('the other fields', () => {
  it('are read where they are texts', () => {
    const { promptCacheKey, user } = read({ model: 'm', messages: [], prompt_cache_key: 'k', user: 'u' });
    expect([promptCacheKey, user].every(Number.isSafeInteger)).toBe(true);
    expect(promptCacheKey).not.toBe(user);
    const none = read({ model: 'm', messages: [], prompt_cache_key: 7, user: null, safety_identifier: '' });
    expect([none.promptCacheKey, none.user]).toEqual([undefined, undefined]);
  });

  it('of settings in another object are not', () => {
    const { promptCacheKey, user } = read({
      model: 'm',
      messages: [{ role: 'user', content: '', user: 'x', prompt_cache_key: 'x' }],
      extra_body: { prompt_cache_key: 'x', user: 'x' },
    });
    expect([promptCacheKey, user]).toEqual([undefined, undefined]);
  });

  it('are not read without the option', () => {
    const scanner = new ChatRequestScanner({ sticky: resolveSticky({ by: ['header:x-session-id'] }) });
    scanner.write(Buffer.from('{"model":"m","messages":[],"user":"u"}'));
    expect(scanner.end().conversation).toBeUndefined();
  });
});
