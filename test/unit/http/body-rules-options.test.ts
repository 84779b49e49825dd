import { describe, expect, it } from 'vitest';

import { type ChatCompletionsRouterOptions, createChatCompletionsRouter } from '../../../src/index.ts';

describe('rules that can only be a mistake', () => {
  it.each<[string, unknown, RegExp]>([
    [
      'an unknown key',
      { remove: ['a'] },
      /\.body has an unknown key "remove"; it takes set, default, drop, rename$/,
    ],
    ['no object', { set: ['a'] }, /\.body\.set must be an object/],
    ['no list', { drop: 'a' }, /\.body\.drop must be a list of names of fields, got "a"$/],
    ['a nested name', { drop: ['a.b'] }, /\.body\.drop must be .*top-level/],
    ['a long name', { set: { ['a'.repeat(33)]: 1 } }, /\.body\.set must be .*32/],
    ['no JSON', { set: { a: new Date(0) } }, /\.body\.set\.a must be a JSON value, or a function/],
    ['undefined', { default: { a: undefined } }, /\.body\.default\.a must be a JSON value/],
    [
      'the model',
      { set: { MODEL: 'x' } },
      /\.body\.set must not name "MODEL": the router bills or acts by it$/,
    ],
    ['messages', { drop: ['messages'] }, /\.body\.drop must not name "messages"/],
    [
      'a new limit',
      { set: { max_tokens: 1 } },
      /\.body\.set must not name "max_tokens": give maxOutputTokens/,
    ],
    ['no limit', { drop: ['max_completion_tokens'] }, /must not name "max_completion_tokens"/],
    ['another limit', { set: { num_predict: 1 } }, /must not name "num_predict": what is held/],
    [
      'a limit as something else',
      { rename: { max_tokens: 'length' } },
      /\.body\.rename\.max_tokens: max_tokens and/,
    ],
    [
      'something else as a limit',
      { rename: { length: 'max_tokens' } },
      /\.body\.rename\.length: max_tokens and/,
    ],
    [
      'what may ask for tools of the provider',
      { rename: { mine: 'Google' } },
      /\.body\.rename\.mine must not name "Google": what the request can cost depends on it$/,
    ],
    ['a choice of them', { rename: { mine: 'tool_choice' } }, /must not name "tool_choice"/],
    ['writes for an hour', { set: { cache_control: { ttl: '1h' } } }, /must not name "cache_control"/],
    [
      'writes for an hour, in Moonshot’s words',
      { set: { prompt_cache_options: { ttl: '1h' } } },
      /must not name "prompt_cache_options"/,
    ],
    ['Google’s tools', { default: { google: { tools: [] } } }, /must not name "google"/],
    ['a tool’s choice', { set: { tool_choice: 'auto' } }, /must not name "tool_choice"/],
    ['a longer cache', { rename: { mine: 'cache_control' } }, /must not name "cache_control"/],
    ['tools', { set: { tools: [] } }, /must not name "tools": what the request can cost depends on it$/],
    ['a refused field', { drop: ['provider'] }, /must not name "provider": clients may not send it/],
    ['itself', { rename: { a: 'A' } }, /\.body\.rename\.a must be a different name, got "A"$/],
    ['two rules', { set: { a: 1 }, drop: ['a'] }, /\.body has two rules for "a" \(set and drop\): use one$/],
    ['a rename onto a rule', { default: { b: 1 }, rename: { a: 'b' } }, /\.body has two rules for "b"/],
    ['two renames onto one', { rename: { a: 'c', b: 'c' } }, /\.body has two rules for "c"/],
  ])('are refused: %s', (_, body, message) => {
    expect(withTarget(body)).toThrow(TypeError);
    expect(withTarget(body)).toThrow(message);
    expect(withProvider(body)).toThrow(message);
    expect(withTarget(body)).toThrow(/^models\["m"\]\.targets\[0\]\.body/);
    expect(withProvider(body)).toThrow(/^providers\["p"\]\.body/);
  });

  it('are refused where a provider’s and a target’s don’t go together', () => {
    const both = (): unknown => make({ body: { rename: { a: 'b' } } }, { set: { b: 1 } });
    expect(both).toThrow(
      /^models\["m"\]\.targets\[0\]\.body, combined with the provider's rules, has two rules for "b"/,
    );
  });

  it('are refused where a preset’s server doesn’t obey what a limit is renamed to, unless the operator says so', () => {
    const rules = { rename: { max_tokens: 'max_completion_tokens' } };
    expect(() => make({ preset: 'mistral', apiKey: 'k', body: rules })).toThrow(
      /^providers\["p"\]\.body\.rename: the provider is not known to obey max_completion_tokens; .*outputLimitField$/,
    );
    expect(() =>
      make({ preset: 'mistral', apiKey: 'k', outputLimitField: 'max_completion_tokens', body: rules }),
    ).not.toThrow();
  });
});

function withTarget(body: unknown): () => unknown {
  return () => make({}, body);
}

function withProvider(body: unknown): () => unknown {
  return () => make({ body });
}

function make(provider: object, body?: unknown): unknown {
  const target = { provider: 'p', model: 'x', ...(body !== undefined && { body }) };
  return createChatCompletionsRouter({
    store: 'memory:',
    providers: { p: { baseURL: 'http://127.0.0.1:1/v1', ...provider } },
    models: { m: { targets: [target], pricing: 'free' } },
  } as ChatCompletionsRouterOptions);
}
