import type { KeyLimits, KeyRecord, KeyTerms } from '../ledger/contract/key-records.ts';
import { formatUsd, parseUsd } from '../ledger/contract/money.ts';
import { type Markup, parseMarkup } from '../metering/markup.ts';
import { parseModelPatterns } from '../options/model-patterns.ts';

/** What a key may do and what is noted of it; what isn't given isn't limited. */
export interface KeyPolicy {
  /** For those who read a list of keys; at most 200 characters. */
  readonly name?: string;
  /** Notes of the host's: at most 16, of names up to 64 and values up to 512 characters. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** From then on the key is refused, with 401 `expired_api_key`. */
  readonly expiresAt?: Date;
  /** IDs of the only models that it may use, in which `*` stands for any characters: `openai/*`. */
  readonly models?: readonly string[];
  /** USD, as a decimal string, that it may spend in each day, week (from Monday) or month, UTC, or at all. */
  readonly budget?: { readonly amount: string; readonly per: 'day' | 'week' | 'month' | 'lifetime' };
  readonly requestsPerMinute?: number;
  /** Prompt and completion, as used: while a request runs, as estimated. */
  readonly tokensPerMinute?: number;
  readonly concurrentRequests?: number;
  /** Added to the prices that it pays. */
  readonly markup?: Markup;
}

/** A KeyPolicy in part: what is `null` is taken away, what isn't there stays as it is. */
export type KeyPolicyChanges = { readonly [Field in keyof KeyPolicy]?: KeyPolicy[Field] | null };

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
    if (!Object.hasOwn(FIELDS, field)) {
      throw new TypeError(
        `a key has no ${JSON.stringify(field)}; it takes ${Object.keys(FIELDS).join(', ')}`,
      );
    }
  }
  const { name = '', expiresAt } = policy;
  if (typeof name !== 'string' || name.length > 200)
    throw policyError('name', 'at most 200 characters', name);
  if (expiresAt !== undefined && !(expiresAt instanceof Date && expiresAt.getTime() >= 0)) {
    throw policyError('expiresAt', 'a Date', expiresAt);
  }
  const text = policyText(policy, rotation);
  return {
    name,
    limits: limitsOf(policy),
    ...(expiresAt && { expiresAt: expiresAt.getTime() }),
    ...(text !== undefined && { policy: text }),
  };
}

/** A policy as the ledger has kept it. */
export function policyOf({
  name,
  limits,
  expiresAt,
  policy,
}: KeyRecord): KeyPolicy & { readonly name: string } {
  const { budget, ...counts } = limits;
  return {
    name,
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
    ...(budget && { budget: { amount: formatUsd(budget.amount), per: budget.per } }),
    ...counts,
    ...keptPolicy(policy),
  };
}

/** The part of a policy that the ledger keeps without reading it. */
export function keptPolicy(text: string | undefined): Pick<KeyPolicy, 'metadata' | 'models' | 'markup'> {
  const { rotation: _, ...policy } = keptTerms(text);
  return policy;
}

export function rotationOf({ policy }: KeyRecord): Rotation | undefined {
  return keptTerms(policy).rotation;
}

type KeptTerms = Pick<KeyPolicy, 'metadata' | 'models' | 'markup'> & { readonly rotation?: Rotation };

function keptTerms(text: string | undefined): KeptTerms {
  // Ours, written by `termsOf`: what can't be read lets nobody in.
  return text === undefined ? {} : JSON.parse(text);
}

export function withChanges(policy: KeyPolicy, changes: KeyPolicyChanges): KeyPolicy {
  const given = Object.entries(changes).filter(([, value]) => value !== undefined);
  const changed = Object.entries({ ...policy, ...Object.fromEntries(given) });
  return Object.fromEntries(changed.filter(([, value]) => value !== null && value !== undefined));
}

const FIELDS: Record<keyof KeyPolicy, true> = {
  name: true,
  metadata: true,
  expiresAt: true,
  models: true,
  budget: true,
  requestsPerMinute: true,
  tokensPerMinute: true,
  concurrentRequests: true,
  markup: true,
};

const PERIODS: readonly unknown[] = ['day', 'week', 'month', 'lifetime'];
const MAX_PER_MINUTE = 1_000_000_000;
/** The ledger keeps 8,192: the rest is for a rotation. */
const MAX_POLICY_LENGTH = 8000;

function limitsOf(policy: KeyPolicy): KeyLimits {
  const { budget, requestsPerMinute, tokensPerMinute, concurrentRequests } = policy;
  const counts = { requestsPerMinute, tokensPerMinute, concurrentRequests };
  for (const [field, limit] of Object.entries(counts)) {
    if (limit === undefined) continue;
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_PER_MINUTE) {
      throw policyError(field, `an integer from 1 to ${MAX_PER_MINUTE}`, limit);
    }
  }
  return {
    ...(budget !== undefined && { budget: budgetOf(budget) }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
    ...(concurrentRequests !== undefined && { concurrentRequests }),
  };
}

function budgetOf(budget: NonNullable<KeyPolicy['budget']>): NonNullable<KeyLimits['budget']> {
  checkFields('budget', budget, ['amount', 'per']);
  const amount = parseUsd(budget.amount, 'budget.amount');
  if (amount < 0n) throw policyError('budget.amount', 'USD, 0 or more', budget.amount);
  if (!PERIODS.includes(budget.per)) throw policyError('budget.per', PERIODS.join(', '), budget.per);
  return { amount, per: budget.per };
}

function policyText(
  { metadata, models, markup }: KeyPolicy,
  rotation: Rotation | undefined,
): string | undefined {
  if (metadata !== undefined) checkMetadata(metadata);
  if (models !== undefined) parseModelPatterns(models, 'models');
  if (markup !== undefined) parseMarkup(markup, 'markup');
  const kept = { metadata, models, markup };
  const text = JSON.stringify(kept);
  if (text.length > MAX_POLICY_LENGTH) {
    throw new TypeError(
      `metadata and models must be at most ${MAX_POLICY_LENGTH} characters together, as JSON, got ${text.length}`,
    );
  }
  if (rotation) return JSON.stringify({ ...kept, rotation });
  return text === '{}' ? undefined : text;
}

function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  const isRecord = typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata);
  const entries = Object.entries(isRecord ? metadata : {});
  if (!isRecord || entries.length > 16)
    throw policyError('metadata', 'an object of at most 16 strings', metadata);
  for (const [name, value] of entries) {
    if (name.length < 1 || name.length > 64) {
      throw policyError('metadata', 'an object with names of 1 to 64 characters', name);
    }
    if (typeof value !== 'string' || value.length > 512) {
      throw policyError(`metadata[${JSON.stringify(name)}]`, 'a string of at most 512 characters', value);
    }
  }
}

function checkFields(field: string, given: unknown, known: readonly string[]): void {
  const isRecord = typeof given === 'object' && given !== null && !Array.isArray(given);
  const unknown = isRecord && Object.keys(given).some((key) => !known.includes(key));
  if (!isRecord || unknown) throw policyError(field, `{ ${known.join(', ')} }`, given);
}

/** Of a field that can't be right. */
export function policyError(field: string, wanted: string, got: unknown): TypeError {
  const shown = typeof got === 'bigint' ? `${got}n` : (JSON.stringify(got)?.slice(0, 100) ?? String(got));
  return new TypeError(`${field} must be ${wanted}, got ${shown}`);
}
