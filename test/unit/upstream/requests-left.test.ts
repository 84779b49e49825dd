import { describe, expect, it } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { limitsLeft } from '../../../src/upstream/rate-limits.ts';
import { Random } from '../../simulation/random.ts';

const MINUTE = 60_000;
const target = { provider: { name: 'groq' }, model: 'llama' } as unknown as Target;
const other = { ...target, model: 'qwen' } as Target;

function start(): { readonly capacity: Capacity; readonly pass: (ms: number) => void } {
  let now = 1000;
  return { capacity: new Capacity({ now: () => now }), pass: (ms) => (now += ms) };
}

const left = (requests: number, resetMs = MINUTE): Parameters<Capacity['answered']>[3] => ({
  exhaustedMs: 0,
  requests: { left: requests, resetMs },
});

describe('what a provider says is left of its requests', () => {
  it('is counted down by those that are sent, until its limit resets', () => {
    const { capacity, pass } = start();
    const first = capacity.sent(target, 'key');
    capacity.answered(target, 'key', first, left(2));
    capacity.sent(target, 'key');
    expect([capacity.exhaustedMs(target, 'key'), capacity.concerns([target])]).toEqual([0, false]);
    pass(1000);
    capacity.sent(target, 'key');
    expect([capacity.exhaustedMs(target, 'key'), capacity.concerns([target])]).toEqual([59_000, true]);
    expect([capacity.exhaustedMs(target, 'another'), capacity.exhaustedMs(other, 'key')]).toEqual([0, 0]);
    pass(59_000);
    expect([capacity.exhaustedMs(target, 'key'), capacity.concerns([target])]).toEqual([0, false]);
  });

  it('is said anew by each answer, of the requests that were sent before its own', () => {
    const { capacity } = start();
    capacity.answered(target, '', capacity.sent(target, ''), left(3));
    const [one, two, three] = [
      capacity.sent(target, ''),
      capacity.sent(target, ''),
      capacity.sent(target, ''),
    ];
    expect(capacity.exhaustedMs(target, '')).toBe(MINUTE);
    // Others gave some back: one more than the third, which runs.
    capacity.answered(target, '', two, left(2, 5000));
    expect(capacity.exhaustedMs(target, '')).toBe(0);
    // An older word.
    capacity.answered(target, '', one, left(1));
    expect(capacity.exhaustedMs(target, '')).toBe(0);
    capacity.sent(target, '');
    expect(capacity.exhaustedMs(target, '')).toBe(5000);
    capacity.answered(target, '', three, left(1, 4000));
    expect(capacity.exhaustedMs(target, '')).toBe(4000);
  });

  it.each([
    [true, 0],
    [false, 40],
  ])('saves a provider what it would refuse: heeded, %s', (isHeeded, refusals) => {
    const { capacity, pass } = start();
    const random = new Random(7);
    const latency = 500;
    let [served, refused, inWindow] = [0, 0, 0];
    let answers: { at: number; number: number; said: ReturnType<typeof limitsLeft> }[] = [];
    let arrival = 0;
    // Windows of a minute, of 600 requests each; 2,000 are offered.
    for (let now = 0; now < 4 * MINUTE; now++, pass(1)) {
      if (now % MINUTE === 0) inWindow = 0;
      for (; arrival <= now; arrival += (-Math.log(1 - random.next()) * MINUTE) / 2000) {
        if (capacity.exhaustedMs(target, '') > 0) continue;
        const number = capacity.sent(target, '');
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
