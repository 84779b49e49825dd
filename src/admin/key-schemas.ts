import * as v from 'valibot';

import type { ApiKeyDetails, ApiKeyInfo } from '../keys/api-keys.ts';
import type { KeyPolicy, KeyPolicyChanges } from '../keys/key-policy.ts';
import {
  at,
  component,
  described,
  integer,
  keyId,
  limit,
  object,
  oneOf,
  recreate,
  type Schema,
  text,
  textOf,
  time,
  unlessArray,
  usd,
  whole,
} from './schema.ts';

/** An API key on the wire, in what is asked for and what is told. */

/** What isn't given isn't limited. */
export interface PolicyBody {
  readonly name?: string | undefined;
  readonly metadata?: Record<string, string> | undefined;
  readonly expires_at?: string | undefined;
  readonly models?: string[] | undefined;
  readonly budget?: { amount: string; per: 'day' | 'week' | 'month' | 'lifetime' } | undefined;
  readonly requests_per_minute?: number | undefined;
  readonly tokens_per_minute?: number | undefined;
  readonly concurrent_requests?: number | undefined;
  readonly markup?: { factor?: string | undefined; fee?: string | undefined } | undefined;
}

/** What is `null` is taken away. */
export type PolicyChange = { readonly [Field in keyof PolicyBody]?: PolicyBody[Field] | null };

export interface KeyAnswer extends PolicyBody {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  readonly state: 'active' | 'revoked' | 'expired';
  readonly created_at: string;
  readonly revoked_at?: string | undefined;
  readonly overlap_until?: string | undefined;
}

export interface KeyDetailsAnswer extends KeyAnswer {
  readonly spent: string;
  readonly held: string;
  readonly running: number;
  readonly budget_left?: string | undefined;
  readonly budget_resets_at?: string | undefined;
  readonly requests_left?: number | undefined;
  readonly tokens_left?: number | undefined;
}

export interface CreatedKeyAnswer extends KeyAnswer {
  readonly key?: string | undefined;
  readonly duplicate: boolean;
}

const MAX_PER_MINUTE = 1_000_000_000;
const METADATA_WANTED =
  'an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512';
const MODEL_WANTED = 'a model ID of 1 to 256 characters without blanks, in which * stands for any characters';
const MODELS_WANTED = '1 to 100 model IDs, in which * stands for any characters';
const BUDGET_WANTED = 'an object of amount and per';
const MARKUP_WANTED = 'an object of factor, fee, or both';

const budget = component(
  'Budget',
  'USD that a key may spend in each day, week (from Monday) or month, UTC, or at all.',
  object(
    {
      amount: limit,
      per: oneOf(['day', 'week', 'month', 'lifetime']),
    },
    BUDGET_WANTED,
  ),
);

const markup = component(
  'Markup',
  'What is added to the prices that the key pays: a factor, and a fee in USD for each request.',
  object(
    {
      factor: v.optional(text('a decimal string as "1.2", with at most 6 decimals', /^\d{1,4}(\.\d{1,6})?$/)),
      fee: v.optional(text('a decimal string of USD as "0.001"', /^\d{1,4}(\.\d{1,9})?$/)),
    },
    MARKUP_WANTED,
  ),
);

const metadata = described(
  METADATA_WANTED,
  v.pipe(
    unlessArray(METADATA_WANTED),
    v.record(
      v.pipe(v.string(), v.minLength(1, METADATA_WANTED), v.maxLength(64, METADATA_WANTED)),
      textOf(0, 512),
      METADATA_WANTED,
    ),
    v.maxEntries(16, METADATA_WANTED),
  ),
);

const modelPatterns = described(
  MODELS_WANTED,
  v.pipe(
    v.array(text(MODEL_WANTED, /^[^\s\p{Cc}]{1,256}$/u), MODELS_WANTED),
    v.minLength(1, MODELS_WANTED),
    v.maxLength(100, MODELS_WANTED),
  ),
);

const policy = {
  name: textOf(0, 200),
  metadata,
  expires_at: time,
  models: modelPatterns,
  budget,
  requests_per_minute: integer(1, MAX_PER_MINUTE),
  tokens_per_minute: integer(1, MAX_PER_MINUTE),
  concurrent_requests: integer(1, MAX_PER_MINUTE),
  markup,
};

export const newApiKey: Schema<
  PolicyBody & { readonly id?: string | undefined; readonly recreate?: boolean | undefined }
> = component(
  'NewApiKey',
  'A key for an account, which is made if there is none. What isn’t given isn’t limited. Its id, or an Idempotency-Key, makes it once.',
  object({
    id: v.optional(keyId),
    name: v.optional(policy.name),
    metadata: v.optional(policy.metadata),
    expires_at: v.optional(policy.expires_at),
    models: v.optional(policy.models),
    budget: v.optional(policy.budget),
    requests_per_minute: v.optional(policy.requests_per_minute),
    tokens_per_minute: v.optional(policy.tokens_per_minute),
    concurrent_requests: v.optional(policy.concurrent_requests),
    markup: v.optional(policy.markup),
    recreate: v.optional(recreate),
  }),
);

export const apiKeyChange: Schema<PolicyChange> = component(
  'ApiKeyChange',
  'What is given is changed, what is null is taken away, the rest stays.',
  object({
    name: v.nullish(policy.name),
    metadata: v.nullish(policy.metadata),
    expires_at: v.nullish(policy.expires_at),
    models: v.nullish(policy.models),
    budget: v.nullish(policy.budget),
    requests_per_minute: v.nullish(policy.requests_per_minute),
    tokens_per_minute: v.nullish(policy.tokens_per_minute),
    concurrent_requests: v.nullish(policy.concurrent_requests),
    markup: v.nullish(policy.markup),
  }),
);

