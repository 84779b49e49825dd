import {
  type KeyRecord,
  type KeyTerms,
  type Budget,
  BUDGET_PERIODS,
  COUNT_LIMIT_NAMES,
  countLimits,
  type EndUserLimits,
  type KeyLimits,
} from '../ledger/contract/key-records.ts';
import { formatUsd, parseUsd } from '../ledger/contract/money.ts';
import { checkEndUserLimits, checkLimits, checkName } from '../ledger/engine/validate-commands.ts';
import { parseMarkup } from '../metering/markup.ts';
import { parseRequirements } from '../options/labels.ts';
import { parseModelPatterns } from '../options/model-patterns.ts';
import {
  budgetsOf,
  type EndUserPolicy,
  isPolicyField,
  type KeyPolicy,
  type KeyPolicyChanges,
  MAX_METADATA,
  METADATA_WANTED,
  POLICY_FIELD_NAMES,
  type PolicyBudget,
  type PolicyLimits,
} from './key-policy.ts';

/** The last rotation that was given an id, which is kept beside the policy so that its repetition is found. */
export interface Rotation {
  readonly id: string;
  readonly overlapMs: number;
  /** The key's version that it is made from: while that is the key's, it is still to be made. */
  readonly version: number;
}

/**
 * A policy as the ledger keeps it.
 *
 * @throws {TypeError} naming the field that can't be right
 */
export function termsOf(policy: KeyPolicy, rotation?: Rotation): KeyTerms {
  for (const field of Object.keys(policy)) {
    if (!isPolicyField(field)) {
      throw new TypeError(
        `${JSON.stringify(field)} is no field of a key; it takes ${POLICY_FIELD_NAMES.join(', ')}`,
      );
    }
  }
  const { name = '', expiresAt, endUsers } = policy;
  checkName(name);
  const limits = limitsOf(policy, '');
  checkLimits(limits, '');
  if (expiresAt !== undefined && !(expiresAt instanceof Date && expiresAt.getTime() >= 0)) {
    throw policyError('expiresAt', 'a Date', expiresAt);
  }
  const text = keptText(policy, rotation);
  return {
    name,
    limits,
    ...(endUsers !== undefined && { endUsers: endUserLimitsOf(endUsers) }),
    ...(expiresAt && { expiresAt: expiresAt.getTime() }),
    ...(text !== undefined && { policy: text }),
  };
}

/** A policy as the ledger has kept it. */
export function policyOfTerms({
  name,
  limits,
  endUsers,
  expiresAt,
  policy,
}: Pick<KeyRecord, 'name' | 'limits' | 'endUsers' | 'expiresAt' | 'policy'>): KeyPolicy & {
  readonly name: string;
} {
  return {
    name,
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
    ...policyOfLimits(limits),
    ...(endUsers && { endUsers: policyOfLimits(endUsers) }),
    ...keptPolicy(policy),
  };
}

/** The part of a policy that the ledger keeps without reading it. */
export function keptPolicy(
  text: string | undefined,
): Pick<KeyPolicy, 'metadata' | 'models' | 'require' | 'markup'> {
  const { rotation: _, ...policy } = keptTerms(text);
  return policy;
}

export function rotationOf({ policy }: KeyRecord): Rotation | undefined {
  return keptTerms(policy).rotation;
}

type KeptTerms = Pick<KeyPolicy, 'metadata' | 'models' | 'require' | 'markup'> & {
  readonly rotation?: Rotation;
};

function keptTerms(text: string | undefined): KeptTerms {
  // Written by `termsOf`. An unreadable policy rejects every request.
  return text === undefined ? {} : JSON.parse(text);
}

export function withChanges(policy: KeyPolicy, changes: KeyPolicyChanges): KeyPolicy {
  const given = Object.entries(changes).filter(([, value]) => value !== undefined);
  const changed = Object.entries({ ...policy, ...Object.fromEntries(given) });
  return Object.fromEntries(changed.filter(([, value]) => value !== null && value !== undefined));
}

/** The ledger keeps 8,192: the rest is for a rotation. */
const MAX_POLICY_LENGTH = 8000;

