import { BILLED_FIELDS } from '../http/billed-fields.ts';
import { type BodyRule, jsonOf, MAX_MADE_BYTES, namesOf } from '../http/apply-body-rules.ts';
import { MORE_ANSWERS, OTHER_LIMIT, REJECTED_FIELDS } from '../http/rejected-fields.ts';
import type { BodyRules, BodyValue } from '../options/body-rules.ts';
import type { OutputLimitField } from '../options/provider-options.ts';
import { assertObject, optionError } from '../options/resolve-options.ts';
import type { OutputLimits, Provider } from './provider.ts';

/** The body rules of a target: its own, and its provider's for other fields. */
export interface TargetRules {
  readonly rules: readonly BodyRule[];
  /** The new name of the output limits, if they are renamed. */
  readonly limit: OutputLimitField | undefined;
  /** The limits that it obeys with that name. */
  readonly outputLimits: OutputLimits;
  /** The most bytes that the rules add to a prompt. */
  readonly addedBytes: number;
}

const BODY_RULES: Record<keyof BodyRules, true> = { set: true, default: true, drop: true, rename: true };

type Action = BodyRule['action'];

const LIMITS: readonly string[] = ['max_tokens', 'max_completion_tokens'] satisfies OutputLimitField[];
const ALL: readonly Action[] = ['set', 'default', 'drop', 'rename'];

/** Forbidden actions for fields that affect billing or routing, by their names in lower case. */
const FORBIDDEN: ReadonlyMap<string, { readonly actions: readonly Action[]; readonly why: string }> = new Map(
  [
    ...['model', 'messages', 'stream', 'stream_options', 'n', 'service_tier'].map(
      (name) => [name, { actions: ALL, why: 'the router bills or acts by it' }] as const,
    ),
    ...LIMITS.map(
      (name) =>
        [
          name,
          {
            actions: ['set', 'default', 'drop'] as const,
            why: 'give maxOutputTokens and enforceOutputLimit of the model for that',
          },
        ] as const,
    ),
    ...[
      'tools',
      'functions',
      'tool_choice',
      'google',
      'cache_control',
      'prompt_cache_options',
      'extra_body',
    ].map(
      (name) =>
        [
          name,
          { actions: ['set', 'default', 'rename'] as const, why: 'what the request can cost depends on it' },
        ] as const,
    ),
    [
      'response_format',
      { actions: ['rename'] as const, why: 'what the request can cost depends on it' },
    ] as const,
    ...Object.keys(BILLED_FIELDS).map(
      (name) =>
        [
          name.toLowerCase(),
          { actions: ['set', 'default', 'rename'] as const, why: 'the provider bills it apart' },
        ] as const,
    ),
    ...Object.entries(REJECTED_FIELDS).map(
      ([name, why]) =>
        [
          name.toLowerCase(),
          why === OTHER_LIMIT || why === MORE_ANSWERS
            ? { actions: ALL, why: 'what is held would not cover the answer' }
            : { actions: ['drop', 'rename'] as const, why: 'clients may not send it, so it is never there' },
        ] as const,
    ),
  ],
);

/** @throws {TypeError} naming the invalid option */
export function resolveBodyRules(
  given: BodyRules | undefined,
  outputLimits: OutputLimits,
  option: string,
): readonly BodyRule[] {
  if (given === undefined) return [];
  assertObject(given, option, BODY_RULES);
  const { set = {}, default: defaults = {}, drop = [], rename = {} } = given;
  assertObject(set, `${option}.set`);
  assertObject(defaults, `${option}.default`);
  if (!Array.isArray(drop)) throw optionError(`${option}.drop`, 'a list of names of fields', drop);
  assertObject(rename, `${option}.rename`);
  const rules: readonly BodyRule[] = [
    ...Object.entries(set).map(([name, value]) => valueRule('set', name, value, `${option}.set`)),
    ...Object.entries(defaults).map(([name, value]) =>
      valueRule('default', name, value, `${option}.default`),
    ),
    ...drop.map((name: unknown) => ({
      action: 'drop' as const,
      name: checkName(name, 'drop', `${option}.drop`),
    })),
    ...Object.entries(rename).map(([name, to]) => renameRule(name, to, `${option}.rename`)),
  ];
  assertDistinct(rules, option);
  const limit = renamedLimit(rules);
  if (limit !== undefined && outputLimits.only && !outputLimits.obeyed.includes(limit)) {
    throw new TypeError(
      `${option}.rename: the provider is not known to obey ${limit}; if it does, set its outputLimitField`,
    );
  }
  return rules;
}

