import type { AccountPolicy } from '../../client/admin-api.generated.ts';

export type Requirements = NonNullable<AccountPolicy['require']>;

/** Labels on a line: `region=eu+ch, zdr=true`. Those that can't be read back from that are JSON. */
export function labelsText(require: AccountPolicy['require']): string {
  const entries = Object.entries(require ?? {});
  const text = entries.map(([name, values]) => `${name}=${[values].flat().join('+')}`).join(', ');
  const isPlain = entries.every(([, values]) =>
    [values].flat().every((value) => /^[^+=,\s]+$/.test(String(value))),
  );
  return isPlain ? text : JSON.stringify(require);
}

/** @returns null without labels, undefined for what can't be read */
export function labelsFrom(text: string): Requirements | null | undefined {
  if (text.trim() === '') return null;
  if (text.trim().startsWith('{')) return fromJson(text);
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  const pairs = parts.map((part) => part.split('='));
  const isReadable = pairs.every(
    ([name, words, ...more]) => name !== '' && words !== undefined && words !== '' && more.length === 0,
  );
  const require = Object.fromEntries(pairs.map(([name = '', words = '']) => [name, valuesOf(words)]));
  return isReadable && Object.keys(require).length === pairs.length ? require : undefined;
}

function fromJson(text: string): Requirements | undefined {
  try {
    const labels: Requirements = JSON.parse(text);
    return labels;
  } catch {
    return undefined;
  }
}

function valuesOf(words: string): Requirements[string] {
  const [first = '', ...others] = words.split('+').map(valueOf);
  return others.length === 0 ? first : [first, ...others];
}

function valueOf(word: string): string | boolean {
  return word === 'true' || word === 'false' ? word === 'true' : word;
}
