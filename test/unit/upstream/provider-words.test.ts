import { describe, expect, it } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import type { CountedRequest } from '../../../src/upstream/provider-words.ts';
import { type LimitsLeft, limitsLeft } from '../../../src/upstream/rate-limits.ts';
import { Random } from '../../simulation/random.ts';

const MINUTE = 60_000;
const target = { provider: { name: 'groq' }, model: 'llama' } as unknown as Target;
const other = { ...target, model: 'qwen' } as Target;

function start(): { readonly capacity: Capacity; readonly pass: (ms: number) => void } {
  let now = 1000;
  return { capacity: new Capacity({ now: () => now }), pass: (ms) => (now += ms) };
}

const left = (requests: number, resetMs = MINUTE): LimitsLeft => ({
  exhaustedMs: 0,
  requests: { left: requests, resetMs },
});

it('a limit that is used up stays so, whatever an answer says of a shorter one', () => {
  const { capacity, pass } = start();
  for (const forMs of [5000, 1000]) capacity.exhausted(target, 'key', forMs);
  expect(capacity.exhaustedMs(target, 'key', 1)).toBe(5000);
  pass(4000);
  capacity.exhausted(target, 'key', 2000);
  expect(capacity.exhaustedMs(target, 'key', 1)).toBe(2000);
});

describe('what a provider says is left of its requests', () => {
  it('is counted down by those that are sent, until its limit resets', () => {
    const { capacity, pass } = start();
    const first = capacity.sent(target, 'key', 1);
    capacity.answered(target, 'key', first, left(9));
    capacity.sent(target, 'key', 1);
    expect([capacity.exhaustedMs(target, 'key', 1), capacity.concerns([target])]).toEqual([0, false]);
    pass(1000);
    for (let n = 0; n < 7; n++) capacity.sent(target, 'key', 1);
    // Requests look, as soon as several that are sent at once may be too many.
    expect([capacity.exhaustedMs(target, 'key', 1), capacity.concerns([target])]).toEqual([0, true]);
    capacity.sent(target, 'key', 1);
    expect([capacity.exhaustedMs(target, 'key', 1), capacity.concerns([target])]).toEqual([59_000, true]);
    expect([capacity.exhaustedMs(target, 'another', 1), capacity.exhaustedMs(other, 'key', 1)]).toEqual([
      0, 0,
    ]);
    pass(59_000);
    expect([capacity.exhaustedMs(target, 'key', 1), capacity.concerns([target])]).toEqual([0, false]);
  });

  it('is said anew by each answer, of the requests that were sent before its own', () => {
    const { capacity } = start();
    capacity.answered(target, '', capacity.sent(target, '', 1), left(3));
    const [one, two, three] = [
      capacity.sent(target, '', 1),
      capacity.sent(target, '', 1),
      capacity.sent(target, '', 1),
    ];
    expect(capacity.exhaustedMs(target, '', 1)).toBe(MINUTE);
    // Others gave some back: one more than the third, which runs.
    capacity.answered(target, '', two, left(2, 5000));
    expect(capacity.exhaustedMs(target, '', 1)).toBe(0);
    // An older word.
    capacity.answered(target, '', one, left(1));
    expect(capacity.exhaustedMs(target, '', 1)).toBe(0);
    capacity.sent(target, '', 1);
    expect(capacity.exhaustedMs(target, '', 1)).toBe(5000);
    capacity.answered(target, '', three, left(1, 4000));
    expect(capacity.exhaustedMs(target, '', 1)).toBe(4000);
  });

  it.each([
    [true, 0],
    [false, 40],
  ])('saves a provider what it would refuse: heeded, %s', (isHeeded, refusals) => {
    const { capacity, pass } = start();
    const random = new Random(7);
    const latency = 500;
    let [served, refused, inWindow] = [0, 0, 0];
    let answers: { at: number; number: CountedRequest; said: ReturnType<typeof limitsLeft> }[] = [];
    let arrival = 0;
    // Windows of a minute, of 600 requests each; 2,000 are offered.
    for (let now = 0; now < 4 * MINUTE; now++, pass(1)) {
      if (now % MINUTE === 0) inWindow = 0;
      for (; arrival <= now; arrival += (-Math.log(1 - random.next()) * MINUTE) / 2000) {
        if (capacity.exhaustedMs(target, '', 1) > 0) continue;
        const number = capacity.sent(target, '', 1);
        if (inWindow < 600) {
          inWindow += 1;
          served += 1;
        } else refused += 1;
        const resetMs = MINUTE - (now % MINUTE) - latency;
        const said = limitsLeft({
          'x-ratelimit-remaining-requests': String(600 - inWindow),
          'x-ratelimit-reset-requests': `${Math.max(0, resetMs)}ms`,
        });
        answers.push({
          at: now + latency,
          number,
          said: isHeeded ? said : { exhaustedMs: said.exhaustedMs },
        });
      }
      for (const { number, said } of answers.filter(({ at }) => at === now))
        capacity.answered(target, '', number, said);
      answers = answers.filter(({ at }) => at > now);
    }
    expect(served).toBeGreaterThan(0.99 * 4 * 600);
    if (refusals === 0) expect(refused).toBe(0);
    else expect(refused).toBeGreaterThan(refusals);
  });
});

