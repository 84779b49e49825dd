import { describe, expect, it } from 'vitest';

import { page as usagePage } from '../../../src/admin/page.ts';
import { createFigures } from '../../../src/admin/page/figures.ts';

describe('the figures of the usage page', () => {
  const figures = createFigures();

  it('are sums of decimal strings, exact to the nano-dollar', () => {
    expect(figures.nanos('9007199.254740993')).toBe(9_007_199_254_740_993n);
    expect(figures.nanos('-0.35')).toBe(-350_000_000n);
    expect(figures.nanos(undefined)).toBe(0n);
  });

  it('count a margin only for what has a known cost', () => {
    const row = {
      requests: 1,
      errors: 0,
      aborted: 0,
      prompt_tokens: 0,
      cached_tokens: 0,
      completion_tokens: 0,
    };
    const sums = figures.sum([
      { ...row, charged: '1.20', cost: '1.00' },
      { ...row, charged: '5.00', cost: '0.00' },
    ]);
    expect(sums).toMatchObject({ charged: 6_200_000_000n, cost: 1_000_000_000n, costed: 1_200_000_000n });
  });

  it.each([
    ['0', '$0.00'],
    ['1234.567', '$1,234.57'],
    ['-0.35', '−$0.35'],
    ['0.0042', '$0.0042'],
    ['0.00021', '$0.00021'],
    ['0.000000009', '$0.000000009'],
  ])('write %s dollars as %s', (dollars, written) => {
    expect(figures.money(figures.nanos(dollars))).toBe(written);
  });

  it.each([
    [10.6, ['$0.00', '$2.50', '$5.00', '$7.50', '$10.00', '$12.50']],
    [140, ['$0', '$50', '$100', '$150']],
    [0.00021, ['$0.00000', '$0.00005', '$0.00010', '$0.00015', '$0.00020', '$0.00025']],
    [0.11, ['$0.000', '$0.025', '$0.050', '$0.075', '$0.100', '$0.125']],
    [5600, ['$0', '$2K', '$4K', '$6K']],
  ])('write the marks of an axis up to %d dollars so that each is another', (most, written) => {
    const ticks = figures.ticks(most * 1e9);
    expect(ticks.map((tick) => figures.axisMoney(tick, ticks[1] ?? 0))).toEqual(written);
  });

  it.each([
    [0, [0]],
    [1, [0, 1]],
    [12, [0, 5, 10, 15]],
    [106, [0, 25, 50, 75, 100, 125]],
    [873, [0, 200, 400, 600, 800, 1000]],
  ])('mark an axis that ends at %d evenly, at whole numbers', (most, ticks) => {
    expect(figures.ticks(most)).toEqual(ticks);
  });

  it('end with today, in UTC', () => {
    const now = Date.parse('2026-03-01T00:30:00Z');
    expect(figures.days(3, now)).toEqual(['2026-02-27', '2026-02-28', '2026-03-01']);
  });
});

describe('the usage page as a document', () => {
  const { html, contentSecurityPolicy } = usagePage();

  it('names no other place to load from', () => {
    const outside = html.match(/\b(?:https?:)?\/\/[\w.-]+\.\w+[^\s"')]*/g) ?? [];
    expect(new Set(outside)).toEqual(new Set(['http://www.w3.org/2000/svg']));
  });

  it('may run its own script and style, and nothing else', () => {
    const directives = contentSecurityPolicy.split('; ');
    expect(directives).toContain("default-src 'none'");
    expect(directives).toContain("connect-src 'self'");
    expect(contentSecurityPolicy).not.toMatch(/unsafe|\*|https?:/);
  });
});
