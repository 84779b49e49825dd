import { describe, expect, it } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import type { HealthChange } from '../../../src/index.ts';
import { EjectionsByHand } from '../../../src/upstream/ejections-by-hand.ts';

const target = (provider: string, healthKey: string): Target =>
  ({ provider: { name: provider }, healthKey }) as Target;

function start() {
  const changes: HealthChange[] = [];
  return { changes, byHand: new EjectionsByHand((change) => changes.push(change)) };
}

describe('targets that an operator has ejected', () => {
  const at = new Date(1000);

  it('are those of the provider, or the one', () => {
    const { byHand } = start();
    const one = { provider: 'openai', model: 'gpt-5', ejection: { at } };
    const all = { provider: 'openai', ejection: { at, reason: 'all' } };
    byHand.replace([one]);
    expect(byHand.of(target('openai', 'gpt-5'), 2000)).toEqual({ at });
    expect(byHand.of(target('openai', 'gpt-4'), 2000)).toBeUndefined();
    byHand.replace([one, all]);
    expect(byHand.of(target('openai', 'gpt-4'), 2000)).toEqual({ at, reason: 'all' });
    expect(byHand.of(target('groq', 'gpt-5'), 2000)).toBeUndefined();
    byHand.replace([all]);
    expect(byHand.of(target('openai', 'gpt-5'), 2000)).toEqual({ at, reason: 'all' });
    byHand.replace([]);
    expect(byHand.isEmpty).toBe(true);
  });

  it('may be those of the pattern *, which is not the provider', () => {
    const { byHand, changes } = start();
    const pattern = { provider: 'openrouter', model: '*', ejection: { at } };
    byHand.replace([pattern]);
    expect(byHand.of(target('openrouter', '*'), 2000)).toBeDefined();
    expect(byHand.of(target('openrouter', 'gpt-5'), 2000)).toBeUndefined();
    byHand.replace([pattern, { provider: 'openrouter', ejection: { at } }]);
    expect(changes.map(({ model, wholeProvider }) => [model, wholeProvider])).toEqual([
      ['*', undefined],
      ['*', true],
    ]);
  });

  it('are told of when they are new, changed or gone, and not again', () => {
    const { byHand, changes } = start();
    const told = (): string[] =>
      changes.splice(0).map(({ type, provider, reason }) => `${type} ${provider} ${reason}`);
    const groq = { provider: 'groq', ejection: { at, reason: 'slow' } };
    byHand.replace([groq, { provider: 'openai', ejection: { at } }]);
    expect(told()).toEqual(['target_ejected groq slow', 'target_ejected openai undefined']);
    byHand.replace([
      { provider: 'groq', ejection: { at: new Date(1000), reason: 'slow' } },
      { provider: 'openai', ejection: { at, reason: 'wrong' } },
    ]);
    expect(told()).toEqual(['target_ejected openai wrong']);
    byHand.replace([groq]);
    expect(told()).toEqual(['target_recovered openai wrong']);
  });

  it('of a place count once, by the first', () => {
    const { byHand, changes } = start();
    const stopAt = { amount: '5.00', per: 'day' } as const;
    const stop = { provider: 'openai', ejection: { at, reason: 'cost', stopAt, until: new Date(9000) } };
    byHand.replace([{ provider: 'openai', ejection: { at, by: 'ada' } }, stop]);
    expect(byHand.ofProvider('openai', 2000)).toEqual({ at, by: 'ada' });
    byHand.replace([stop]);
    expect(changes).toMatchObject([
      { byHand: true, by: 'ada' },
      { type: 'target_ejected', wholeProvider: true, stopAt, reason: 'cost', retryAt: 9000 },
    ]);
    expect(changes[1]?.byHand).toBeUndefined();
  });

  it('come back by themselves when their time is over, which is told once', () => {
    const { byHand, changes } = start();
    byHand.replace([{ provider: 'openai', model: 'gpt-5', ejection: { at, until: new Date(5000) } }]);
    expect(byHand.of(target('openai', 'gpt-5'), 4999)).toBeDefined();
    byHand.expire(4999);
    expect(byHand.isEmpty).toBe(false);
    expect(byHand.of(target('openai', 'gpt-5'), 5000)).toBeUndefined();
    expect(byHand.of(target('openai', 'gpt-5'), 5001)).toBeUndefined();
    expect(byHand.isEmpty).toBe(true);
    expect(changes).toEqual([
      {
        type: 'target_ejected',
        provider: 'openai',
        model: 'gpt-5',
        failuresInARow: 0,
        byHand: true,
        retryAt: 5000,
      },
      { type: 'target_recovered', provider: 'openai', model: 'gpt-5', failuresInARow: 0, byHand: true },
    ]);
  });
});