/** @param where - what the limits are members of, for messages: `endUsers.` */
function limitsOf(limits: PolicyLimits, where: string): KeyLimits {
  const budgets = budgetsOf(limits).map((budget, n, { length }) =>
    budgetOf(budget, `${where}budget${length > 1 ? `[${n}]` : ''}`),
  );
  const periods = budgets.map(({ per }) => per);
  const twice = periods.find((per, n) => periods.indexOf(per) !== n);
  if (twice) throw policyError(`${where}budget`, 'at most one for each period', `two of a ${twice}`);
  return { ...(budgets.length > 0 && { budgets }), ...countLimits((limit) => limits[limit]) };
}

function budgetOf(budget: PolicyBudget, name: string): Budget {
  const isBudget = isRecord(budget) && Object.keys(budget).every((key) => key === 'amount' || key === 'per');
  if (!isBudget) throw policyError(name, '{ amount, per }', budget);
  const amount = parseUsd(budget.amount, `${name}.amount`);
  if (amount < 0n) throw policyError(`${name}.amount`, 'USD, 0 or more', budget.amount);
  if (!BUDGET_PERIODS.includes(budget.per)) {
    throw policyError(`${name}.per`, BUDGET_PERIODS.map((per) => JSON.stringify(per)).join(', '), budget.per);
  }
  return { amount, per: budget.per };
}

const END_USER_FIELDS: readonly string[] = ['budget', ...COUNT_LIMIT_NAMES, 'max'];

function endUserLimitsOf(policy: EndUserPolicy): EndUserLimits {
  if (!isRecord(policy)) throw policyError('endUsers', 'an object of limits', policy);
  const unknown = Object.keys(policy).find((field) => !END_USER_FIELDS.includes(field));
  if (unknown !== undefined) {
    throw new TypeError(
      `${JSON.stringify(unknown)} is no limit of endUsers; it takes ${END_USER_FIELDS.join(', ')}`,
    );
  }
  const { max } = policy;
  const limits = { ...limitsOf(policy, 'endUsers.'), ...(max !== undefined && { max }) };
  checkEndUserLimits(limits, 'endUsers.');
  return limits;
}

function policyOfLimits({ budgets = [], ...limits }: EndUserLimits): EndUserPolicy {
  const all = budgets.map(({ amount, per }) => ({ amount: formatUsd(amount), per }));
  const [first, ...more] = all;
  return { ...(first && { budget: more.length > 0 ? all : first }), ...limits };
}

function keptText(
  { metadata, models, require, markup }: KeyPolicy,
  rotation: Rotation | undefined,
): string | undefined {
  if (metadata !== undefined) checkMetadata(metadata);
  if (models !== undefined) parseModelPatterns(models, 'models');
  if (require !== undefined) parseRequirements(require, 'require');
  if (markup !== undefined) parseMarkup(markup, 'markup');
  const kept = { metadata, models, require, markup };
  const text = JSON.stringify(kept);
  if (text.length > MAX_POLICY_LENGTH) {
    throw new TypeError(
      `metadata, models and require must be at most ${MAX_POLICY_LENGTH} characters together, as JSON, got ${text.length}`,
    );
  }
  if (rotation) return JSON.stringify({ ...kept, rotation });
  return text === '{}' ? undefined : text;
}

function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  const entries = Object.entries(isRecord(metadata) ? metadata : {});
  const isNamed = entries.every(([name]) => name.length >= 1 && name.length <= MAX_METADATA.name);
  if (!isRecord(metadata) || !isNamed || entries.length > MAX_METADATA.entries) {
    throw policyError('metadata', METADATA_WANTED, metadata);
  }
  for (const [name, value] of entries) {
    if (typeof value === 'string' && value.length <= MAX_METADATA.value) continue;
    const wanted = `a string of at most ${MAX_METADATA.value} characters`;
    throw policyError(`metadata[${JSON.stringify(name)}]`, wanted, value);
  }
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Of a field that can't be right. */
export function policyError(field: string, wanted: string, got: unknown): TypeError {
  const shown = typeof got === 'bigint' ? `${got}n` : (JSON.stringify(got)?.slice(0, 100) ?? String(got));
  return new TypeError(`${field} must be ${wanted}, got ${shown}`);
}
