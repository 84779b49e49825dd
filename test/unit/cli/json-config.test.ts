import { describe, expect, it } from 'vitest';

import { parseJsonConfig } from '../../../src/cli/config/json-config.ts';

const parse = (text: string, env: Readonly<Record<string, string>> = {}): unknown =>
  parseJsonConfig(text, 'c.json', env);

describe('a name that an object of a JSON config has twice', () => {
  it.each([
    [
      'of two models',
      '{\n "models": {\n  "ä/fast": 1, // "ä/fast"\n  "b": 2,\n  "ä/fast": 3 } }',
      5,
      'ä/fast',
    ],
    ['in another spelling', String.raw`{ "models": {}, "mod\u0065ls": {} }`, 1, 'models'],
    ['in a list', '[{\n"a": 1,\n"a": 1 }]', 3, 'a'],
    ['after a byte order mark', '\uFEFF{ "a": 1,\n"a": 2, }', 2, 'a'],
  ])('is refused, with its line: %s', (_what, text, line, name) => {
    expect(() => parse(text)).toThrow(`c.json: line ${line}: "${name}" is given twice`);
  });

  it('is none in two objects', () => {
    const text = '{ "a": { "a": 1, "b": [{ "a": 1 }, { "a": 2 }] }, "b": "a" }';
    expect(parse(text)).toEqual(JSON.parse(text));
  });
});

describe('a variable in a string of a JSON config', () => {
  it.each([
    '${MY-VAR}',
    '${ NAME }',
    '${}',
    'Bearer ${NAME',
    '${NAME:-text',
    '${NAME-text}',
    '${NAME:?no}',
    '${A:-b}${',
    '$${NAME}${',
  ])('is refused if it can be none, without its text: %s', (value) => {
    const text = JSON.stringify({ providers: { a: { apiKey: value } } });
    expect(() => parse(text, { NAME: 'x', MY: 'x' })).toThrow(
      /^c\.json: providers\.a\.apiKey: \$\{ needs the name of a variable \(letters, digits, _\), as \$\{NAME\} or \$\{NAME:-text\}; \$\$\{ is a literal \$\{$/,
    );
  });

  it('is its value, its default or, with another $, itself', () => {
    const value = '${NAME} ${NONE:-a b} ${EMPTY:-} $${NAME} $${ NAME } $NAME $ {';
    expect(parse(JSON.stringify({ value }), { NAME: 'x', EMPTY: '' })).toEqual({
      value: 'x a b  ${NAME} ${ NAME } $NAME $ {',
    });
  });
});
