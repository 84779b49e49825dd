import { readFileSync } from 'node:fs';

import { expect, it } from 'vitest';

import { endpoints } from '../../../src/account/endpoints.ts';
import { HOLDER_PERMISSIONS } from '../../../src/account/holder.ts';
import { createAccountClient } from '../../../src/client.ts';

const read = (file: string): string => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
const page = read('docs/account-page.md');

it('names every operation of the account API, with its function', () => {
  const rows = [...page.matchAll(/^\| `([A-Z]+ \/[^`]*)` +\| ([^|]*?) +\|/gm)];
  expect(new Set(rows.map(([, operation]) => operation))).toEqual(
    new Set(endpoints.map(({ method, path }) => `${method} ${path}`)),
  );
  const named = rows.flatMap(([, , functions = '']) =>
    [...functions.matchAll(/`(\w+)`/g)].map(([, name]) => name),
  );
  const client = createAccountClient({ baseURL: 'https://example.com/account' });
  const own = Object.keys(client).filter((name) => !['getDescription', 'getPage'].includes(name));
  expect(new Set(named)).toEqual(new Set(own));
});

it('names every option, permission and error', () => {
  const options = ['src/account/options.ts', 'src/json-api/api-options.ts'].flatMap((file) => {
    const source = read(file);
    const start = source.search(/interface (Account)?(Router|Api)Options/);
    return [...source.slice(start, source.indexOf('\n}', start)).matchAll(/^ {2}readonly (\w+)\??:/gm)];
  });
  const rows = [...page.matchAll(/^\| `(\w+)` +\|/gm)].map(([, name]) => name);
  expect(options).toHaveLength(12);
  expect(rows).toEqual(expect.arrayContaining(options.map(([, name]) => name)));
  expect(rows).toEqual(expect.arrayContaining([...HOLDER_PERMISSIONS]));
  const codes = [...read('src/account/errors.ts').matchAll(/readonly code = '(\w+)'/g)].map(
    ([, code]) => code,
  );
  expect(codes).toHaveLength(3);
  for (const code of [...codes, 'too_many_requests']) expect(page).toContain(`\`${code}\``);
});