const told = {
  id: v.string(),
  account: v.string(),
  name: v.string(),
  state: v.picklist(['active', 'revoked', 'expired']),
  created_at: at,
  revoked_at: v.optional(at),
  expires_at: v.optional(at),
  overlap_until: v.optional(described('when its previous secret ends, or ended', at)),
  metadata: v.optional(v.record(v.string(), v.string())),
  models: v.optional(v.array(v.string())),
  budget: v.optional(v.object({ amount: usd, per: v.picklist(['day', 'week', 'month', 'lifetime']) })),
  requests_per_minute: v.optional(whole),
  tokens_per_minute: v.optional(whole),
  concurrent_requests: v.optional(whole),
  markup: v.optional(v.object({ factor: v.optional(v.string()), fee: v.optional(v.string()) })),
};

export const apiKey: Schema<KeyAnswer> = component(
  'ApiKey',
  'An API key, without its secret.',
  v.object(told),
);

export const apiKeyDetails: Schema<KeyDetailsAnswer> = component(
  'ApiKeyDetails',
  'An API key, and how it stands: what it spent in the day, week or month of its budget, or ever.',
  v.object({
    ...told,
    spent: usd,
    held: usd,
    running: described('requests that run', whole),
    budget_left: v.optional(usd),
    budget_resets_at: v.optional(at),
    requests_left: v.optional(described('that fit now', whole)),
    tokens_left: v.optional(described('that fit now', whole)),
  }),
);

export const createdApiKey: Schema<CreatedKeyAnswer> = component(
  'CreatedApiKey',
  'An API key and its secret. duplicate: it was made before, and its secret can not be had again; rotate gives it another.',
  v.object({
    ...told,
    key: v.optional(described('sk-ccr-…: give it to its user now; only where it was made now', v.string())),
    duplicate: v.boolean(),
  }),
);

export const apiKeys: Schema<{ object: 'list'; data: KeyAnswer[] }> = component(
  'ApiKeys',
  'The keys of an account, revoked ones too.',
  v.object({ object: v.literal('list'), data: v.array(apiKey) }),
);

export const rotation: Schema<{ readonly overlap_ms?: number | undefined }> = component(
  'Rotation',
  'For how long the secret of now works beside the new one, in ms; 0 by default.',
  object({ overlap_ms: v.optional(integer(0, 31_622_400_000)) }),
);

/** A policy as the router's own functions take it. */
export function policyOf(asked: PolicyBody): KeyPolicy {
  const { expires_at: expiresAt, name, metadata: notes, models, budget: most, markup: added } = asked;
  return {
    ...(name !== undefined && { name }),
    ...(notes !== undefined && { metadata: notes }),
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
    ...(models !== undefined && { models }),
    ...(most !== undefined && { budget: most }),
    ...(asked.requests_per_minute !== undefined && { requestsPerMinute: asked.requests_per_minute }),
    ...(asked.tokens_per_minute !== undefined && { tokensPerMinute: asked.tokens_per_minute }),
    ...(asked.concurrent_requests !== undefined && { concurrentRequests: asked.concurrent_requests }),
    ...(added !== undefined && { markup: resolveMarkup(added) }),
  };
}

/** The same of a change, in which `null` takes a limit away. */
export function changesOf(asked: PolicyChange): KeyPolicyChanges {
  const given = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== null));
  const removed = Object.keys(asked).filter((name) => Reflect.get(asked, name) === null);
  return {
    ...policyOf(given),
    ...Object.fromEntries(removed.map((name) => [camelCase(name), null])),
  };
}

export function keyAnswer(key: ApiKeyInfo): KeyAnswer {
  const { id, account, name, state, createdAt, revokedAt, expiresAt, overlapUntil } = key;
  const { metadata: notes, models, budget: most, markup: added } = key;
  const { requestsPerMinute, tokensPerMinute, concurrentRequests } = key;
  return {
    id,
    account,
    name,
    state,
    created_at: createdAt.toISOString(),
    ...(revokedAt && { revoked_at: revokedAt.toISOString() }),
    ...(expiresAt && { expires_at: expiresAt.toISOString() }),
    ...(overlapUntil && { overlap_until: overlapUntil.toISOString() }),
    ...(notes && { metadata: { ...notes } }),
    ...(models && { models: [...models] }),
    ...(most && { budget: most }),
    ...(requestsPerMinute !== undefined && { requests_per_minute: requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokens_per_minute: tokensPerMinute }),
    ...(concurrentRequests !== undefined && { concurrent_requests: concurrentRequests }),
    ...(added && { markup: added }),
  };
}

export function keyDetailsAnswer(key: ApiKeyDetails): KeyDetailsAnswer {
  const { spent, held, running, budgetLeft, budgetResetsAt, requestsLeft, tokensLeft } = key;
  return {
    ...keyAnswer(key),
    spent,
    held,
    running,
    ...(budgetLeft !== undefined && { budget_left: budgetLeft }),
    ...(budgetResetsAt && { budget_resets_at: budgetResetsAt.toISOString() }),
    ...(requestsLeft !== undefined && { requests_left: requestsLeft }),
    ...(tokensLeft !== undefined && { tokens_left: tokensLeft }),
  };
}

function resolveMarkup({ factor, fee }: NonNullable<PolicyBody['markup']>): {
  factor?: string;
  fee?: string;
} {
  return { ...(factor !== undefined && { factor }), ...(fee !== undefined && { fee }) };
}

function camelCase(name: string): string {
  return name.replace(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
