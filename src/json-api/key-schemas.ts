import * as v from 'valibot';

import type { ApiKeyDetails, ApiKeyInfo } from '../keys/api-keys.ts';
import {
  isManaged,
  type KeyPolicy,
  type KeyPolicyChanges,
  MAX_METADATA,
  METADATA_WANTED,
  POLICY_FIELD_NAMES,
  type PolicyFieldName,
} from '../keys/key-policy.ts';
import {
  BUDGET_PERIODS,
  COUNT_LIMIT_NAMES,
  type CountLimit,
  everyCount,
  MAX_COUNT_LIMIT,
  MAX_END_USERS,
  MAX_NAME_LENGTH,
} from '../ledger/contract/key-records.ts';
import {
  areRequirements,
  LABEL_NAME,
  LABEL_WANTED,
  LABEL_WORD,
  type LabelRequirements,
  MAX_LABELS,
} from '../options/labels.ts';
import { MAX_MODEL_PATTERNS, MODEL_PATTERN } from '../options/model-patterns.ts';
import { fromJson, inJson, type InJson, snakeCase, type SnakeCase } from './in-json.ts';
import {
  at,
  component,
  described,
  flag,
  integer,
  keyId,
  limit,
  object,
  oneOf,
  record,
  recreate,
  type Schema,
  matching,
  textOf,
  time,
  usd,
  whole,
} from './schema.ts';

/** An API key in JSON: in requests and in responses. */

export type PolicyBody = InJson<KeyPolicy>;
/** What is `null` is taken away. */
export type PolicyChange = { readonly [Name in keyof PolicyBody]?: PolicyBody[Name] | null };
export type KeyAnswer = InJson<ApiKeyInfo>;
export type KeyDetailsAnswer = InJson<ApiKeyDetails>;
export type CreatedKeyAnswer = KeyAnswer & { readonly key?: string; readonly duplicate: boolean };

const MODEL_WANTED = 'a model ID of 1 to 256 characters without blanks, in which * stands for any characters';
const MODELS_WANTED = `1 to ${MAX_MODEL_PATTERNS} model IDs, in which * stands for any characters`;
const BUDGET_WANTED = 'an object of amount and per';
const BUDGETS_WANTED = `${BUDGET_WANTED}, or a list of up to ${BUDGET_PERIODS.length}, each of another period`;
const REQUIRE_WANTED = `an object of at most ${MAX_LABELS} labels, with names of lowercase letters, digits and _; zdr and training are booleans, region and quantization words`;
const MARKUP_WANTED = 'an object of factor, fee, or both';

const budget = component(
  'Budget',
  'USD that may be spent in each hour, day, week (from Monday) or month, UTC, or at all.',
  object(
    {
      amount: limit,
      per: oneOf(BUDGET_PERIODS),
    },
    BUDGET_WANTED,
  ),
);

/** One, or several. By what it is given, so that what is wrong in one is named as such; the document has both. */
const budgets = described(
  BUDGETS_WANTED,
  v.lazy((value) => {
    if (value === undefined) return v.union([budget, budgetList], BUDGETS_WANTED);
    return Array.isArray(value) ? budgetList : budget;
  }),
);

const budgetList = v.pipe(
  v.array(budget, BUDGETS_WANTED),
  v.minLength(1, BUDGETS_WANTED),
  v.maxLength(BUDGET_PERIODS.length, BUDGETS_WANTED),
);

const endUsers = component(
  'EndUserLimits',
  'Limits of each end user. max: how many have limits of their own; those that come later share one.',
  object(
    {
      budget: v.exactOptional(budgets),
      ...countsInJson(),
      max: v.exactOptional(integer(1, MAX_END_USERS)),
    },
    'an object of limits',
  ),
);

export const markup: Schema<{ readonly factor?: string; readonly fee?: string }> = component(
  'Markup',
  'What is added to the prices that the key pays: a factor, and a fee in USD for each request.',
  object(
    {
      factor: v.exactOptional(
        matching('a decimal string as "1.2", with at most 6 decimals', /^\d{1,4}(\.\d{1,6})?$/),
      ),
      fee: v.exactOptional(matching('a decimal string of USD as "0.001"', /^\d{1,4}(\.\d{1,9})?$/)),
    },
    MARKUP_WANTED,
  ),
);

