import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter, MemoryStore } from '../../../src/index.ts';
import { policyFrom } from '../../../src/cli/commands/key-options.ts';
import { policyText } from '../../../src/keys/key-policy.ts';
import { hasLabel, parseRequirements, requiredLabels } from '../../../src/options/labels.ts';

const LABELS = { region: 'eu', zdr: true, training: false };

function matches(required: unknown): boolean {
  const requirements = parseRequirements(required, 'require');
  return requiredLabels(requirements, 'key').every((label) => hasLabel(LABELS, label));
}

describe('labels', () => {
  it.each([
    ['nothing', {}, true],
    ['a word', { region: 'eu' }, true],
    ['a word in capitals', { region: 'EU' }, true],
    ['one of several', { region: ['ch', 'eu'] }, true],
    ['another word', { region: 'us' }, false],
    ['a boolean', { training: false }, true],
    ['the other boolean', { zdr: false }, false],
    ['a label that the target does not have', { quantization: 'fp8' }, false],
    ['false, of a label that it does not have', { audited: false }, false],
    ['a name that every object has', { constructor: 'object' }, false],
    ['one that matches and one that does not', { region: 'eu', zdr: false }, false],
  ])('are matched by %s', (_name, required, expected) => {
    expect(matches(required)).toBe(expected);
  });

  it.each([
    [{ zdr: 'yes' }, 'require.zdr must be a boolean, got "yes"'],
    [{ region: true }, 'require.region must be a word of 1 to 64 visible characters, got true'],
    [{ region: 'the moon' }, 'require.region must be a word of 1 to 64 visible characters, got "the moon"'],
    [{ audited: 'true' }, 'require.audited must be true, false or a word'],
    [{ region: [] }, 'or a list of 1 to 16, got []'],
    [{ Region: 'eu' }, 'named with 1 to 32 lowercase letters, digits and _'],
    ['eu', 'require must be an object of labels, got "eu"'],
    [Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`l${n}`, true])), 'at most 16 labels, got 17'],
  ])('are refused with a name: %j', (required, message) => {
    expect(() => parseRequirements(required, 'require')).toThrow(message);
  });

  it('are refused by name when a router is made', () => {
    const make = (labels: unknown): unknown =>
      createChatCompletionsRouter({
        store: new MemoryStore(),
        providers: { a: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk-a' } },
        models: {
          'acme/fast': {
            targets: [{ provider: 'a', model: 'x', labels: labels as { region: string } }],
            pricing: 'free',
          },
        },
      });
    expect(() => make({ zdr: 'true' })).toThrow(
      'models["acme/fast"].targets[0].labels.zdr must be a boolean, got "true"',
    );
    expect(() => make(['eu'])).toThrow('models["acme/fast"].targets[0].labels must be an object of labels');
  });

  it('are written on the command line, and shown', () => {
    const policy = policyFrom({ require: 'region=eu+ch,zdr=true,training=false' });
    expect(policy).toEqual({ require: { region: ['eu', 'ch'], zdr: true, training: false } });
    expect(policyText(policy)).toBe('requires region=eu|ch, zdr=true, training=false');
  });
});
