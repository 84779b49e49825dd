import { describe, expect, it } from 'vitest';

import { labelsFrom, labelsText } from '../../../src/page/keys/labels-text.ts';

describe('the labels of a form', () => {
  it.each<[string, NonNullable<ReturnType<typeof labelsFrom>>]>([
    ['region=eu', { region: 'eu' }],
    ['region=eu+ch, zdr=true, training=false', { region: ['eu', 'ch'], zdr: true, training: false }],
    ['{"region":"a+b"}', { region: 'a+b' }],
    ['{"region":["a,b","c=d"]}', { region: ['a,b', 'c=d'] }],
  ])('are written as %s, and read back', (text, labels) => {
    expect(labelsText(labels)).toBe(text);
    expect(labelsFrom(text)).toEqual(labels);
  });

  it('are none where there is nothing', () => {
    expect(labelsText(undefined)).toBe('');
    expect(labelsFrom(' ')).toBeNull();
  });

  it.each(['region', 'region=', '=eu', 'region=a=b', 'region=eu, region=us', '{"region"'])(
    'can’t be read from %s',
    (text) => {
      expect(labelsFrom(text)).toBeUndefined();
    },
  );
});