const metadata = described(
  METADATA_WANTED,
  v.pipe(
    record(
      v.pipe(v.string(), v.minLength(1, METADATA_WANTED), v.maxLength(MAX_METADATA.name, METADATA_WANTED)),
      textOf(0, MAX_METADATA.value),
      METADATA_WANTED,
    ),
    v.maxEntries(MAX_METADATA.entries, METADATA_WANTED),
  ),
);

export const modelPatterns: Schema<readonly string[]> = described(
  MODELS_WANTED,
  v.pipe(
    v.array(matching(MODEL_WANTED, MODEL_PATTERN), MODELS_WANTED),
    v.minLength(1, MODELS_WANTED),
    v.maxLength(MAX_MODEL_PATTERNS, MODELS_WANTED),
  ),
);

const labelValue = v.union([flag(), matching(LABEL_WANTED, LABEL_WORD)], LABEL_WANTED);

export const requirements: Schema<LabelRequirements> = described(
  'labels that a target must have, by name: a value, or a list of which it must have one.',
  v.pipe(
    record(
      v.pipe(v.string(), v.regex(LABEL_NAME, REQUIRE_WANTED)),
      v.union(
        [labelValue, v.pipe(v.array(labelValue), v.minLength(1), v.maxLength(MAX_LABELS))],
        `${LABEL_WANTED}, or a list of 1 to ${MAX_LABELS}`,
      ),
      REQUIRE_WANTED,
    ),
    v.maxEntries(MAX_LABELS, REQUIRE_WANTED),
    v.check((value) => areRequirements(value), REQUIRE_WANTED),
  ),
);

const SCHEMAS: {
  readonly [Field in PolicyFieldName]: Schema<NonNullable<PolicyBody[SnakeCase<Field>]>>;
} = {
  name: textOf(0, MAX_NAME_LENGTH),
  metadata,
  expiresAt: time,
  models: modelPatterns,
  require: requirements,
  budget: budgets,
  ...everyCount(() => integer(1, MAX_COUNT_LIMIT)),
  endUsers,
  markup,
};

/** The members of a policy, each as `wrap` makes it. */
function members<Policy extends PolicyChange>(
  wrap: (schema: Schema) => Schema,
): { readonly [Name in keyof PolicyBody]-?: Schema<Exclude<Policy[Name], undefined>> } {
  return Object.fromEntries(
    POLICY_FIELD_NAMES.map((field) => [snakeCase(field), wrap(SCHEMAS[field])] as readonly unknown[]),
  );
}

/** What a customer decides of a key. */
export const OWN_FIELDS: readonly PolicyFieldName[] = POLICY_FIELD_NAMES.filter(
  (field) => field !== 'markup' && field !== 'metadata',
);

function ownMembers(wrap: (schema: Schema) => Schema): Record<string, Schema> {
  return Object.fromEntries(OWN_FIELDS.map((field) => [snakeCase(field), wrap(SCHEMAS[field])]));
}

export const newApiKey: Schema<PolicyBody & { readonly id?: string; readonly recreate?: boolean }> =
  component(
    'NewApiKey',
    'A key for an account, which is made if there is none. What isn’t given isn’t limited. Its id, or an Idempotency-Key, makes it once.',
    object({
      id: v.exactOptional(keyId),
      ...members<PolicyBody>(v.exactOptional),
      recreate: v.exactOptional(recreate),
    }),
  );

export const apiKeyChange: Schema<PolicyChange> = component(
  'ApiKeyChange',
  'What is given is changed, what is null is taken away, the rest stays.',
  object(members<PolicyChange>(v.nullish)),
);

const told = {
  id: v.string(),
  account: v.string(),
  ...members<PolicyBody>(v.exactOptional),
  name: v.string(),
  state: v.picklist(['active', 'paused', 'revoked', 'expired']),
  created_at: at,
  revoked_at: v.exactOptional(at),
  overlap_until: v.exactOptional(described('when its previous secret ends, or ended', at)),
};

