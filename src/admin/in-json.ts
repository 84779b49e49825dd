/** What the router's own functions take and return, in JSON: names in snake_case, times as texts. */
export type InJson<Value> = {
  readonly [Name in keyof Value as SnakeCase<Name & string>]: Value[Name] extends Date | undefined
    ? string
    : Value[Name];
};

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
    return [name, member instanceof Date ? member.toISOString() : member];
  });
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

/** `requestsPerMinute` as `requests_per_minute`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camelCase(name: string): string {
  return name.replace(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
