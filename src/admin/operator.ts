/**
 * What an operator may do:
 *
 * - `read`: see everything, and find a key by its secret
 * - `keys`: create, change, rotate, pause and revoke API keys; create and revoke sessions
 * - `credits`: grants, adjustments, allowances, refunds, credit limits
 * - `accounts`: policies of accounts; freeze, unfreeze and delete them
 * - `providers`: eject and readmit
 */
export const PERMISSIONS = ['read', 'keys', 'credits', 'accounts', 'providers'] as const;

export type Permission = (typeof PERMISSIONS)[number];

/** An operator who may not do everything, as `authorize` returns one. */
export interface Operator {
  /** For the audit: at most 200 characters. */
  readonly name: string;
  /** An operation that needs another permission gets a 403. */
  readonly may: readonly Permission[];
}

/**
 * What `authorize` returned, as an operator: a name alone may do everything. Undefined for an unauthenticated client.
 *
 * @throws {TypeError} if it is neither: a wrong type must not authorize
 */
export function operatorOf(answer: unknown): Operator | undefined {
  if (answer === undefined || answer === null || answer === false || answer === '') return undefined;
  if (typeof answer === 'string') return { name: nameOf(answer), may: PERMISSIONS };
  if (typeof answer !== 'object') throw wrongAnswer(`got ${typeof answer}`);
  const { name, may }: { readonly name?: unknown; readonly may?: unknown } = answer;
  if (!Array.isArray(may)) throw wrongAnswer(`its may is ${typeof may}`);
  const unknown = may.find((each) => !PERMISSIONS.includes(each));
  if (unknown !== undefined) throw wrongAnswer(`its may has ${JSON.stringify(unknown)}`);
  return { name: nameOf(name), may: PERMISSIONS.filter((each) => may.includes(each)) };
}

function nameOf(name: unknown): string {
  if (typeof name === 'string' && name !== '' && name.length <= 200) return name;
  const length =
    typeof name === 'string' ? `a name of ${name.length} characters` : `a name that is ${typeof name}`;
  throw wrongAnswer(`got ${length}`);
}

function wrongAnswer(got: string): TypeError {
  return new TypeError(
    `authorize must return the operator's name, of 1 to 200 characters, { name, may } with may a list of ${PERMISSIONS.join(', ')}, or undefined; ${got}`,
  );
}
