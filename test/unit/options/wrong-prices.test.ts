import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter, type ModelOptions } from '../../../src/index.ts';
import { PRICING } from '../../helpers/gateway.ts';

const PRIORITY = { priority: { factor: '2' } };

function model(fields: Partial<ModelOptions>): ModelOptions {
  return {
    targets: ['loopback/upstream-model'],
    pricing: { ...PRICING, serviceTiers: PRIORITY },
    contextWindow: 8192,
    maxOutputTokens: 1000,
    ...fields,
  };
}

describe('prices that can’t be right', () => {
  const refused = (fields: object): (() => unknown) => {
    return () =>
      createChatCompletionsRouter({
        store: 'memory:',
        providers: { loopback: { baseURL: 'http://127.0.0.1:1/v1' }, groq: { apiKey: 'k' } },
        models: { m: model(fields) },
      });
  };
  const M = 'models["m"]';

  it.each<[string, string, object]>([
    ['no price', `${M}.pricing.serviceTiers["flex"].input must be a decimal string`, { flex: {} }],
    [
      'half a price',
      `${M}.pricing.serviceTiers["flex"].output must be a decimal string`,
      { flex: { input: '1' } },
    ],
    [
      'a factor of 0',
      `${M}.pricing.serviceTiers["flex"].factor must be a decimal string above 0`,
      { flex: { factor: '0' } },
    ],
    ['a factor below 0', `${M}.pricing.serviceTiers["flex"].factor must be`, { flex: { factor: '-1' } }],
    ['a number', `${M}.pricing.serviceTiers["flex"].factor must be`, { flex: { factor: 2 } }],
    [
      'both',
      `${M}.pricing.serviceTiers["flex"] has an unknown key "input"`,
      { flex: { factor: '2', input: '1' } },
    ],
    [
      'a fee',
      `${M}.pricing.serviceTiers["flex"] has an unknown key "request"`,
      { flex: { input: '1', output: '1', request: '1' } },
    ],
    ['text', `${M}.pricing.serviceTiers["flex"] must be { factor } or { input, output, … }`, { flex: '2' }],
    [
      'the plain one',
      `${M}.pricing.serviceTiers["default"]: this tier has the standard price`,
      { default: { factor: '2' } },
    ],
    [
      'auto',
      `${M}.pricing.serviceTiers["auto"]: this tier has the standard price`,
      { auto: { factor: '2' } },
    ],
    [
      'another name',
      `${M}.pricing.serviceTiers["fast"]: "fast" is an alias of "priority"`,
      { fast: { factor: '2' } },
    ],
    [
      'a blank',
      `${M}.pricing.serviceTiers["a b"] isn't a valid name of a service tier`,
      { 'a b': { factor: '2' } },
    ],
  ])('name the option: %s', (_, message, serviceTiers) => {
    expect(refused({ pricing: { ...PRICING, serviceTiers } })).toThrow(message);
  });

  const target = (cost: object): object => ({ targets: [{ provider: 'loopback', model: 'm', cost }] });
  const ceiling = (prices: object = PRICING): object => ({ pricing: { reported: true, ceiling: prices } });
  const COSTS = `${M}.targets[0].cost`;
  it.each<[string, object]>([
    [`${M}.maxOutputTokens (1000) is above ${M}.contextWindow (999)`, { contextWindow: 999 }],
    [
      `${M}.pricing.ceiling.output is below that of ${COSTS}: holds are calculated from the ceiling`,
      { ...ceiling(), ...target({ input: '1', output: '3.01' }) },
    ],
    [
      `${M}.pricing.ceiling.output is below that of ${COSTS}.ceiling`,
      { ...ceiling(), ...target({ reported: true, ceiling: { ...PRICING, reasoningOutput: '4' } }) },
    ],
    [
      `${M}.pricing.ceiling.input for prompts above 100 tokens is below`,
      { ...ceiling(), ...target({ ...PRICING, tiers: [{ above: 100, input: '2', output: '3' }] }) },
    ],
    [
      `${M}.pricing.ceiling.webSearch is below`,
      { ...ceiling({ ...PRICING, webSearch: '0.01' }), ...target({ ...PRICING, webSearch: '0.02' }) },
    ],
    [
      `${M}.pricing.ceiling.serviceTiers["priority"].input is below that of ${COSTS}.serviceTiers["priority"]`,
      {
        ...ceiling({ ...PRICING, serviceTiers: PRIORITY }),
        ...target({ ...PRICING, serviceTiers: { priority: { factor: '2.5' } } }),
      },
    ],
    [
      `${M}.targets[0].pricing.ceiling.input is below`,
      {
        targets: [{ provider: 'loopback', model: 'm', cost: { input: '2', output: '1' }, ...ceiling() }],
      },
    ],
  ])('name both options that contradict each other: %s', (message, fields) => {
    expect(refused(fields)).toThrow(TypeError);
    expect(refused(fields)).toThrow(message);
  });

  it.each<[string, object]>([
    [
      'a ceiling that its markup lifts',
      { ...ceiling(), ...target({ input: '2', output: '6' }), markup: { factor: '2' } },
    ],
    ['a ceiling with a discount', { ...ceiling(), ...target(PRICING), markup: { factor: '0.5' } }],
    [
      'a ceiling whose other prices cover it',
      { ...ceiling({ ...PRICING, cachedInput: '0.1' }), ...target({ input: '1', output: '3' }) },
    ],
    ['a price, which may be a loss', target({ input: '2', output: '6' })],
  ])('are none of these: %s', (_, fields) => {
    expect(refused(fields)).not.toThrow();
  });

  const groq = [{ provider: 'groq', model: 'm', cost: 'reported' }];
  it.each<[string, object]>([
    [
      `${M}.serviceTiers["flex"].factor must be`,
      { pricing: PRICING, serviceTiers: { flex: { factor: '0' } } },
    ],
    [`${M}.serviceTiers must be { priority: { factor }`, { pricing: PRICING, serviceTiers: null }],
    [
      `${M}.pricing.ceiling must be { input, output, … }, got "free"`,
      { pricing: { reported: true, ceiling: 'free' } },
    ],
    [
      `${M}.serviceTiers: a 'free' model can't have priced service tiers`,
      { pricing: 'free', serviceTiers: PRIORITY },
    ],
    [`${M}.pricing.serviceTiers and ${M}.serviceTiers are both given`, { serviceTiers: PRIORITY }],
    [
      `${M}.pricing.tiers[0].cacheWriteHourInput is missing`,
      { pricing: { ...PRICING, cacheWriteHourInput: '2', tiers: [{ above: 10, input: '1', output: '1' }] } },
    ],
    [`${M}.pricing is 'reported': give { reported: true, ceiling`, { pricing: 'reported' }],
    [`${M}.pricing.ceiling is missing`, { pricing: { reported: true } }],
    [
      `${M}.pricing.ceiling must have prices above 0`,
      { pricing: { reported: true, ceiling: { input: '0', output: '0' } } },
    ],
    [`${M}.pricing.reported must be true`, { pricing: { reported: false, ceiling: PRICING } }],
    [`${M}.pricing.ceiling.output must be`, { pricing: { reported: true, ceiling: { input: '1' } } }],
    [
      `${M}.pricing has an unknown key "input"`,
      { pricing: { reported: true, ceiling: PRICING, input: '1' } },
    ],
    [`${M}.targets[0].cost is the reported cost, but "groq" (groq) reports none`, { targets: groq }],
  ])('name the option: %s', (message, fields) => {
    expect(refused(fields)).toThrow(message);
  });
});