const ownTold = {
  id: v.string(),
  ...ownMembers(v.exactOptional),
  name: v.string(),
  state: v.picklist(['active', 'paused', 'revoked', 'expired']),
  created_at: at,
  revoked_at: v.exactOptional(at),
  overlap_until: v.exactOptional(described('when its previous secret ends, or ended', at)),
  managed: described('made by the customer, who may change, pause and resume it', flag()),
};

const budgetState = v.object({
  amount: usd,
  per: v.picklist(BUDGET_PERIODS),
  spent: usd,
  left: usd,
  resets_at: v.exactOptional(at),
});

const limitCounters = {
  spent: usd,
  held: usd,
  running: described('requests that run', whole),
  budget_left: v.exactOptional(described('of several budgets, of the one that has the least left', usd)),
  budget_resets_at: v.exactOptional(at),
  budgets: v.exactOptional(described('each budget, if there are several', v.array(budgetState))),
  requests_left: v.exactOptional(described('that fit now', whole)),
  tokens_left: v.exactOptional(described('that fit now', whole)),
};

const toldInDetail = { ...told, ...limitCounters };

export const apiKey: Schema<KeyAnswer> = component(
  'ApiKey',
  'An API key, without its secret.',
  v.object(told),
);

export const apiKeyDetails: Schema<KeyDetailsAnswer> = component(
  'ApiKeyDetails',
  'An API key, and how it stands: what it spent in the day, week or month of its budget, or ever.',
  v.object(toldInDetail),
);

export const createdApiKey: Schema<CreatedKeyAnswer> = component(
  'CreatedApiKey',
  'An API key and its secret. duplicate: it was made before, and its secret can not be had again; rotate gives it another.',
  v.object({
    ...told,
    key: v.exactOptional(
      described('sk-ccr-…: give it to its user now; only where it was made now', v.string()),
    ),
    duplicate: v.boolean(),
  }),
);

export const apiKeys: Schema<{ object: 'list'; data: KeyAnswer[] }> = component(
  'ApiKeys',
  'API keys, revoked ones too, without their secrets.',
  v.object({ object: v.literal('list'), data: v.array(apiKey) }),
);

/** A key in the account API: without its notes and markup, which are the operator's. */
export type CustomerKeyAnswer = Omit<KeyAnswer, 'account' | 'markup' | 'metadata'> & {
  readonly managed: boolean;
};

export const newCustomerKey: Schema<PolicyBody> = component(
  'NewCustomerKey',
  'A key of the account. What isn’t given isn’t limited.',
  object(ownMembers(v.exactOptional)),
);

export const customerKeyChange: Schema<PolicyChange> = component(
  'CustomerKeyChange',
  'What is given is changed, what is null is taken away, the rest stays.',
  object(ownMembers(v.nullish)),
);

export const customerKey: Schema<CustomerKeyAnswer> = component(
  'CustomerKey',
  'A key of the account, without its secret.',
  v.object(ownTold),
);

export const customerKeyDetails: Schema<CustomerKeyAnswer> = component(
  'CustomerKeyDetails',
  'A key of the account, and what is left of its limits.',
  v.object({ ...ownTold, ...limitCounters }),
);

export const customerKeys: Schema<{ object: 'list'; data: CustomerKeyAnswer[] }> = component(
  'CustomerKeys',
  'The keys of the account, revoked ones too, without their secrets.',
  v.object({ object: v.literal('list'), data: v.array(customerKey) }),
);

export const createdCustomerKey: Schema<
  CustomerKeyAnswer & { readonly key?: string; readonly duplicate: boolean }
> = component(
  'CreatedCustomerKey',
  'A key and its secret. duplicate: it was made before, and its secret can not be had again; rotate gives it another.',
  v.object({
    ...ownTold,
    key: v.exactOptional(described('sk-ccr-…: only where it was made now', v.string())),
    duplicate: v.boolean(),
  }),
);

export const rotation: Schema<{ readonly overlap_ms?: number | undefined }> = component(
  'Rotation',
  'For how long the secret of now works beside the new one, in ms; 0 by default.',
  object({ overlap_ms: v.optional(integer(0, 31_622_400_000)) }),
);

