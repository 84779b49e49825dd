import * as z from 'zod';

import type { ApiKeyDetails, ApiKeyInfo } from '../accounts/api-keys.ts';
import type { KeyPolicy, KeyPolicyChanges } from '../accounts/key-policy.ts';
import {
  at,
  component,
  described,
  integer,
  keyId,
  limit,
  oneOf,
  recreate,
  text,
  textOf,
  time,
  usd,
} from './fields.ts';

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

const MOST_A_MINUTE = 1_000_000_000;
const METADATA_WANTED =
  'an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512';
const MODEL_WANTED = 'a model ID of 1 to 256 characters without blanks, in which * stands for any characters';
const MODELS_WANTED = '1 to 100 model IDs, in which * stands for any characters';
const BUDGET_WANTED = 'an object of amount and per';
const MARKUP_WANTED = 'an object of factor, fee, or both';

const budget = component(
  'Budget',
  'USD that a key may spend in each day, week (from Monday) or month, UTC, or at all.',
  z.strictObject(
    {
      amount: limit,
      per: oneOf(['day', 'week', 'month', 'lifetime']),
    },
    { error: BUDGET_WANTED },
  ),
);

const markup = component(
  'Markup',
  'What is added to the prices that the key pays: a factor, and a fee in USD for each request.',
  z.strictObject(
    {
      factor: text('a decimal string as "1.2", with at most 6 decimals', /^\d{1,4}(\.\d{1,6})?$/).optional(),
      fee: text('a decimal string of USD as "0.001"', /^\d{1,4}(\.\d{1,9})?$/).optional(),
    },
    { error: MARKUP_WANTED },
  ),
);

const metadata = described(
  METADATA_WANTED,
  z
    .record(
      z.string().min(1, { error: METADATA_WANTED }).max(64, { error: METADATA_WANTED }),
      textOf(0, 512),
      { error: METADATA_WANTED },
    )
    .refine((value) => Object.keys(value).length <= 16, { error: METADATA_WANTED }),
);

const modelPatterns = described(
  MODELS_WANTED,
  z
    .array(text(MODEL_WANTED, /^[^\s\p{Cc}]{1,256}$/u), { error: MODELS_WANTED })
    .min(1, { error: MODELS_WANTED })
    .max(100, { error: MODELS_WANTED }),
);

const policy = {
  name: textOf(0, 200),
  metadata,
  expires_at: time,
  models: modelPatterns,
  budget,
  requests_per_minute: integer(1, MOST_A_MINUTE),
  tokens_per_minute: integer(1, MOST_A_MINUTE),
  concurrent_requests: integer(1, MOST_A_MINUTE),
  markup,
};

export const newApiKey: z.ZodType<
  PolicyBody & { readonly id?: string | undefined; readonly recreate?: boolean | undefined }
> = component(
  'NewApiKey',
  'A key for an account, which is made if there is none. What isn’t given isn’t limited. Its id, or an Idempotency-Key, makes it once.',
  z.strictObject({ id: keyId, ...policy, recreate }).partial(),
);

export const apiKeyChange: z.ZodType<PolicyChange> = component(
  'ApiKeyChange',
  'What is given is changed, what is null is taken away, the rest stays.',
  z
    .strictObject({
      name: policy.name.nullable(),
      metadata: policy.metadata.nullable(),
      expires_at: policy.expires_at.nullable(),
      models: policy.models.nullable(),
      budget: policy.budget.nullable(),
      requests_per_minute: policy.requests_per_minute.nullable(),
      tokens_per_minute: policy.tokens_per_minute.nullable(),
      concurrent_requests: policy.concurrent_requests.nullable(),
      markup: policy.markup.nullable(),
    })
    .partial(),
);

const told = {
  id: z.string(),
  account: z.string(),
  name: z.string(),
  state: z.enum(['active', 'revoked', 'expired']),
  created_at: at,
  revoked_at: at.optional(),
  expires_at: at.optional(),
  overlap_until: described('when its previous secret ends, or ended', at.optional()),
  metadata: z.record(z.string(), z.string()).optional(),
  models: z.array(z.string()).optional(),
  budget: z.object({ amount: usd, per: z.enum(['day', 'week', 'month', 'lifetime']) }).optional(),
  requests_per_minute: z.int().optional(),
  tokens_per_minute: z.int().optional(),
  concurrent_requests: z.int().optional(),
  markup: z.object({ factor: z.string().optional(), fee: z.string().optional() }).optional(),
};

export const apiKey: z.ZodType<KeyAnswer> = component(
  'ApiKey',
  'An API key, without its secret.',
  z.object(told),
);

export const apiKeyDetails: z.ZodType<KeyDetailsAnswer> = component(
  'ApiKeyDetails',
  'An API key, and how it stands: what it spent in the day, week or month of its budget, or ever.',
  z.object({
    ...told,
    spent: usd,
    held: usd,
    running: described('requests that run', z.int()),
    budget_left: usd.optional(),
    budget_resets_at: at.optional(),
    requests_left: described('that fit now', z.int().optional()),
    tokens_left: described('that fit now', z.int().optional()),
  }),
);

export const createdApiKey: z.ZodType<CreatedKeyAnswer> = component(
  'CreatedApiKey',
  'An API key and its secret. duplicate: it was made before, and its secret can not be had again; rotate gives it another.',
  z.object({
    ...told,
    key: described('sk-ccr-…: give it to its user now; only where it was made now', z.string().optional()),
    duplicate: z.boolean(),
  }),
);

export const apiKeys: z.ZodType<{ object: 'list'; data: KeyAnswer[] }> = component(
  'ApiKeys',
  'The keys of an account, revoked ones too.',
  z.object({ object: z.literal('list'), data: z.array(apiKey) }),
);

export const rotation: z.ZodType<{ readonly overlap_ms?: number | undefined }> = component(
  'Rotation',
  'For how long the secret of now works beside the new one, in ms; 0 by default.',
  z.strictObject({ overlap_ms: integer(0, 31_622_400_000).optional() }),
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
    ...(added !== undefined && { markup: markupOf(added) }),
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

function markupOf({ factor, fee }: NonNullable<PolicyBody['markup']>): { factor?: string; fee?: string } {
  return { ...(factor !== undefined && { factor }), ...(fee !== undefined && { fee }) };
}

function camelCase(name: string): string {
  return name.replace(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
