import { describe, expect, it } from 'vitest';

import {
  exhaustedMs,
  limitedMs,
  limitsLeft,
  rateLimitsIn,
  retryAfterMs,
} from '../../../src/upstream/rate-limits.ts';

const NOW = Date.parse('2026-11-22T10:00:00Z');

describe('what a provider says of its limits', () => {
  it.each<[string, Record<string, string>, number]>([
    [
      'OpenAI, requests',
      { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '6m0s' },
      360_000,
    ],
    ['OpenAI, tokens', { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '120ms' }, 120],
    ['Groq', { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '2m59.56s' }, 179_560],
    [
      'Anthropic',
      {
        'anthropic-ratelimit-requests-remaining': '0',
        'anthropic-ratelimit-requests-reset': '2026-11-22T10:00:12Z',
      },
      12_000,
    ],
    [
      'Cerebras',
      { 'x-ratelimit-remaining-requests-day': '0', 'x-ratelimit-reset-requests-day': '33.5' },
      33_500,
    ],
    ['OpenRouter', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW + 9000) }, 9000],
    ['SambaNova', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW / 1000 + 9) }, 9000],
    ['the draft', { 'ratelimit-remaining': '0', 'ratelimit-reset': '4' }, 4000],
    ['Azure, which says no time', { 'x-ratelimit-remaining-tokens': '0' }, 1000],
    [
      'one of several limits',
      { 'x-ratelimit-remaining-tokens': '5', 'ratelimit-remaining': '-1', 'ratelimit-reset': '2' },
      2000,
    ],
    [
      'a day that is longer than an hour',
      { 'ratelimit-remaining': '0', 'ratelimit-reset': '86400' },
      3_600_000,
    ],
    ['nonsense', { 'ratelimit-remaining': '0', 'ratelimit-reset': 'soon'.repeat(1000) }, 1000],
    ['something left', { 'x-ratelimit-remaining-requests': '1', 'x-ratelimit-reset-requests': '6m0s' }, 0],
    ['nothing of it', { 'x-ratelimit-remaining-requests': '', 'content-type': 'text/plain' }, 0],
  ])('is read as %s writes it', (_who, headers, ms) => {
    expect(exhaustedMs(headers, NOW)).toBe(ms);
  });

  it('has the limits of requests and of tokens with the fewest left', () => {
    const headers = {
      'x-ratelimit-remaining-tokens': '4000.5',
      'x-ratelimit-reset-tokens': '90ms',
      'anthropic-ratelimit-tokens-limit': '80000',
      'anthropic-ratelimit-tokens-remaining': '3000',
      'anthropic-ratelimit-tokens-reset': '2026-11-22T10:00:12Z',
      'anthropic-ratelimit-output-tokens-remaining': '100',
      'anthropic-ratelimit-input-tokens-remaining': '50',
      'x-ratelimit-remaining-requests-day': '900',
      'x-ratelimit-remaining-requests': '20',
      'x-ratelimit-reset-requests': '30s',
    };
    expect(limitsLeft(headers, NOW)).toEqual({
      exhaustedMs: 0,
      requests: { left: 20, resetMs: 30_000 },
      tokens: { left: 3000, limit: 80_000, resetMs: 12_000 },
    });
    expect(limitsLeft({ 'x-ratelimit-remaining': '7' }).requests).toEqual({ left: 7, resetMs: 1000 });
    expect(
      limitsLeft({
        'x-ratelimit-remaining-tokens': '-7',
        'x-ratelimit-reset-tokens': '4',
        'ratelimit-remaining': 'x',
      }),
    ).toEqual({ exhaustedMs: 4000, tokens: { left: 0, resetMs: 4000 } });
    expect(limitsLeft({ 'x-ratelimit-remaining-images': '7' })).toEqual({ exhaustedMs: 0 });
  });

  it.each(['1e308', '9223372036854775807', '1000000000001'])(
    'takes %s left for no more than plenty',
    (left) => {
      const said = { left: 1e12, resetMs: 1000 };
      expect(limitsLeft({ 'x-ratelimit-remaining-requests': left }).requests).toEqual(said);
    },
  );

  it.each(['anthropic-ratelimit-input-tokens-remaining', 'x-ratelimit-remaining-tokens-prompt'])(
    'counts only the zero of %s, as it is not of all tokens',
    (name) => {
      expect(limitsLeft({ [name]: '5' })).toEqual({ exhaustedMs: 0 });
      expect(limitsLeft({ [name]: '0' })).toEqual({ exhaustedMs: 1000 });
    },
  );

  it.each<[Record<string, string>, number | undefined]>([
    [{ 'retry-after': '3' }, 3000],
    [{ 'retry-after': '3', 'retry-after-ms': '2500' }, 2500],
    [{ 'retry-after': 'Sun, 22 Nov 2026 10:00:07 GMT' }, 7000],
    [{ 'retry-after': 'Sun, 22 Nov 2026 09:00:07 GMT' }, 0],
    [{ 'retry-after': 'later' }, undefined],
    [{}, undefined],
  ])('asks to be left alone by %j', (headers, ms) => {
    expect(retryAfterMs(headers, NOW)).toBe(ms);
  });

  it('limits a key for a while, and not for ever', () => {
    expect(limitedMs({})).toBe(1000);
    expect(limitedMs({ 'retry-after': '0' })).toBe(1);
    expect(limitedMs({ 'retry-after': '1e30' })).toBe(3_600_000);
    expect(limitedMs({ 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '3s' })).toBe(3000);
  });
});

describe("what is left of a key's limits, for operators", () => {
  it.each<[string, Record<string, string>, ReturnType<typeof rateLimitsIn>]>([
    [
      'OpenAI',
      {
        'x-ratelimit-limit-requests': '5000',
        'x-ratelimit-remaining-requests': '4999',
        'x-ratelimit-reset-requests': '12ms',
        'x-ratelimit-limit-tokens': '800000',
        'x-ratelimit-remaining-tokens': '799000',
        'x-ratelimit-reset-tokens': '6m0s',
      },
      [
        { name: 'requests', limit: 5000, remaining: 4999, resetMs: 12 },
        { name: 'tokens', limit: 800_000, remaining: 799_000, resetMs: 360_000 },
      ],
    ],
    [
      'Anthropic',
      {
        'anthropic-ratelimit-input-tokens-limit': '50000',
        'anthropic-ratelimit-input-tokens-remaining': '49000',
        'anthropic-ratelimit-input-tokens-reset': '2026-11-22T10:00:12Z',
      },
      [{ name: 'input-tokens', limit: 50_000, remaining: 49_000, resetMs: 12_000 }],
    ],
    [
      'Cerebras',
      { 'x-ratelimit-limit-requests-day': '14400', 'x-ratelimit-remaining-requests-day': '7' },
      [{ name: 'requests-day', limit: 14_400, remaining: 7 }],
    ],
    ['OpenRouter', { 'x-ratelimit-remaining': '3' }, [{ name: 'requests', remaining: 3 }]],
    ['words', { 'x-ratelimit-remaining': 'many', 'ratelimit-remaining': '' }, []],
    ['none', { 'content-type': 'application/json' }, []],
  ])('is read of %s', (_name, headers, left) => {
    expect(rateLimitsIn(headers, NOW)).toEqual(left);
  });
});
