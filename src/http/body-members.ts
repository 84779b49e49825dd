import type { InvalidRequestError } from '../errors/request-errors.ts';
import { KeyMatcher } from '../json/key-matcher.ts';
import { type JsonListener, JsonScanner } from '../json/scanner.ts';
import type { JsonKind, JsonToken } from '../json/token.ts';
import { inTurns, type BodyChunks } from './body-chunks.ts';
import { duplicateField, unsupportedField } from './field-errors.ts';
import type { MemberSpan } from './splice-request.ts';

/** Positions of top-level members of a body, by name. */
export interface BodyMembers {
  readonly found: ReadonlyMap<string, MemberSpan>;
  /** Names for which it is ambiguous what a provider would read, with the error for each. */
  readonly faults: ReadonlyMap<string, InvalidRequestError>;
}

export const NO_MEMBERS: BodyMembers = { found: new Map(), faults: new Map() };

/**
 * Finds members of a body that is known to be a valid request, in one pass over its bytes.
 *
 * @param names - of at most 32 characters, all ASCII
 */
export async function findMembers(body: BodyChunks, names: Iterable<string>): Promise<BodyMembers> {
  const finder = new MemberFinder(names);
  const json = new JsonScanner<MemberPosition>('body', finder);
  await inTurns(body, (part) => {
    json.write(part);
  });
  json.end();
  return finder;
}

/** The part of the body that directly contains a value. */
type MemberPosition = 'body' | 'request' | 'extra_body' | 'member' | 'elsewhere';

class MemberFinder implements JsonListener<MemberPosition>, BodyMembers {
  readonly found = new Map<string, MemberSpan>();
  readonly faults = new Map<string, InvalidRequestError>();
  readonly #names: KeyMatcher<'name' | 'extra_body'>;
  /** The current member, if it is one of those searched for. */
  #member: { readonly name: string; readonly key: MemberSpan['key'] } | undefined;
  #start = 0;
  #isExtraBody = false;

  constructor(names: Iterable<string>) {
    const roles = Object.fromEntries(Array.from(names, (name) => [name, 'name' as const]));
    this.#names = new KeyMatcher<'name' | 'extra_body'>({ extra_body: 'extra_body', ...roles });
  }

  key(within: MemberPosition, token: JsonToken): void {
    if (within === 'request') this.#begin(token);
    else if (within === 'extra_body') this.#rejectInExtraBody(token);
  }

  value(within: MemberPosition, kind: JsonKind, token: JsonToken): MemberPosition {
    if (within === 'body') return 'request';
    if (within !== 'request') return 'elsewhere';
    const isContainer = kind === 'object' || kind === 'array';
    this.#start = token.start;
    if (this.#member && !isContainer) this.#end(token.end);
    if (this.#isExtraBody && kind === 'object') return 'extra_body';
    return this.#member ? 'member' : 'elsewhere';
  }

  close(position: MemberPosition, token: JsonToken): void {
    if (position === 'member' || (position === 'extra_body' && this.#member)) this.#end(token.end);
  }

  #begin(token: JsonToken): void {
    const match = this.#names.find(token);
    this.#member = undefined;
    this.#isExtraBody = match !== undefined && /^extra_body$/i.test(match.name);
    if (match?.role !== 'name') return;
    const { name, exact } = match;
    if (exact && !this.found.has(name)) {
      this.#member = { name, key: { start: token.start, end: token.end } };
      return;
    }
    this.#fault(duplicateField(name, exact), name);
  }

  /** Gateways such as LiteLLM merge the members of `extra_body` over the request's own. */
  #rejectInExtraBody(token: JsonToken): void {
    const match = this.#names.find(token);
    if (match?.role !== 'name') return;
    this.#fault(unsupportedField(`extra_body.${match.name}`, 'it belongs at the top level'), match.name);
  }

  #fault(error: InvalidRequestError, name: string): void {
    if (!this.faults.has(name)) this.faults.set(name, error);
  }

  #end(end: number): void {
    if (this.#member) this.found.set(this.#member.name, { start: this.#start, end, key: this.#member.key });
  }
}
