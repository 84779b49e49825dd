/**
 * What the router's own functions take and return, in JSON: names in snake_case, times as texts. The names in `metadata`,
 * `dimensions` and `require` are their author's.
 */
export type InJson<Value> = {
  readonly [Name in keyof Value as SnakeCase<Name & string>]: Name extends GivenNames
    ? Value[Name]
    : MemberInJson<Value[Name]>;
};

/** Members whose own members keep their names. */
type GivenNames = 'metadata' | 'dimensions' | 'require';

const GIVEN_NAMES: ReadonlySet<string> = new Set<GivenNames>(['metadata', 'dimensions', 'require']);

type MemberInJson<Value> = Value extends Date
  ? string
  : Value extends readonly (infer Item)[]
    ? readonly MemberInJson<Item>[]
    : Value extends object
      ? InJson<Value>
      : Value;

export type SnakeCase<Name extends string> = Name extends `${infer Letter}${infer Rest}`
  ? `${Letter extends Lowercase<Letter> ? Letter : `_${Lowercase<Letter>}`}${SnakeCase<Rest>}`
  : '';

/**
 * A record in JSON.
 *
 * @param names - of the members to tell, in snake_case: all by default, for a record that holds no secret
 */
export function inJson<Value extends object>(
  value: Value,
  names: readonly string[] = Object.keys(value).map(snakeCase),
): InJson<Value> {
  const members = names.map((name) => {
    const member: unknown = Reflect.get(value, camelCase(name));
    return [name, GIVEN_NAMES.has(name) ? member : memberInJson(member)];
  });
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

function memberInJson(member: unknown): unknown {
  if (member instanceof Date) return member.toISOString();
  if (Array.isArray(member)) return member.map(memberInJson);
  return typeof member === 'object' && member !== null ? inJson(member) : member;
}

/** The members of a record in JSON, by the names of the router's own functions. */
export function fromJson(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [camelCase(name), member]));
}

/** `requestsPerMinute` as `requests_per_minute`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camelCase(name: string): string {
  return name.replace(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
