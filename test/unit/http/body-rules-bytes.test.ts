import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { findMembers } from '../../../src/http/body-members.ts';
import {
  assertUnambiguous,
  memberEdits,
  namesOf,
  withMovedLimit,
} from '../../../src/http/apply-body-rules.ts';
import { spliceRequest } from '../../../src/http/chat-request.ts';
import { ChatRequestScanner } from '../../../src/http/scan-request.ts';
import type { OutputLimitEdit } from '../../../src/http/splice-request.ts';
import { resolveTargetRules, type TargetRules } from '../../../src/catalog/resolve-body-rules.ts';
import { resolveProvider } from '../../../src/catalog/resolve-provider.ts';
import type { BodyRules } from '../../../src/index.ts';
import { runs } from '../../helpers/runs.ts';

const CALLER = { account: 'acct', key: 'k1', model: 'm' };
const TIMEOUTS = { connectMs: 1, firstByteMs: 1, idleMs: 1, totalMs: 1 };
/** Of which nothing is known. */
const PLAIN = resolveProvider(
  'plain',
  { baseURL: 'http://127.0.0.1:1/v1' },
  { timeouts: TIMEOUTS, proxy: undefined },
);

describe('the rules of a target', () => {
  it.each<[string, BodyRules, string, string]>([
    ['set replaces a value', { set: { store: false } }, '"store" : [ true, {"a":1} ] ', '"store" : false '],
    [
      'set finds an escaped key',
      { set: { store: 1 } },
      String.raw`"st\u006fre":{}`,
      String.raw`"st\u006fre":1`,
    ],
    ['default leaves a value', { default: { user: 'x' } }, '"user":"me"', '"user":"me"'],
    ['default leaves a null', { default: { user: 'x' } }, '"user":null', '"user":null'],
    [
      'drop takes a member with its comma',
      { drop: ['seed'] },
      '"a":1 , "seed":{"x":[1,2]} , "b":2',
      '"a":1  , "b":2',
    ],
    ['rename replaces the key alone', { rename: { a: 'b' } }, '"a" :\t1.0e0', '"b" :\t1.0e0'],
    ['set of undefined takes it out', { set: { user: () => undefined } }, '"user":1,"b":2', '"b":2'],
    ['default of undefined leaves it', { default: { user: () => undefined } }, '"user":1', '"user":1'],
  ])('%s', async (_, rules, before, after) => {
    const bare = (fields: string): string => `{"model":"m","messages":[],${fields}}`;
    expect(await apply(bare(before), rules)).toBe(bare(after));
  });

  it('add a member after the model, in the order of the rules', async () => {
    const rules: BodyRules = {
      default: { b: [1, 'é'] },
      set: { a: ({ account, key, model }) => `${account}/${key}/${model}`, provider: { zdr: true } },
    };
    expect(await apply('{"messages":[],"model":"m"}', rules)).toBe(
      '{"messages":[],"model":"m","a":"acct/k1/m","provider":{"zdr":true},"b":[1,"é"]}',
    );
  });

  it('count a field that the client chose a provider by as not there', async () => {
    const body = '{"provider":{"only":["a"]} ,"model":"m","messages":[],"models":["x"]}';
    const rules: BodyRules = { set: { provider: { zdr: true } } };
    expect(await apply(body, rules, undefined, new Set(['provider', 'models']))).toBe(
      '{"model":"m","provider":{"zdr":true},"messages":[]}',
    );
  });

  it.each([
    ['"store":1,"store":2', 'ambiguous_parameter', 'store'],
    ['"Store":1', 'ambiguous_parameter', 'store'],
    [String.raw`"\u017ftore":1`, 'ambiguous_parameter', 'store'],
    ['"extra_body":{"store":true}', 'unsupported_parameter', 'extra_body.store'],
    ['"a":1,"b":2', 'ambiguous_parameter', 'a'],
    ['"a":null,"b":2', 'ambiguous_parameter', 'a'],
  ])('are not evaded by %s', async (fields, code, param) => {
    const applied = apply(`{"model":"m","messages":[],${fields}}`, {
      set: { store: false },
      rename: { a: 'b' },
    });
    await expect(applied).rejects.toMatchObject({ status: 400, code, param });
  });

  it('say what they mean, and leave every other byte as it was', async () => {
    await fc.assert(
      fc.asyncProperty(requests(), rulesets(), limits(), chunkings(), async (members, rules, limit, cuts) => {
        const body = textOf(members);
        const after = await apply(body, rules, editFor(rules, limit), new Set(), cuts);
        expect(JSON.parse(after)).toEqual(meaningOf(JSON.parse(body), rules, limit));
        expect(after).toBe(rewritten(members, rules, limit));
      }),
      { numRuns: runs(1000) },
    );
  });
});