function valueRule(action: 'set' | 'default', given: string, value: BodyValue, parent: string): BodyRule {
  const name = checkName(given, action, parent);
  const option = `${parent}.${name}`;
  if (typeof value === 'function') return { action, name, option, value };
  const text = jsonOf(value);
  if (text === undefined)
    throw new TypeError(`${option} must be a JSON value, or a function that returns one`);
  return { action, name, option, value: text };
}

function renameRule(given: string, target: unknown, parent: string): BodyRule {
  const name = checkName(given, 'rename', parent);
  const option = `${parent}.${name}`;
  const to = checkName(target, 'rename', option);
  if (name.toLowerCase() === to.toLowerCase()) throw optionError(option, 'a different name', to);
  if (LIMITS.includes(name) !== LIMITS.includes(to)) {
    throw new TypeError(`${option}: ${LIMITS.join(' and ')} can only be renamed to each other`);
  }
  return { action: 'rename', name, to };
}

function checkName(name: unknown, action: Action, option: string): string {
  if (typeof name !== 'string' || !/^[A-Za-z_][\w-]{0,31}$/.test(name)) {
    throw optionError(option, 'of top-level fields, of at most 32 letters, digits, _ and -', name);
  }
  const forbidden = FORBIDDEN.get(name.toLowerCase());
  if (forbidden?.actions.includes(action)) {
    throw new TypeError(`${option} must not name ${JSON.stringify(name)}: ${forbidden.why}`);
  }
  return name;
}

/** @throws {TypeError} if a field has two rules */
function assertDistinct(rules: readonly BodyRule[], option: string): void {
  const seen = new Map<string, Action>();
  for (const rule of rules) {
    for (const name of namesOf(rule)) {
      const other = seen.get(name.toLowerCase());
      if (other) {
        throw new TypeError(
          `${option} has two rules for ${JSON.stringify(name)} (${other} and ${rule.action}): use one`,
        );
      }
      seen.set(name.toLowerCase(), rule.action);
    }
  }
}

/** Combines the rules of a target and its provider; undefined without any.
 *
 * @throws {TypeError} if they conflict
 */
export function resolveTargetRules(
  { bodyRules, outputLimits }: Provider,
  given: BodyRules | undefined,
  option: string,
): TargetRules | undefined {
  const own = resolveBodyRules(given, outputLimits, option);
  const ofProvider = bodyRules.filter(({ name }) => !own.some((rule) => rule.name === name));
  const rules = [...ofProvider, ...own];
  if (rules.length === 0) return undefined;
  assertDistinct(rules, `${option}, combined with the provider's rules,`);
  const limit = renamedLimit(rules);
  return {
    rules,
    limit,
    outputLimits: limit === undefined ? outputLimits : { ...outputLimits, obeyed: [limit], only: true },
    addedBytes: rules.reduce((sum, rule) => sum + addedBytesOf(rule), 0),
  };
}

/** The new name of an output limit. */
function renamedLimit(rules: readonly BodyRule[]): OutputLimitField | undefined {
  return rules.flatMap((rule) => (rule.action === 'rename' && isLimit(rule.to) ? [rule.to] : []))[0];
}

function isLimit(name: string): name is OutputLimitField {
  return LIMITS.includes(name);
}

/** Bytes that a rule can add to the prompt. */
function addedBytesOf(rule: BodyRule): number {
  if (rule.action === 'drop' || rule.action === 'rename') return 0;
  const { value } = rule;
  if (typeof value === 'function') return MAX_MADE_BYTES;
  return /^["[{]/.test(value) ? Buffer.byteLength(value) : 0;
}
