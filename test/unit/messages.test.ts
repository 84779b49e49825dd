import { describe, expect, it } from 'vitest';

import { flaggedWords } from '../../scripts/words.ts';
import { type Message, type MessageKind, messagesIn, messagesInSource } from '../helpers/messages.ts';

const MESSAGES = messagesInSource();

const MAX_LENGTH = 200;

/** With a capital, or with the name of an option or field. */
const BEGINNING = /^(?!(?:an?|the|its?|there) )/;

interface Style {
  readonly beginsWith: RegExp;
  /** Whether it is one or more whole sentences; else it has no period at its end, and may be part of a longer line. */
  readonly isSentence?: boolean;
}

const STYLES: Partial<Record<MessageKind, Style>> = {
  'API response': { beginsWith: /^(?:[A-Z"{]|id |\w+ must )/, isSentence: true },
  'Option or argument error': { beginsWith: BEGINNING, isSentence: false },
  'Command line error': { beginsWith: /^(?:--|[a-z{]|[A-Z]\w+ )/, isSentence: false },
  'Command line summary': { beginsWith: /^[A-Z][a-z]+ /, isSentence: false },
  'Command line option': { beginsWith: /^(?:[a-z0-9]|JSON|CSV|TypeScript)/, isSentence: false },
  'Admin API summary': { beginsWith: /^[A-Z][a-z]+ /, isSentence: false },
  'Check result': { beginsWith: /^(?:[a-z0-9]|API)/, isSentence: false },
};

/** All messages side by side: `npm test -- test/unit/messages -u` writes the file again. */
it('lists every message in messages.txt', async () => {
  const byKind = Map.groupBy(MESSAGES, ({ kind }) => kind);
  const parts = [...byKind]
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([kind, messages]) => {
      const rows = new Set(
        messages.map(({ source, text }) => `${source} | ${text.replaceAll('\n', String.raw`\n`)}`),
      );
      return `# ${kind}\n\n${[...rows].sort().join('\n')}\n`;
    });
  await expect(parts.join('\n')).toMatchFileSnapshot('messages.txt');
});

describe('a message', () => {
  it('uses no flagged word', () => {
    expect(rejected(({ text }) => flaggedWords(text).length > 0)).toEqual([]);
  });

  it(`is at most ${MAX_LENGTH} characters long`, () => {
    expect(rejected(({ text }) => text.length > MAX_LENGTH)).toEqual([]);
  });

  it('begins as others of its kind', () => {
    expect(rejected(({ kind, text }) => STYLES[kind]?.beginsWith.test(text) === false)).toEqual([]);
  });

  it('ends with a period if it is a sentence of its own', () => {
    expect(
      rejected(({ kind, text }) => {
        const isSentence = STYLES[kind]?.isSentence;
        return isSentence !== undefined && !text.endsWith('}') && text.endsWith('.') !== isSentence;
      }),
    ).toEqual([]);
  });
});

describe('messages in the source', () => {
  const texts = (source: string, file = 'options/a.ts'): readonly string[] =>
    messagesIn(file, source).map(({ text }) => text);

  it('are read with the names of the values in them', () => {
    const source = 'throw new TypeError(`${option} must be ${wanted}, got ${JSON.stringify(value)}`)';
    expect(texts(source)).toEqual(['{option} must be {wanted}, got {value}']);
  });

  it('are read once for each text that they can have', () => {
    const source =
      "throw new Error(`The ${isKey ? 'key' : 'account'} is ${REASONS[code]}.`); const REASONS = { a: 'frozen' }";
    expect(texts(source)).toEqual(['The key is frozen.', 'The account is frozen.']);
  });

  it('are read from the classes of errors', () => {
    const source = "class BusyError extends RouterError { constructor() { super('The server is busy.') } }";
    expect(messagesIn('errors/a.ts', source)).toMatchObject([
      { kind: 'API response', source: 'BusyError', text: 'The server is busy.' },
    ]);
  });

  it('are read from the checks of options', () => {
    expect(texts("throw optionError('port', 'a port', value)")).toEqual(['port must be a port, got …']);
  });

  it('are read wherever a text has three words', () => {
    expect(texts("const WARNING = 'the bill is higher'; const word = 'two words'")).toEqual([
      'the bill is higher',
    ]);
  });
});

/** Messages that break a rule, each with its file. */
function rejected(breaks: (message: Message) => boolean): readonly string[] {
  return [...new Set(MESSAGES.filter(breaks).map(({ file, text }) => `${file}: ${text}`))];
}
