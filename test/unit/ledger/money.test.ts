import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatUsd, MAX_AMOUNT, parseUsd } from '../../../src/ledger/contract/money.ts';

describe('parseUsd', () => {
  it.each([
    ['25', 25_000_000_000n],
    ['25.00', 25_000_000_000n],
    ['0.000000125', 125n],
    ['0.1', 100_000_000n],
    ['-0.01', -10_000_000n],
    ['007', 7_000_000_000n],
    ['-0', 0n],
  ])('reads %s exactly', (text, amount) => {
    expect(parseUsd(text, 'amount')).toBe(amount);
  });

  it.each(['', ' 1', '1 ', '1.', '.5', '+1', '1e3', '1,000', '0x1', '1.0000000001', '١', 'NaN', '1\n'])(
    'refuses %j',
    (text) => {
      expect(() => parseUsd(text, 'grant amount')).toThrow(/^grant amount must be a decimal string of USD/);
    },
  );

  it('refuses a number, which may have been rounded already', () => {
    // @ts-expect-error A host may well be written in JavaScript.
    expect(() => parseUsd(25, 'amount')).toThrow(/got 25$/);
  });

  it('reads the largest amount and refuses the next', () => {
    expect(parseUsd('9007199.254740991', 'amount')).toBe(MAX_AMOUNT);
    expect(() => parseUsd('9007199.254740992', 'amount')).toThrow(
      /^amount must be at most 9007199.254740991/,
    );
    expect(() => parseUsd('-9007199.254740992', 'amount')).toThrow(/^amount must be at most/);
    expect(() => parseUsd('10000000000', 'amount')).toThrow(/^amount must be at most/);
  });
});

describe('formatUsd', () => {
  it.each([
    [0n, '0.00'],
    [25_000_000_000n, '25.00'],
    [125n, '0.000000125'],
    [100_000_000n, '0.10'],
    [1_230_000_000n, '1.23'],
    [1_234_000_000n, '1.234'],
    [-10_000_000n, '-0.01'],
    [MAX_AMOUNT, '9007199.254740991'],
  ])('writes %s as %s', (amount, text) => {
    expect(formatUsd(amount)).toBe(text);
  });

  it('writes what parseUsd reads back', () => {
    fc.assert(
      fc.property(fc.bigInt(-MAX_AMOUNT, MAX_AMOUNT), (amount) => {
        expect(parseUsd(formatUsd(amount), 'amount')).toBe(amount);
      }),
    );
  });
});
