/**
 * Words and numbers of a message, handed out one by one to fill a form with.
 *
 * What is quoted comes first, then names (capitalised, but not for opening the
 * sentence), then the longer words; when all are used, they come again, numbered.
 */
export class Words {
  readonly text: string;
  readonly #words: readonly string[];
  readonly #numbers: readonly number[];
  #plain: string | undefined;
  #usedWords = 0;
  #usedNumbers = 0;

  constructor(text: string) {
    this.text = text;
    const quoted = [...text.matchAll(/"([^"]+)"|“([^“”]+)”/g)].map((match) => match[1] ?? match[2] ?? '');
    // A capital first: looking back from each blank of a long run would take quadratic time on Node 22.
    const names = text.match(/(?=\p{Lu})(?<=[^.!?\s]\s+)\p{Lu}[\p{L}'’-]+(?: \p{Lu}[\p{L}'’-]+)*/gu) ?? [];
    const taken = [...quoted, ...names];
    const longer = (plain(text).match(/\p{L}{4,}/gu) ?? []).filter(
      (word) => !taken.some((other) => other.toLowerCase().includes(word)),
    );
    const words = [...new Set([...taken, ...longer])];
    this.#words = words.length > 0 ? words : ['parrot'];
    this.#numbers = (text.match(/-?\d+(?:\.\d+)?/g) ?? []).map(Number);
  }

  nextWord(): string {
    const round = Math.floor(this.#usedWords / this.#words.length);
    const word = this.#words[this.#usedWords++ % this.#words.length] ?? '';
    return round === 0 ? word : `${word} ${round + 1}`;
  }

  /** The next number of the message; when all are used, 1, 2, 3… */
  nextNumber(): number {
    const used = this.#usedNumbers++;
    return this.#numbers[used] ?? used - this.#numbers.length + 1;
  }

  mentions(word: string): boolean {
    this.#plain ??= ` ${plain(this.text)} `;
    return this.#plain.includes(` ${plain(word)} `);
  }
}

/** Lower case, with one blank between words, whether written `get_weather` or `getWeather`. */
export function plain(text: string): string {
  return text
    .replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
    .toLowerCase();
}