function countsInJson(): {
  readonly [Name in SnakeCase<CountLimit>]: v.ExactOptionalSchema<Schema<number>, undefined>;
} {
  const counts = COUNT_LIMIT_NAMES.map((name) => [
    snakeCase(name),
    v.exactOptional(integer(1, MAX_COUNT_LIMIT)),
  ]);
  return Object.fromEntries(counts);
}

const ACCOUNT_FIELDS = POLICY_FIELD_NAMES.filter((field) => field !== 'expiresAt' && field !== 'markup');

function accountMembers(wrap: (schema: Schema) => Schema): Record<string, Schema> {
  return Object.fromEntries(ACCOUNT_FIELDS.map((field) => [snakeCase(field), wrap(SCHEMAS[field])]));
}

/** The policy of an account, and how it stands. */
export const accountPolicy: Schema<object> = component(
  'AccountPolicy',
  'What all keys of an account may do together. What isn’t given isn’t limited.',
  v.object(accountMembers(v.exactOptional)),
);

/** What an account's holder sees of its policy: not the operator's name and notes for it. */
const OWN_POLICY = ACCOUNT_FIELDS.filter((field) => field !== 'name' && field !== 'metadata').map(snakeCase);

export const ownPolicy: Schema<object> = component(
  'OwnPolicy',
  'What all keys of the account may do together. What isn’t given isn’t limited.',
  v.object(
    Object.fromEntries(
      Object.entries(accountMembers(v.exactOptional)).filter(([name]) => OWN_POLICY.includes(name)),
    ),
  ),
);

export function ownPolicyAnswer(policy: Omit<KeyPolicy, 'expiresAt' | 'markup'>): object {
  return inJson(policy, OWN_POLICY);
}

export const accountPolicyChange: Schema<PolicyChange> = component(
  'AccountPolicyChange',
  'What is given is changed, what is null is taken away, the rest stays.',
  object(accountMembers(v.nullish)),
);

export const accountLimits: Schema<object> = component(
  'AccountLimits',
  'What counts against the policy of an account, since it has had one.',
  v.object(limitCounters),
);

export const endUserCounters: Schema<object> = component(
  'EndUserCounters',
  'What counts for an end user. key: whose end_users limits it, if not the account’s. shared: it has no counters of its own, these are of all who share.',
  v.object({ end_user: v.string(), key: v.exactOptional(keyId), shared: flag(), ...limitCounters }),
);

export const noTerms: Schema<object> = component('NoTerms', 'An empty object, or no body.', object({}));

export const keySearch: Schema<{ readonly key: string }> = component(
  'KeySearch',
  'A secret, sk-ccr-…, or the id of a key.',
  object({ key: textOf(1, 200) }),
);

/** A policy, or a change of one, as the router's own functions take it. */
export function policyOfBody(asked: PolicyBody): KeyPolicy;
export function policyOfBody(asked: PolicyChange): KeyPolicyChanges;
export function policyOfBody(asked: PolicyChange): KeyPolicyChanges {
  const { expires_at: end, end_users: limits } = asked;
  const given = POLICY_FIELD_NAMES.map((field) => [field, Reflect.get(asked, snakeCase(field))]);
  return {
    ...Object.fromEntries(given.filter(([, value]) => value !== undefined)),
    ...(typeof end === 'string' && { expiresAt: new Date(end) }),
    ...(limits && { endUsers: fromJson(limits) }),
  };
}

export function keyAnswer(key: ApiKeyInfo): KeyAnswer {
  return inJson(key, Object.keys(told));
}

export function customerKeyAnswer(key: ApiKeyInfo): CustomerKeyAnswer {
  const { managed: _, ...names } = ownTold;
  return { ...inJson(key, Object.keys(names)), managed: isManaged(key) };
}

export function customerKeyDetailsAnswer(key: ApiKeyDetails): CustomerKeyAnswer {
  return { ...customerKeyAnswer(key), ...inJson(key, Object.keys(limitCounters)) };
}

export function keyDetailsAnswer(key: ApiKeyDetails): KeyDetailsAnswer {
  return inJson(key, Object.keys(toldInDetail));
}
