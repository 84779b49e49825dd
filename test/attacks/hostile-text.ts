/**
 * Texts on which a regular expression that backtracks takes longest: each of its parts repeated, after what leads to
 * that part and without it, with an end that doesn't match.
 *
 * @param length - of each text, in characters
 */
export function hostileTexts({ source, flags }: RegExp): ((length: number) => string)[] {
  const texts = new Map<string, (length: number) => string>();
  const tree = new PatternParser(source, flags.replaceAll(/[gy]/g, '')).parse();
  for (const { before, part } of parts(tree, '')) {
    for (const [head, repeated] of [
      ['', part],
      [before, part],
      ['', before + part],
      // What leads to no match in front of the part that is repeated.
      [`${before}!`, part],
    ] as const) {
      if (repeated === '') continue;
      for (const end of ['', '\u0001']) {
        texts.set(JSON.stringify([head, repeated, end]), (length) => {
          const times = Math.max(1, Math.ceil((length - head.length) / repeated.length));
          return head + repeated.repeat(times) + end;
        });
      }
    }
  }
  return [...texts.values()];
}

/** A pattern as far as texts are made of it. */
type Node =
  | { readonly kind: 'characters'; readonly samples: readonly string[] }
  | { readonly kind: 'sequence'; readonly items: readonly Node[] }
  | { readonly kind: 'alternatives'; readonly choices: readonly Node[] };

const NOTHING: Node = { kind: 'characters', samples: [''] };
/** What a class is tried with: characters that classes often share, and those that stand in the pattern. */
const CANDIDATES = ['a', '0', '_', ' ', '/', '"', '\\', '.', '-', '\n', '%', 'é'];
const MAX_SAMPLES = 6;

/** One text that a node matches. */
function sampleOf(node: Node): string {
  if (node.kind === 'characters') return node.samples[0] ?? '';
  if (node.kind === 'sequence') return node.items.map(sampleOf).join('');
  return node.choices[0] ? sampleOf(node.choices[0]) : '';
}

/** Every text that a part of the pattern matches, and one that leads to it. */
function* parts(node: Node, before: string): Generator<{ before: string; part: string }> {
  if (node.kind === 'characters') {
    for (const part of node.samples) yield { before, part };
    return;
  }
  if (node.kind === 'alternatives') {
    for (const choice of node.choices) {
      yield { before, part: sampleOf(choice) };
      yield* parts(choice, before);
    }
    return;
  }
  let lead = before;
  for (const item of node.items) {
    yield* parts(item, lead);
    lead += sampleOf(item);
  }
  yield { before, part: lead.slice(before.length) };
}

/** As much of the syntax of patterns as this package uses. */
class PatternParser {
  readonly #source: string;
  readonly #flags: string;
  #at = 0;

  constructor(source: string, flags: string) {
    this.#source = source;
    this.#flags = flags;
  }

  parse(): Node {
    const choices: Node[] = [];
    let items: Node[] = [];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ')') {
      if (this.#source[this.#at] === '|') {
        this.#at += 1;
        choices.push({ kind: 'sequence', items });
        items = [];
      } else {
        const word = /^[\w ,:;"'%=<>&@!#~-]+(?![*+?{])/.exec(this.#source.slice(this.#at))?.[0];
        if (word === undefined) items.push(this.#quantified());
        else {
          this.#at += word.length;
          items.push({ kind: 'characters', samples: [word] });
        }
      }
    }
    choices.push({ kind: 'sequence', items });
    return { kind: 'alternatives', choices };
  }

  #quantified(): Node {
    const atom = this.#atom();
    const quantifier = /^(?:[*+?]|\{(\d+)(?:,\d*)?\})\??/.exec(this.#source.slice(this.#at));
    if (!quantifier) return atom;
    this.#at += quantifier[0].length;
    const least = Number(quantifier[1] ?? 1);
    return least > 1 ? { kind: 'sequence', items: Array.from({ length: least }, () => atom) } : atom;
  }

  #atom(): Node {
    const rest = this.#source.slice(this.#at);
    if (rest.startsWith('(')) {
      const opening = /^\((\?(?:[:=!]|<[=!]|<\w+>))?/.exec(rest)?.[0] ?? '(';
      this.#at += opening.length;
      const inside = this.parse();
      this.#at += 1;
      return opening.endsWith('!') ? NOTHING : inside;
    }
    const [token = ''] =
      /^(?:\[(?:\\.|[^\]])*\]|\\(?:u[\da-f]{4}|x[\da-f]{2}|p\{\w+\}|.)|.)/is.exec(rest) ?? [];
    this.#at += token.length;
    if (['^', '$', '\\b', '\\B'].includes(token)) return NOTHING;
    if (token.length === 1 && token !== '.') return { kind: 'characters', samples: [token] };
    const matcher = new RegExp(`^${token}$`, this.#flags);
    const own = [...this.#source].filter((character) => /[^\w\\]/.test(character));
    const samples = [...new Set([...own, ...CANDIDATES])].filter((character) => matcher.test(character));
    if (samples.length === 0) samples.push(firstMatch(matcher));
    return { kind: 'characters', samples: samples.slice(0, MAX_SAMPLES) };
  }
}

function firstMatch(matcher: RegExp): string {
  for (let code = 0; code < 0x3000; code++) {
    const character = String.fromCharCode(code);
    if (matcher.test(character)) return character;
  }
  throw new Error(`No character matches ${String(matcher)}`);
}
