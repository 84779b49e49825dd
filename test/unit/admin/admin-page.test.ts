import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { build } from 'vite';
import { describe, expect, it } from 'vitest';

import { PAGE } from '../../../src/admin/page.ts';
import { axisMoney, lastDays, money, nanos } from '../../../src/page/format.ts';
import { ticks } from '../../../src/page/usage/axis.ts';
import { sum } from '../../../src/page/usage/sums.ts';
import { ModelTones } from '../../../src/page/usage/tones.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;

describe('the numbers of the usage page', () => {
  it('are sums of decimal strings, exact to the nano-dollar', () => {
    expect(nanos('9007199.254740993')).toBe(9_007_199_254_740_993n);
    expect(nanos('-0.35')).toBe(-350_000_000n);
    expect(nanos(undefined)).toBe(0n);
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
    const sums = sum([
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
    expect(money(nanos(dollars))).toBe(written);
  });

  it.each([
    [10.6, ['$0.00', '$2.50', '$5.00', '$7.50', '$10.00', '$12.50']],
    [140, ['$0', '$50', '$100', '$150']],
    [0.00021, ['$0.00000', '$0.00005', '$0.00010', '$0.00015', '$0.00020', '$0.00025']],
    [0.11, ['$0.000', '$0.025', '$0.050', '$0.075', '$0.100', '$0.125']],
    [5600, ['$0', '$2K', '$4K', '$6K']],
  ])('write the marks of an axis up to %d dollars so that each is another', (most, written) => {
    const marks = ticks(most * 1e9);
    expect(marks.map((mark) => axisMoney(mark, marks[1] ?? 0))).toEqual(written);
  });

  it.each([
    [0, [0]],
    [1, [0, 1]],
    [12, [0, 5, 10, 15]],
    [106, [0, 25, 50, 75, 100, 125]],
    [873, [0, 200, 400, 600, 800, 1000]],
  ])('mark an axis that ends at %d evenly, at whole numbers', (most, marks) => {
    expect(ticks(most)).toEqual(marks);
  });

  it('end with today, in UTC', () => {
    const now = Date.parse('2026-03-01T00:30:00Z');
    expect(lastDays(3, now)).toEqual(['2026-02-27', '2026-02-28', '2026-03-01']);
  });
});

describe('the colors of models on the usage page', () => {
  it('are of the six with the highest charges, which keep theirs while others come and go', () => {
    const tones = new ModelTones();
    const row = {
      requests: 1,
      errors: 0,
      aborted: 0,
      prompt_tokens: 0,
      cached_tokens: 0,
      completion_tokens: 0,
    };
    const tonesOf = (models: string): string =>
      [...tones.of([...models].map((model, i) => ({ ...row, model, charged: `${9 - i}.00` })))]
        .map(([model, tone]) => `${model} ${tone.replace('tone-', '')}`)
        .join(', ');
    expect(tonesOf('abcdefgh')).toBe('a 0, b 1, c 2, d 3, e 4, f 5, g rest, h rest');
    expect(tonesOf('gfbaedc')).toBe('g 2, f 5, b 1, a 0, e 4, d 3, c rest');
  });
});

describe('the usage page as a document', () => {
  const { html, contentSecurityPolicy } = PAGE;
  const textOf = (name: string): string[] =>
    [...html.matchAll(new RegExp(`<${name}[^>]*>(.*?)</${name}>`, 'gs'))].map(([, text = '']) => text);

  it('names no other place to load from', () => {
    const outside = html.match(/\b(?:https?:)?\/\/[\w.-]+\.\w+[^\s"'`)]*/g) ?? [];
    // Names of namespaces, of which nothing is loaded.
    const names = [
      'http://www.w3.org/2000/svg',
      'http://www.w3.org/1999/xhtml',
      'http://www.w3.org/1998/Math/MathML',
    ];
    expect(outside.filter((place) => !names.includes(place))).toEqual([]);
    expect(html).not.toMatch(/<script[^>]+src=|<link(?![^>]+href="data:)/);
  });

  it('is built for production, whatever builds it', () => {
    expect(html).not.toMatch(/\.tsx|jsxDEV/);
  });

  it('may run its own script and style, and nothing else', () => {
    const directives = contentSecurityPolicy.split('; ');
    const hash = (text = ''): string => createHash('sha256').update(text).digest('base64');
    expect(textOf('script')).toHaveLength(1);
    expect(textOf('style')).toHaveLength(1);
    expect(directives).toContain(`script-src 'sha256-${hash(textOf('script')[0])}'`);
    expect(directives).toContain(`style-src 'sha256-${hash(textOf('style')[0])}'`);
    expect(directives).toContain("default-src 'none'");
    expect(directives).toContain("connect-src 'self'");
    expect(contentSecurityPolicy).not.toMatch(/unsafe|\*|https?:/);
  });

  it('is the same in what a bundler makes of the package', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-page-'));
    await build({
      root: ROOT,
      configFile: false,
      logLevel: 'warn',
      build: { ssr: 'src/admin/page.ts', minify: true, outDir: folder, emptyOutDir: true },
    });
    const bundled = (await import(`${folder}/page.js`)) as { PAGE: typeof PAGE };
    rmSync(folder, { recursive: true });
    expect(bundled.PAGE).toEqual(PAGE);
  });
});