describe('what a provider says is left of its tokens', () => {
  const tokens = (count: number, resetMs = MINUTE): LimitsLeft => ({
    exhaustedMs: 0,
    tokens: { left: count, resetMs },
  });

  it('is counted down by the estimate of each request, and too little for those that need more', () => {
    const { capacity, pass } = start();
    capacity.answered(target, '', capacity.sent(target, '', 1000), tokens(10_000));
    capacity.sent(target, '', 3000);
    expect(capacity.concerns([target])).toBe(false);
    capacity.sent(target, '', 3000);
    expect(capacity.concerns([target])).toBe(true);
    pass(1000);
    const waits = [4000, 4001, 20_000].map((each) => capacity.exhaustedMs(target, '', each));
    expect(waits).toEqual([0, 59_000, 59_000]);
    expect(capacity.exhaustedMs(other, '', 4001)).toBe(0);
    // Then also one that is larger than the limit may be sent.
    pass(59_000);
    expect(capacity.exhaustedMs(target, '', 20_000)).toBe(0);
  });

  it('is corrected by the usage of a request, unless a later word has counted it', () => {
    const { capacity } = start();
    capacity.answered(target, '', capacity.sent(target, '', 10), tokens(5000));
    const [silent, said] = [capacity.sent(target, '', 2000), capacity.sent(target, '', 2000)];
    expect(capacity.exhaustedMs(target, '', 1001)).toBe(MINUTE);
    silent.end(500);
    expect([2500, 2501].map((each) => capacity.exhaustedMs(target, '', each))).toEqual([0, MINUTE]);
    capacity.answered(target, '', said, tokens(1200));
    said.end(100);
    expect([1200, 1201].map((each) => capacity.exhaustedMs(target, '', each))).toEqual([0, MINUTE]);
  });

  it('are enough for a request of more than the whole limit while all of it is left', () => {
    const { capacity } = start();
    const all = { exhaustedMs: 0, tokens: { left: 5000, limit: 5000, resetMs: MINUTE } };
    capacity.answered(target, '', capacity.sent(target, '', 10), all);
    expect(capacity.exhaustedMs(target, '', 20_000)).toBe(0);
    capacity.sent(target, '', 1);
    expect(capacity.exhaustedMs(target, '', 20_000)).toBe(MINUTE);
  });

  it('holds for two seconds at least, as far as something is left', () => {
    const { capacity, pass } = start();
    capacity.answered(target, '', capacity.sent(target, '', 10), tokens(10, 50));
    pass(1999);
    expect(capacity.exhaustedMs(target, '', 11)).toBe(1);
    capacity.answered(target, '', capacity.sent(target, '', 10), {
      exhaustedMs: 50,
      tokens: { left: 0, resetMs: 50 },
    });
    expect(capacity.exhaustedMs(target, '', 11)).toBe(50);
    pass(50);
    expect(capacity.exhaustedMs(target, '', 11)).toBe(0);
  });
});
