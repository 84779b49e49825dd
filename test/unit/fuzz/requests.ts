import type { RequestEdits } from '../../../src/http/splice-request.ts';
import type { Random } from '../../simulation/random.ts';
import { someText } from './fuzz.ts';

/** A request as a client might write it: its members one by one, so that what is to become of it can be said. */
export interface WrittenRequest {
  readonly members: readonly Member[];
  /** White space that stands between tokens, the same everywhere. */
  readonly blank: string;
}

export interface Member {
  readonly name: string;
  /** As they are written: quotes, escapes and all. */
  readonly key: string;
  readonly value: string;
}

/** Fields that no other parser may read another value of. */
const ACTED_ON = [
  'model',
  'messages',
  'stream',
  'stream_options',
  'n',
  'max_tokens',
  'max_completion_tokens',
];

export function writeRequest(random: Random): WrittenRequest {
  const members = [
    member(random, 'model', writeString(random, someText(random))),
    member(random, 'messages', `[${deep(random)}]`),
    ...optional(random, 'stream', () => random.pick(['true', 'true', 'false', 'null'])),
    ...optional(random, 'stream_options', () => streamOptions(random)),
    ...optional(random, 'max_tokens', () => random.pick(['1', '5', '100', '1e2', '7.0', 'null'])),
    ...optional(random, 'max_completion_tokens', () => random.pick(['2', '6', '100', '10E-1', 'null'])),
    ...optional(random, 'n', () => random.pick(['1', '2', 'null'])),
    ...Array.from({ length: random.below(4) }, () => {
      const name = random.pick([
        'seed',
        'x',
        'x',
        '__proto__',
        'constructor',
        'messages ',
        'Modell',
        '',
        someText(random),
      ]);
      return member(random, name, deep(random));
    }),
  ];
  for (let i = members.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [members[i], members[j]] = [members[j]!, members[i]!];
  }
  return { members, blank: random.pick(['', '', ' ', '\n\t', '\r\n']) };
}

/** The bytes of it. */
export function textOf({ members, blank }: WrittenRequest): string {
  const written = members.map(({ key, value }) => blank + key + blank + ':' + blank + value + blank);
  return `${blank}{${written.join(',')}}${blank}`;
}

/** One member more, which makes what is asked for ambiguous: the same name again, or in another case. */
export function ambiguous(random: Random, { members, blank }: WrittenRequest): WrittenRequest {
  const name = random.pick(['model', 'messages', ...ACTED_ON]);
  const there = members.some((each) => each.name === name);
  const variants = [name.toUpperCase(), name.replace('s', 'ſ').replace('k', '\u212a')].filter(
    (each) => each !== name,
  );
  const written = random.pick([there ? name : name.toUpperCase(), ...variants]);
  const more = member(random, written, random.pick(['null', '"m"', '1', '{}', '[]']));
  const at = random.below(members.length + 1);
  return { members: [...members.slice(0, at), more, ...members.slice(at)], blank };
}

/** The same members with the edits made by hand, as the rules of them say. */
export function editedText(written: WrittenRequest, edits: RequestEdits): string {
  let { members } = written;
  const valueOf = (name: string): string | undefined => members.find((each) => each.name === name)?.value;
  const replace = (name: string, value: string): void => {
    members = members.map((each) => (each.name === name ? { ...each, value } : each));
  };
  const added: string[] = [];

  if (edits.includeUsage && valueOf('stream') === 'true') {
    const options = valueOf('stream_options');
    if (options === undefined) added.push('"stream_options":{"include_usage":true}');
    else replace('stream_options', OPTIONS.get(options) ?? options);
  }
  if (edits.outputLimit) {
    const { field, tokens, inserts, moves } = edits.outputLimit;
    const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
    const limit = (name: string): number | undefined => {
      const value = valueOf(name) ?? 'null';
      return value === 'null' ? undefined : Number(value);
    };
    const [own, others] = [limit(field), limit(other)];
    if (own === undefined && (others === undefined ? inserts : moves)) {
      const value = others !== undefined && others <= tokens ? others : tokens;
      if (valueOf(field) !== undefined) {
        replace(field, String(value));
        if (others !== undefined) replace(other, 'null');
      } else if (others === undefined) {
        added.push(`"${field}":${value}`);
      } else {
        replace(other, String(value));
        members = members.map((each) =>
          each.name === other ? { ...each, name: field, key: `"${field}"` } : each,
        );
      }
    } else {
      if (own !== undefined && own > tokens) replace(field, String(tokens));
      if (others !== undefined && others > tokens) replace(other, String(tokens));
    }
  }
  const { model } = edits;
  if (model !== undefined) replace('model', JSON.stringify(model));
  // What is added stands right behind the model's value, before the blank that follows it.
  members = members.map((each) =>
    each.name === 'model' ? { ...each, value: [each.value, ...added].join(',') } : each,
  );
  return textOf({ ...written, members });
}

/** `stream_options` as clients write it, and what it becomes where usage is to be asked for. */
const OPTIONS: ReadonlyMap<string, string> = new Map([
  ['null', '{"include_usage":true}'],
  ['{}', '{"include_usage":true}'],
  ['{"include_usage":true}', '{"include_usage":true}'],
  ['{"include_usage":false}', '{"include_usage":true}'],
  ['{ "include_usage" : null }', '{ "include_usage" : true }'],
  [String.raw`{"include_us\u0061ge":false}`, String.raw`{"include_us\u0061ge":true}`],
  ['{"a":[1,{"include_usage":false}]}', '{"include_usage":true,"a":[1,{"include_usage":false}]}'],
]);

function streamOptions(random: Random): string {
  return random.pick(['null', ...OPTIONS.keys()]);
}

function member(random: Random, name: string, value: string): Member {
  return { name, key: writeString(random, name), value };
}

function optional(random: Random, name: string, value: () => string): Member[] {
  return random.chance(0.5) ? [member(random, name, value())] : [];
}

/** A string with some of its characters written as escapes. */
function writeString(random: Random, text: string): string {
  const share = random.pick([0, 0, 0.2, 1]);
  const escaped = Array.from({ length: text.length }, (_, at) => {
    const unit = text.charCodeAt(at);
    const hex = unit.toString(16).padStart(4, '0');
    return `\\u${random.chance(0.5) ? hex : hex.toUpperCase()}`;
  });
  let written = '';
  for (const [at, escape] of escaped.entries()) {
    const unit = text.charCodeAt(at);
    // Surrogates are written as escapes, or a lone one would not be UTF-8.
    if (unit >= 0xd800 && unit <= 0xdfff) written += escape;
    else written += random.chance(share) ? escape : JSON.stringify(text[at]).slice(1, -1);
  }
  return `"${written}"`;
}

/** Any JSON, in any depth; of what no parser keeps as it is, too. */
function deep(random: Random, depth = random.pick([0, 0, 1, 3, 20, 200])): string {
  if (depth === 0) {
    return random.pick<() => string>([
      () => writeString(random, someText(random)),
      () => random.pick(['12345678901234567890', '1.0', '-0', '1e400', '0.1E-7', 'true', 'null', '{}', '[]']),
      () => String.raw`"\ud800 \/ \u0000"`,
    ])();
  }
  const inner = deep(random, depth - 1);
  return random.chance(0.5) ? `[${inner}]` : `{${writeString(random, 'model')}:${inner},"model":1}`;
}