describe('a renamed output limit', () => {
  const rules: BodyRules = { rename: { max_tokens: 'max_completion_tokens' } };
  const limit = { field: 'max_completion_tokens', tokens: 7, inserts: true, moves: true } as const;

  it.each([
    ['"max_tokens" : 9', '"max_completion_tokens" : 7'],
    ['"max_tokens":1e0', '"max_completion_tokens":1e0'],
    ['"max_tokens":null', '"max_completion_tokens":7'],
    ['"max_completion_tokens":9', '"max_completion_tokens":7'],
  ])('is lowered under its other name: %s', async (before, after) => {
    expect(await apply(`{"model":"m",${before},"messages":[]}`, rules, limit)).toBe(
      `{"model":"m",${after},"messages":[]}`,
    );
  });

  it('is inserted under its other name', async () => {
    expect(await apply('{"model":"m","messages":[]}', rules, limit)).toBe(
      '{"model":"m","max_completion_tokens":7,"messages":[]}',
    );
  });
});

/** As a router does for a target with these rules. */
async function apply(
  body: string,
  given: BodyRules,
  outputLimit?: OutputLimitEdit,
  controls: ReadonlySet<string> = new Set(),
  cuts: readonly number[] = [],
): Promise<string> {
  const { rules, limit } = rulesOf(given);
  const bytes = Buffer.from(body);
  const ends = [...cuts.map((cut) => cut % bytes.length), bytes.length].sort((a, b) => a - b);
  const pieces = ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end));
  const scanner = new ChatRequestScanner({ clientRouting: controls });
  for (const piece of pieces) scanner.write(piece);
  const scanned = scanner.end();
  const members = await findMembers(pieces, new Set(rules.flatMap(namesOf)));
  assertUnambiguous(rules, members);
  const request = limit === undefined ? scanned : withMovedLimit(scanned, limit);
  const edits = memberEdits(rules, members, request.routingFields, CALLER, fail);
  return Buffer.concat(
    spliceRequest(pieces, request, { members: edits, ...(outputLimit && { outputLimit }) }),
  ).toString();
}

function rulesOf(given: BodyRules): Pick<TargetRules, 'rules' | 'limit'> {
  return resolveTargetRules(PLAIN, given, 'body') ?? { rules: [], limit: undefined };
}

function fail(error: Error): void {
  throw error;
}

/** A member as it is written: its key, what follows up to the value, the value, what follows that. */
type Member = readonly [key: string, colon: string, value: string, space: string];
/** One rule for each of some fields. */
type Ruleset = BodyRules & {
  readonly set: Record<string, string>;
  readonly default: Record<string, string>;
  readonly drop: string[];
  readonly rename: Record<string, string>;
};

const NAMES = ['user', 'store', 'a', 'b-2'];

function requests(): fc.Arbitrary<Member[]> {
  const space = fc.constantFrom('', ' ', '\n\t');
  const colon = fc.constantFrom(':', ' : ');
  const member = (key: string, value: fc.Arbitrary<string>) =>
    fc.tuple(fc.constant(key), colon, value, space);
  const maybe = (key: string, value: fc.Arbitrary<string>) => fc.array(member(key, value), { maxLength: 1 });
  const limit = fc
    .tuple(
      fc.constantFrom('max_tokens', 'max_completion_tokens'),
      colon,
      fc.constantFrom('5', '1e1', 'null'),
      space,
    )
    .map((each): Member => each);
  return fc
    .tuple(
      member('model', fc.constant('"m"')),
      member('messages', fc.constant('[ {"store":1,"a":[{}]} ]')),
      fc.array(limit, { maxLength: 1 }),
      fc.array(member('z', fc.json()), { maxLength: 2 }),
      ...NAMES.map((name) => maybe(name, fc.oneof(fc.json(), fc.constant('[1 , {"user":{}}]')))),
    )
    .chain(([model, messages, ...rest]) => {
      const members = [model, messages, ...rest.flat()];
      return fc.shuffledSubarray(members, { minLength: members.length });
    });
}

