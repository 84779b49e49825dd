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
  it('are those of the provider, or the one', () => {
    const { byHand } = start();
    const at = new Date(1000);
    byHand.eject('openai', { at }, 'gpt-5');
    expect(byHand.of(target('openai', 'gpt-5'), 2000)).toEqual({ at });
    expect(byHand.of(target('openai', 'gpt-4'), 2000)).toBeUndefined();
    byHand.eject('openai', { at, reason: 'all' });
    expect(byHand.of(target('openai', 'gpt-4'), 2000)).toEqual({ at, reason: 'all' });
    expect(byHand.of(target('groq', 'gpt-5'), 2000)).toBeUndefined();
    byHand.readmit('openai', 'gpt-5');
    expect(byHand.of(target('openai', 'gpt-5'), 2000)).toEqual({ at, reason: 'all' });
    byHand.readmit('openai');
    expect(byHand.isEmpty).toBe(true);
  });

  it('may be those of the pattern *, which is not the provider', () => {
    const { byHand, changes } = start();
    byHand.eject('openrouter', { at: new Date(1000) }, '*');
    expect(byHand.of(target('openrouter', '*'), 2000)).toBeDefined();
    expect(byHand.of(target('openrouter', 'gpt-5'), 2000)).toBeUndefined();
    byHand.eject('openrouter', { at: new Date(1000) });
    expect(changes.map(({ model, wholeProvider }) => [model, wholeProvider])).toEqual([
      ['*', undefined],
      ['*', true],
    ]);
  });

  it('come back by themselves when their time is over, which is told once', () => {
    const { byHand, changes } = start();
    byHand.eject('openai', { at: new Date(1000), until: new Date(5000) }, 'gpt-5');
    expect(byHand.of(target('openai', 'gpt-5'), 4999)).toBeDefined();
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
