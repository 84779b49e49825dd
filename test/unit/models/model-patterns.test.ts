import { describe, expect, it } from 'vitest';

import { ModelPatterns } from '../../../src/options/model-patterns.ts';

const allows = (pattern: string, id: string): boolean => new ModelPatterns([pattern]).allows(id);

describe('a pattern of models', () => {
  it.each([
    ['openai/gpt-4o', 'openai/gpt-4o'],
    ['openai/*', 'openai/gpt-4o'],
    ['openai/*', 'openai/'],
    ['openai/*', 'openai/ft/gpt-4o'],
    ['*', 'anything'],
    ['*/gpt-4o', 'azure/gpt-4o'],
    ['*-mini', 'a-mini-mini'],
    ['openai/*-mini', 'openai/gpt-4o-mini'],
    ['a*b*c', 'a-b-b-c'],
    ['a**c', 'ac'],
  ])('%s allows %s', (pattern, id) => {
    expect(allows(pattern, id)).toBe(true);
  });

  it.each([
    ['openai/gpt-4o', 'openai/gpt-4o-mini'],
    ['openai/gpt-4o', 'x-openai/gpt-4o'],
    ['openai/*', 'OpenAI/gpt-4o'],
    ['openai/*', 'xopenai/gpt-4o'],
    ['*-mini', 'gpt-mini-4o'],
    ['ab*ba', 'aba'],
    ['a*b*c', 'a-c-b'],
    ['openai/gpt.4o', 'openai/gptx4o'],
    ['', 'x'],
  ])('%s does not allow %s', (pattern, id) => {
    expect(allows(pattern, id)).toBe(false);
  });

  it('takes no longer for a pattern of many asterisks', () => {
    // With backtracking it would not end before the test's time is over.
    expect(allows(`${'*a'.repeat(120)}b`, 'a'.repeat(256))).toBe(false);
  });
});