function rulesets(): fc.Arbitrary<Ruleset> {
  const action = fc.constantFrom('set', 'default', 'drop', 'rename', 'none');
  return fc
    .tuple(
      fc.tuple(...NAMES.map(() => action)),
      fc.constantFrom(undefined, 'max_tokens', 'max_completion_tokens'),
    )
    .map(([actions, renamed]) => {
      const named = (wanted: string): string[] => NAMES.filter((_, i) => actions[i] === wanted);
      const values = (names: string[]) => Object.fromEntries(names.map((name) => [name, `of "${name}"`]));
      const other = renamed === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
      return {
        set: values(named('set')),
        default: values(named('default')),
        drop: named('drop'),
        rename: {
          ...Object.fromEntries(named('rename').map((name) => [name, `new_${name}`])),
          ...(renamed && { [renamed]: other }),
        },
      };
    });
}

/** As admission says it for a server that obeys `max_tokens`, or what that is renamed to. */
function limits(): fc.Arbitrary<number | undefined> {
  return fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined });
}

function editFor(rules: Ruleset, tokens: number | undefined): OutputLimitEdit | undefined {
  if (tokens === undefined) return undefined;
  return { field: fieldFor(rules), tokens, inserts: true, moves: false };
}

function fieldFor({ rename }: Ruleset): 'max_tokens' | 'max_completion_tokens' {
  return 'max_tokens' in rename ? 'max_completion_tokens' : 'max_tokens';
}

function chunkings(): fc.Arbitrary<number[]> {
  return fc.array(fc.nat(), { maxLength: 4 });
}

function textOf(members: readonly Member[]): string {
  return `{${members.map(([key, colon, value, space]) => `"${key}"${colon}${value}${space}`).join(',')}}`;
}

function isLimit(key: string): boolean {
  return key === 'max_tokens' || key === 'max_completion_tokens';
}

/** What the value of an output limit becomes. */
function limited(
  key: string,
  value: number | null,
  rules: Ruleset,
  tokens: number | undefined,
): number | null {
  if (tokens === undefined) return value;
  if (value === null) return key === fieldFor(rules) ? tokens : null;
  return Math.min(value, tokens);
}

/** The limit that has to be added, as a member. */
function addedLimit(
  names: readonly string[],
  hasNumber: boolean,
  rules: Ruleset,
  tokens: number | undefined,
): [string, number][] {
  if (tokens === undefined || hasNumber || names.includes(fieldFor(rules))) return [];
  return [[fieldFor(rules), tokens]];
}

/** What the rules mean for a parsed request. */
function meaningOf(
  request: Record<string, unknown>,
  rules: Ruleset,
  tokens: number | undefined,
): Record<string, unknown> {
  const kept = Object.entries(request)
    .filter(([key]) => !rules.drop.includes(key))
    .map(([key, value]): [string, unknown] => {
      const name = rules.rename[key] ?? key;
      if (!isLimit(name)) return [name, value];
      return [name, limited(name, value as number | null, rules, tokens)];
    });
  const names = kept.map(([name]) => name);
  const hasNumber = kept.some(([name, value]) => isLimit(name) && value !== null);
  return {
    ...rules.default,
    ...Object.fromEntries(kept),
    ...Object.fromEntries(addedLimit(names, hasNumber, rules, tokens)),
    ...rules.set,
  };
}

/** The members after the rules, each written where it belongs. */
function rewritten(members: readonly Member[], rules: Ruleset, tokens: number | undefined): string {
  const keys = members.map(([key]) => key);
  const limit = members.find(([key]) => isLimit(key));
  const after = keys.map((key) => rules.rename[key] ?? key);
  const hasNumber = limit !== undefined && limit[2] !== 'null';
  const added = [
    ...addedLimit(after, hasNumber, rules, tokens),
    ...Object.entries({ ...rules.set, ...rules.default }).filter(([key]) => !keys.includes(key)),
  ];
  let text = '';
  for (const [key, colon, value, space] of members) {
    if (rules.drop.includes(key)) {
      if (text !== '') text += space;
      continue;
    }
    const name = rules.rename[key] ?? key;
    let written = key in rules.set ? JSON.stringify(rules.set[key]) : value;
    if (isLimit(key)) {
      const given = JSON.parse(value) as number | null;
      const now = limited(name, given, rules, tokens);
      if (now !== given) written = String(now);
    }
    if (key === 'model') {
      written += added.map(([each, its]) => `,${JSON.stringify(each)}:${JSON.stringify(its)}`).join('');
    }
    text += `${text === '' ? '' : ','}"${name}"${colon}${written}${space}`;
  }
  return `{${text}}`;
}
