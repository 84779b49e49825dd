import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { parametersOf } from '../../../src/http/request-parameters.ts';
import { runs } from '../../helpers/runs.ts';

function parametersIn(body: string | object): Promise<ReadonlySet<string>> {
  return parametersOf([Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))]);
}

describe('the parameters of a request', () => {
  it.each<[string | object, string[]]>([
    [{ model: 'x', messages: [{ seed: 5, tools: [] }], max_tokens: 5 }, []],
    [{ seed: 5, tools: [], top_p: null }, ['seed', 'tools']],
    [{ response_format: { type: 'text' } }, ['response_format']],
    [{ response_format: { json_schema: { type: 'x' }, type: 'json_schema' } }, ['structured_outputs']],
    [{ response_format: { json_schema: { type: 'json_schema' } } }, ['response_format']],
    ['{ "s\\u0065ed" : 1 , "seed":2}', ['seed']],
    [{ ['y'.repeat(65)]: 1, ['z'.repeat(3000)]: 1 }, ['…']],
  ])('of %j are %j', async (body, expected) => {
    expect([...(await parametersIn(body))]).toEqual(expected);
  });

  it('are bounded in number', async () => {
    const body = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`p${n}`, n] as const));
    const found = await parametersIn(body);
    expect(found.size).toBe(257);
    expect(found).toContain('…');
  });

  it('are the names of all members that are not null, wherever the body is cut', async () => {
    const name = fc.string({ minLength: 1, maxLength: 12 }).filter((each) => each !== '__proto__');
    await fc.assert(
      fc.asyncProperty(fc.dictionary(name, fc.jsonValue()), fc.nat(), async (members, at) => {
        const body = Buffer.from(JSON.stringify(members));
        const cut = at % (body.length + 1);
        const found = await parametersOf([body.subarray(0, cut), body.subarray(cut)]);
        const expected = Object.keys(members).filter((each) => members[each] !== null && !TAKEN.has(each));
        expect([...found].toSorted(byCode)).toEqual(expected.toSorted(byCode));
      }),
      { numRuns: runs(300) },
    );
  });
});

/** Those of them that random names could be. */
const TAKEN = new Set(['model', 'models', 'stream', 'user', 'usage', 'provider', 'messages', 'metadata']);

function byCode(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
