import { describe, expect, it } from 'vitest';

import { type Listing, listingLines, type RowFormat } from '../../../src/cli/terminal/listing.ts';
import { table } from '../../../src/cli/terminal/table.ts';

const HEADS = ['NAME', 'COUNT', 'MESSAGE'];

describe('a table', () => {
  it('aligns numbers to the right, and no column that has none', () => {
    expect(
      table(
        HEADS,
        [
          ['a', '7', '–'],
          ['bcd', '12.5', '–'],
        ],
        Infinity,
      ),
    ).toEqual(['NAME  COUNT  MESSAGE', 'a         7  –', 'bcd    12.5  –']);
  });

  it('breaks its last column where the terminal ends', () => {
    const message = 'abcdefghijklmnopqrstuvwxyz0123456789';
    expect(table(HEADS, [['n', '7', message]], 40)).toEqual([
      'NAME  COUNT  MESSAGE',
      'n         7  abcdefghijklmnopqrstuvwxyz0',
      '             123456789',
    ]);
  });

  it('breaks it at blanks, if there are some', () => {
    const message = 'granted is 5.00, but available is 5.01';
    expect(table(HEADS, [['n', '7', message]], 40).slice(1)).toEqual([
      'n         7  granted is 5.00, but',
      '             available is 5.01',
    ]);
  });

  it('cuts its widest columns, but no ID of a request', () => {
    const id = '0mwtjlcqdgfgd3kc88y';
    const lines = table(['REQUEST', 'MODEL', 'TOTAL'], [[id, 'a-model-with-a-very-long-name', '351 ms']], 50);
    expect(lines[1]).toBe(`${id}  a-model-with-a-very-…  351 ms`);
    expect(table(['REQUEST', 'TOTAL'], [[id, '351 ms']], 10)[1]).toBe(`${id}  351 ms`);
  });

  it('bounds each of its lines', () => {
    const row = ['x'.repeat(300), 'y'.repeat(90), '5', 'z'.repeat(500)];
    for (const line of table(['A', 'B', 'C', 'D'], [row, row], 80))
      expect(line.length).toBeLessThanOrEqual(80);
  });
});

interface Row {
  readonly id: string;
  readonly createdAt: Date;
  readonly charged?: string;
  readonly tags: readonly string[];
}

const ROWS: readonly Row[] = [
  { id: '=1', createdAt: new Date(0), charged: '1.50', tags: ['a', 'b'] },
  { id: 'two', createdAt: new Date(1), tags: [] },
];

async function lines(format: RowFormat, more: Partial<Listing<Row>> = {}): Promise<string[]> {
  const columns: Listing<Row>['columns'] = [
    'id',
    'createdAt',
    { name: 'charged', value: ({ charged }) => charged, shown: ({ charged = '–' }) => charged },
    { name: 'tags', value: ({ tags }) => tags, isOnlyCsv: true },
  ];
  const found: string[] = [];
  for await (const line of listingLines({ columns, rows: ROWS, none: 'nothing', ...more }, format)) {
    found.push(line);
  }
  return found;
}

describe('a listing', () => {
  it('is a table', async () => {
    expect(await lines('table')).toEqual([
      'ID   CREATED AT            CHARGED',
      '=1   1970-01-01T00:00:00Z     1.50',
      'two  1970-01-01T00:00:00Z        –',
    ]);
  });

  it('has totals only of several rows', async () => {
    const totals = ['TOTAL', '', '1.50'];
    expect((await lines('table', { totals })).at(-1)).toBe('TOTAL                           1.50');
    expect(await lines('table', { totals, rows: ROWS.slice(0, 1) })).toHaveLength(2);
    expect(await lines('csv', { totals })).toHaveLength(3);
  });

  it('is CSV with all columns, by the names in JSON, and no formula', async () => {
    expect(await lines('csv')).toEqual([
      'id,createdAt,charged,tags',
      '\'=1,1970-01-01T00:00:00.000Z,1.50,"a, b"',
      'two,1970-01-01T00:00:00.001Z,,',
    ]);
  });

  it('is JSON, an object a line', async () => {
    expect((await lines('json')).map((line) => JSON.parse(line) as object)).toMatchObject([
      { id: '=1', tags: ['a', 'b'] },
      { id: 'two' },
    ]);
    expect(await lines('json', { objects: [{ whole: true }] })).toEqual(['{"whole":true}']);
  });

  it('says that there is nothing, but only to people', async () => {
    expect(await lines('table', { rows: [] })).toEqual(['nothing']);
    expect(await lines('csv', { rows: [] })).toEqual(['id,createdAt,charged,tags']);
    expect(await lines('json', { rows: [] })).toEqual([]);
  });

  it('aligns a thousand rows at a time, with one head', async () => {
    const rows = Array.from({ length: 2500 }, (_none, n) => ({
      id: `row ${n}`,
      createdAt: new Date(n),
      tags: [],
    }));
    const found = await lines('table', { rows });
    expect(found).toHaveLength(2501);
    expect(found[2500]).toMatch(/^row 2499 /);
    expect(found.filter((line) => line.startsWith('ID'))).toHaveLength(1);
  });
});
