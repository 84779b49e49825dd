// Made by scripts/admin-client-source.ts of src/admin/: `npm test -- test/unit/admin-client -u` makes it again.
import type { CallOptions, ChangeOptions } from './call-options.ts';

/** USD that may be spent in each hour, day, week (from Monday) or month, UTC, or at all. */
export interface Budget {
  /** a decimal string of USD, at most 9007199.254740991, with at most 9 decimals, such as "5.00" */
  readonly amount: string;
  /** "hour" or "day" or "week" or "month" or "lifetime" */
  readonly per: "hour" | "day" | "week" | "month" | "lifetime";
}

/** Limits of each end user. max: how many have limits of their own; those that come later share one. */
export interface EndUserLimits {
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  /** an integer from 1 to 100000 */
  readonly max?: number;
}

/** What is added to the prices that the key pays: a factor, and a fee in USD for each request. */
export interface Markup {
  /** a decimal string as "1.2", with at most 6 decimals */
  readonly factor?: string;
  /** a decimal string of USD as "0.001" */
  readonly fee?: string;
}

/** A key for an account, which is made if there is none. What isn’t given isn’t limited. Its id, or an Idempotency-Key, makes it once. */
export interface NewApiKey {
  /** 1 to 64 characters A-Z a-z 0-9 _ - */
  readonly id?: string;
  /** a string of 0 to 200 characters */
  readonly name?: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  readonly markup?: Markup;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  /** an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512 */
  readonly metadata?: Readonly<Record<string, string>>;
  /** true: recreate an account that the store has lost, without its data. Otherwise such a request is rejected with account_lost */
  readonly recreate?: boolean;
}

/** What is given is changed, what is null is taken away, the rest stays. */
export interface ApiKeyChange {
  readonly name?: string | null;
  readonly budget?: Budget | readonly (Budget)[] | null;
  readonly models?: readonly (string)[] | null;
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>> | null;
  readonly requests_per_minute?: number | null;
  readonly tokens_per_minute?: number | null;
  readonly concurrent_requests?: number | null;
  readonly end_users?: EndUserLimits | null;
  readonly markup?: Markup | null;
  readonly expires_at?: string | null;
  readonly metadata?: Readonly<Record<string, string>> | null;
}

/** An API key, without its secret. */
export interface ApiKey {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  readonly markup?: Markup;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  /** an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512 */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly state: "active" | "paused" | "revoked" | "expired";
  /** a time, in UTC */
  readonly created_at: string;
  /** a time, in UTC */
  readonly revoked_at?: string;
  /** when its previous secret ends, or ended */
  readonly overlap_until?: string;
}

/** An API key, and how it stands: what it spent in the day, week or month of its budget, or ever. */
export interface ApiKeyDetails {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  readonly markup?: Markup;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  /** an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512 */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly state: "active" | "paused" | "revoked" | "expired";
  /** a time, in UTC */
  readonly created_at: string;
  /** a time, in UTC */
  readonly revoked_at?: string;
  /** when its previous secret ends, or ended */
  readonly overlap_until?: string;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly held: string;
  /** requests that run */
  readonly running: number;
  /** of several budgets, of the one that has the least left */
  readonly budget_left?: string;
  /** a time, in UTC */
  readonly budget_resets_at?: string;
  /** each budget, if there are several */
  readonly budgets?: readonly ({
    /** USD, as a decimal string */
    readonly amount: string;
    readonly per: "hour" | "day" | "week" | "month" | "lifetime";
    /** USD, as a decimal string */
    readonly spent: string;
    /** USD, as a decimal string */
    readonly left: string;
    /** a time, in UTC */
    readonly resets_at?: string;
  })[];
  /** that fit now */
  readonly requests_left?: number;
  /** that fit now */
  readonly tokens_left?: number;
}

/** An API key and its secret. duplicate: it was made before, and its secret can not be had again; rotate gives it another. */
export interface CreatedApiKey {
  readonly id: string;
  readonly account: string;
  readonly name: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  readonly markup?: Markup;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  /** an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512 */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly state: "active" | "paused" | "revoked" | "expired";
  /** a time, in UTC */
  readonly created_at: string;
  /** a time, in UTC */
  readonly revoked_at?: string;
  /** when its previous secret ends, or ended */
  readonly overlap_until?: string;
  /** sk-ccr-…: give it to its user now; only where it was made now */
  readonly key?: string;
  readonly duplicate: boolean;
}

/** API keys, revoked ones too, without their secrets. */
export interface ApiKeys {
  readonly object: "list";
  readonly data: readonly (ApiKey)[];
}

/** For how long the secret of now works beside the new one, in ms; 0 by default. */
export interface Rotation {
  /** an integer from 0 to 31622400000 */
  readonly overlap_ms?: number;
}

/** What all keys of an account may do together. What isn’t given isn’t limited. */
export interface AccountPolicy {
  /** a string of 0 to 200 characters */
  readonly name?: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  /** an object of at most 16 strings, with names of 1 to 64 characters and values of up to 512 */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** What is given is changed, what is null is taken away, the rest stays. */
export interface AccountPolicyChange {
  readonly name?: string | null;
  readonly budget?: Budget | readonly (Budget)[] | null;
  readonly models?: readonly (string)[] | null;
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>> | null;
  readonly requests_per_minute?: number | null;
  readonly tokens_per_minute?: number | null;
  readonly concurrent_requests?: number | null;
  readonly end_users?: EndUserLimits | null;
  readonly metadata?: Readonly<Record<string, string>> | null;
}

/** What counts against the policy of an account, since it has had one. */
export interface AccountLimits {
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly held: string;
  /** requests that run */
  readonly running: number;
  /** of several budgets, of the one that has the least left */
  readonly budget_left?: string;
  /** a time, in UTC */
  readonly budget_resets_at?: string;
  /** each budget, if there are several */
  readonly budgets?: readonly ({
    /** USD, as a decimal string */
    readonly amount: string;
    readonly per: "hour" | "day" | "week" | "month" | "lifetime";
    /** USD, as a decimal string */
    readonly spent: string;
    /** USD, as a decimal string */
    readonly left: string;
    /** a time, in UTC */
    readonly resets_at?: string;
  })[];
  /** that fit now */
  readonly requests_left?: number;
  /** that fit now */
  readonly tokens_left?: number;
}

/** What counts for an end user. key: whose end_users limits it, if not the account’s. shared: it has no counters of its own, these are of all who share. */
export interface EndUserCounters {
  readonly end_user: string;
  /** 1 to 64 characters A-Z a-z 0-9 _ - */
  readonly key?: string;
  /** true or false */
  readonly shared: boolean;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly held: string;
  /** requests that run */
  readonly running: number;
  /** of several budgets, of the one that has the least left */
  readonly budget_left?: string;
  /** a time, in UTC */
  readonly budget_resets_at?: string;
  /** each budget, if there are several */
  readonly budgets?: readonly ({
    /** USD, as a decimal string */
    readonly amount: string;
    readonly per: "hour" | "day" | "week" | "month" | "lifetime";
    /** USD, as a decimal string */
    readonly spent: string;
    /** USD, as a decimal string */
    readonly left: string;
    /** a time, in UTC */
    readonly resets_at?: string;
  })[];
  /** that fit now */
  readonly requests_left?: number;
  /** that fit now */
  readonly tokens_left?: number;
}

/** A secret, sk-ccr-…, or the id of a key. */
export interface KeySearch {
  /** a string of 1 to 200 characters */
  readonly key: string;
}

/** An account and its money: granted is the sum of balance, held, spent and expired. */
export interface Account {
  readonly id: string;
  /** USD, as a decimal string */
  readonly balance: string;
  /** USD, as a decimal string */
  readonly credit_limit: string;
  /** USD, as a decimal string */
  readonly held: string;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly expired: string;
  /** USD, as a decimal string */
  readonly written_off: string;
  /** true or false */
  readonly frozen: boolean;
}

/** An account with its policy, and what counts against that. */
export interface AccountDetails {
  readonly id: string;
  /** USD, as a decimal string */
  readonly balance: string;
  /** USD, as a decimal string */
  readonly credit_limit: string;
  /** USD, as a decimal string */
  readonly held: string;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly expired: string;
  /** USD, as a decimal string */
  readonly written_off: string;
  /** true or false */
  readonly frozen: boolean;
  readonly policy: AccountPolicy;
  readonly limits?: AccountLimits;
}

/** Accounts by id. next_cursor is where the next page begins, null on the last one. */
export interface AccountPage {
  readonly object: "list";
  readonly data: readonly (Account)[];
  readonly next_cursor: string | null;
}

/** frozen: true rejects new completions of the account. policy: limits of all its keys together. credit_limit: how much it may owe. What isn’t given stays. */
export interface AccountChange {
  /** true or false */
  readonly frozen?: boolean;
  readonly policy?: AccountPolicyChange;
  /** a decimal string of USD, at most 9007199.254740991, with at most 9 decimals, such as "5.00" */
  readonly credit_limit?: string;
}

/** The sums of a deleted account: granted is the sum of balance, spent and expired. */
export interface DeletedAccount {
  readonly id: string;
  /** a time, in UTC */
  readonly deleted_at: string;
  /** USD, as a decimal string */
  readonly balance: string;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly expired: string;
  /** USD, as a decimal string */
  readonly written_off: string;
  readonly durable?: boolean;
}

/** Credits for an account, which is created if needed. An id, such as a payment’s, or an Idempotency-Key prevents a second grant. */
export interface NewGrant {
  /** 1 to 128 printable ASCII characters without spaces */
  readonly id?: string;
  /** a decimal string of USD, more than 0 and at most 9007199.254740991, with at most 9 decimals, such as "25.00" */
  readonly amount: string;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  /** an integer from 0 to 100 */
  readonly priority?: number;
  /** true: recreate an account that the store has lost, without its data. Otherwise such a request is rejected with account_lost */
  readonly recreate?: boolean;
}

/** A correction of a balance, up or down. The balance can not go below 0, or below what the credit limit allows, except with force: true, which freezes the account. */
export interface NewAdjustment {
  /** 1 to 128 printable ASCII characters without spaces */
  readonly id?: string;
  /** a decimal string of USD, not 0 and at most 9007199.254740991 up or down, with at most 9 decimals, such as "-5.00" */
  readonly delta: string;
  /** a string of 1 to 500 characters */
  readonly reason: string;
  /** true or false */
  readonly force?: boolean;
}

/** A grant or an adjustment of the account. duplicate: true means that an earlier request made it. */
export interface CreditsChange {
  readonly id: string;
  readonly account: string;
  /** the balance after the change, in USD as a decimal string */
  readonly available: string;
  readonly duplicate: boolean;
  /** whether it is on disk, or on the configured number of replicas: send the request again while it is false */
  readonly durable?: boolean;
}

/** What is left of the grants of an account, in the order in which it is spent. */
export interface Grants {
  readonly object: "list";
  readonly data: readonly ({
    readonly id: string;
    /** USD, as a decimal string */
    readonly amount: string;
    /** USD, as a decimal string */
    readonly remaining: string;
    readonly priority: number;
    /** a time, in UTC */
    readonly expires_at?: string;
    /** the allowance that granted it */
    readonly allowance?: string;
  })[];
}

/** A change of a balance. */
export interface JournalEntry {
  readonly position: number;
  readonly type: "grant" | "charge" | "late_charge" | "orphan_charge" | "expired_hold" | "expired_credit" | "adjustment" | "refund";
  /** a time, in UTC */
  readonly at: string;
  readonly id: string;
  /** the x-request-id of the request; missing for a change that is about none */
  readonly request_id?: string;
  /** USD, as a decimal string */
  readonly amount: string;
  /** USD, as a decimal string */
  readonly balance: string;
  /** USD, as a decimal string */
  readonly held?: string;
  /** USD, as a decimal string */
  readonly written_off?: string;
  readonly key?: string;
  readonly model?: string;
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly cached_tokens: number;
    readonly completion_tokens: number;
    readonly reasoning_tokens: number;
    readonly source: "upstream" | "estimated" | "none";
    /** USD, as a decimal string */
    readonly cost?: string;
    readonly price: string;
    readonly ending: string;
    readonly provider?: string;
    readonly upstream_model?: string;
    readonly first_byte_ms?: number;
    readonly duration_ms?: number;
    readonly finish_reason?: string;
    readonly streamed?: boolean;
    readonly cache_write_tokens?: number;
    readonly web_searches?: number;
    readonly byok?: boolean;
  };
  readonly dimensions?: Readonly<Record<string, string>>;
  readonly reason?: string;
}

/** Entries, in the order that was asked for. next_after is the position to continue after, null on the last page. */
export interface Journal {
  readonly object: "list";
  readonly data: readonly (JournalEntry)[];
  readonly next_after: number | null;
}

/** A month of an account: closing = opening + granted + adjusted - expired - charged + refunded. */
export interface Statement {
  readonly account: string;
  readonly month: string;
  /** a time, in UTC */
  readonly from: string;
  /** a time, in UTC */
  readonly to: string;
  /** USD, as a decimal string */
  readonly opening: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly adjusted: string;
  /** USD, as a decimal string */
  readonly expired: string;
  /** USD, as a decimal string */
  readonly charged: string;
  /** USD, as a decimal string */
  readonly refunded: string;
  /** USD, as a decimal string */
  readonly closing: string;
  /** USD, as a decimal string */
  readonly written_off: string;
  readonly charges: readonly ({
    readonly model: string;
    readonly key: string;
    readonly requests: number;
    /** USD, as a decimal string */
    readonly charged: string;
    /** USD, as a decimal string */
    readonly refunded: string;
  })[];
  readonly end_users: readonly ({
    readonly user: string;
    readonly requests: number;
    /** USD, as a decimal string */
    readonly charged: string;
    /** USD, as a decimal string */
    readonly refunded: string;
  })[];
  readonly credits: readonly (JournalEntry)[];
}

/** Where requests of a model go, what they are sold for, and what they cost. */
export interface ModelTarget {
  readonly provider: string;
  /** the provider's name for the model */
  readonly model: string;
  readonly weight: number;
  /** an operator has set the weight */
  readonly weight_by_hand?: {
    /** a time, in UTC */
    readonly at: string;
    /** the name that authorize returned */
    readonly by?: string;
    /** what the options say */
    readonly configured: number;
  };
  /** with the markup */
  readonly pricing: Readonly<Record<string, string | readonly ({
    readonly cost: string;
    readonly min: number;
    readonly max?: number;
  })[]>>;
  /** what the provider bills; missing if it is unknown */
  readonly cost?: Readonly<Record<string, string | readonly ({
    readonly cost: string;
    readonly min: number;
    readonly max?: number;
  })[]>>;
  /** the provider reports the cost of each request */
  readonly reports_cost: boolean;
  /** what the provider bills separately, and this has no price for: such requests are rejected */
  readonly unpriced: readonly (string)[];
}

/** A model; of a wildcard, its pattern. */
export interface ModelPrices {
  readonly id: string;
  readonly aliases: readonly (string)[];
  readonly strategy: string;
  /** from then on its requests are rejected */
  readonly shutdown_at?: string;
  readonly targets: readonly (ModelTarget)[];
}

/** All models, in the order of the options. */
export interface ModelList {
  readonly object: "list";
  readonly data: readonly (ModelPrices)[];
}

/** The weight of the targets that a model has at the provider. */
export interface SetWeight {
  /** the ID of a model, or the pattern of a wildcard */
  readonly model: string;
  /** if the model has several there: the provider’s name for it */
  readonly target?: string;
  /** 0: asked only after all others have failed; that of the options takes it back */
  readonly weight: number;
}

/** The operator of the request. */
export interface Me {
  /** as authorize returned it */
  readonly name: string;
  /** operations that need another permission are a 403 */
  readonly may: readonly ("read" | "keys" | "credits" | "accounts" | "providers")[];
}

/** Credits that are granted in each period. With the id of an existing allowance, its new terms; per and anchor can not change. */
export interface NewAllowance {
  /** a decimal string of USD, more than 0 and at most 9007199.254740991, with at most 9 decimals, such as "25.00" */
  readonly amount: string;
  /** "hour" or "day" or "week" or "month" */
  readonly per: "hour" | "day" | "week" | "month";
  /** a time at which a period begins */
  readonly anchor?: string;
  /** "none" or "once" or "all" */
  readonly rollover?: "none" | "once" | "all";
  /** an integer from 0 to 100 */
  readonly priority?: number;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly until?: string;
  /** "next_period" or "prorate" */
  readonly change?: "next_period" | "prorate";
  /** true: recreate an account that the store has lost, without its data. Otherwise such a request is rejected with account_lost */
  readonly recreate?: boolean;
}

/** Credits that are granted in each period. amount is that of the next period, granted that of the current one. */
export interface Allowance {
  readonly id: string;
  /** USD, as a decimal string */
  readonly amount: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly remaining: string;
  readonly per: "hour" | "day" | "week" | "month";
  /** a time, in UTC */
  readonly anchor: string;
  readonly rollover: "none" | "once" | "all";
  readonly priority: number;
  /** a time, in UTC */
  readonly until?: string;
  /** a time, in UTC */
  readonly period_start: string;
  /** a time, in UTC */
  readonly resets_at: string;
}

/** The allowances of an account. */
export interface Allowances {
  readonly object: "list";
  readonly data: readonly (Allowance)[];
}

/** A refund of one request, at most its charge, which is the default. */
export interface NewRefund {
  /** a decimal string of USD, more than 0 and at most 9007199.254740991, with at most 9 decimals, such as "25.00" */
  readonly amount?: string;
  /** a string of 1 to 500 characters */
  readonly reason: string;
}

/** A refund of one request. duplicate: true means that an earlier request made it. */
export interface Refund {
  readonly request_id: string;
  /** USD, as a decimal string */
  readonly amount: string;
  readonly account: string;
  /** the balance after the change, in USD as a decimal string */
  readonly available: string;
  readonly duplicate: boolean;
  /** whether it is on disk, or on the configured number of replicas: send the request again while it is false */
  readonly durable?: boolean;
}

/** An allowance that has ended, or will with its period. */
export interface AllowanceEnd {
  readonly id: string;
  readonly account: string;
  /** the balance after the change, in USD as a decimal string */
  readonly available: string;
  readonly duplicate: boolean;
  /** whether it is on disk, or on the configured number of replicas: send the request again while it is false */
  readonly durable?: boolean;
}

/** A request to a provider. */
export interface Attempt {
  readonly provider: string;
  /** the provider's name for the model */
  readonly model: string;
  /** from the request's arrival until this was sent, in ms */
  readonly after_ms: number;
  /** ms */
  readonly duration_ms: number;
  /** of the provider's answer; missing if there was none */
  readonly status?: number;
  /** why there was no answer for the client */
  readonly code?: string;
  /** the provider's own code, or that of the connection */
  readonly upstream_code?: string;
  readonly upstream_request_id?: string;
}

/** One request: what it was, where it went, and what it cost. It holds no prompt and no answer. */
export interface LoggedRequest {
  /** the x-request-id of its response */
  readonly id: string;
  /** when it arrived */
  readonly created_at: string;
  readonly account: string;
  /** the ID of the API key */
  readonly key: string;
  readonly endpoint: "completions" | "metered";
  /** what the client got; 499 if it left before */
  readonly status: number;
  /** of the error that the client got */
  readonly code?: string;
  readonly model?: string;
  /** that answered, or was tried last */
  readonly provider?: string;
  readonly upstream_model?: string;
  /** the client's own key of the provider was used */
  readonly byok?: boolean;
  readonly streamed: boolean;
  readonly attempts: readonly (Attempt)[];
  /** ms */
  readonly first_byte_ms?: number;
  /** ms */
  readonly duration_ms: number;
  readonly ending?: string;
  readonly finish_reason?: string;
  /** refused: without a hold; unsettled: its charge is not posted yet; voided: nothing is charged */
  readonly state: "refused" | "unsettled" | "voided" | "settled";
  /** USD, as a decimal string */
  readonly charged: string;
  /** USD, as a decimal string */
  readonly written_off?: string;
  /** what the provider bills, in USD */
  readonly cost?: string;
  readonly price?: string;
  /** counts of tokens, and their source */
  readonly usage?: Readonly<Record<string, number | string | boolean>>;
  readonly dimensions?: Readonly<Record<string, string>>;
  /** the client's own x-request-id */
  readonly client_request_id?: string;
}

/** Requests, the newest first. */
export interface FoundRequests {
  readonly object: "list";
  readonly data: readonly (LoggedRequest)[];
  /** for cursor, where there may be more; null: there are no more */
  readonly next_cursor: string | null;
}

/** What a provider may cost in a period, and has cost in this one, in all processes. */
export interface ProviderBudget {
  /** USD */
  readonly amount: string;
  readonly per: "hour" | "day" | "week" | "month";
  /** USD, in this period */
  readonly spent: string;
  /** when the period ends */
  readonly until: string;
  /** an operator has readmitted it: it isn’t ejected before the period ends */
  readonly resumed?: true;
}

/** An operator has ejected a provider or a target, or a provider has cost what its stopAt allows. */
export interface Ejection {
  /** a time, in UTC */
  readonly at: string;
  /** the name that authorize returned */
  readonly by?: string;
  readonly reason?: string;
  /** when it ends by itself */
  readonly until?: string;
  /** not by an operator: the provider has cost so much */
  readonly stop_at?: {
    /** USD */
    readonly amount: string;
    readonly per: "hour" | "day" | "week" | "month";
  };
}

/** Sums over the requests to a provider in the last five minutes. */
export interface AttemptStats {
  /** requests that were over; not those whose client left first */
  readonly requests: number;
  /** of those, the ones that the provider failed */
  readonly errors: number;
  readonly error_rate?: number;
  /** rounded up to a step of a fifth */
  readonly first_byte_p50_ms?: number;
  readonly first_byte_p95_ms?: number;
  /** of answers that ended well; of streams from their first event on */
  readonly tokens_per_second?: number;
  /** as the provider counts them */
  readonly prompt_tokens?: number;
  /** of those, the ones that it read from its prompt cache */
  readonly cached_tokens?: number;
}

/** A model of a provider. */
export interface ProviderTarget {
  readonly model: string;
  readonly state: "healthy" | "degraded" | "ejected";
  /** since when it has the state */
  readonly since?: string;
  /** when it is tried again; missing until an operator readmits it */
  readonly retry_at?: string;
  readonly retry_in_ms?: number;
  readonly ejection?: Ejection;
  /** requests that are running there now */
  readonly running: number;
  readonly recent: AttemptStats;
  /** ejected after failures of few accounts: others choose it as usual */
  readonly some_accounts_only?: true;
  readonly failures_in_a_row: number;
  readonly probing?: true;
}

/** An error of a provider. The message is the provider’s own, with secrets masked; it may quote a prompt. */
export interface ProviderFault {
  /** a time, in UTC */
  readonly at: string;
  readonly model: string;
  readonly request_id: string;
  /** of the provider’s answer */
  readonly status?: number;
  /** the router’s code */
  readonly code: string;
  readonly provider_code?: string;
  readonly message: string;
}

/** An API key of a provider: its last four characters, and what is left of its rate limits by its last answers. */
export interface ProviderKey {
  readonly name: string;
  readonly masked?: string;
  readonly state: "available" | "rate_limited" | "refused";
  /** when it is used again; missing for the only key, which is used all the same */
  readonly until?: string;
  readonly limits: readonly ({
    readonly model: string;
    readonly name: string;
    readonly limit?: number;
    readonly remaining: number;
    /** a time, in UTC */
    readonly reset_at?: string;
    /** a time, in UTC */
    readonly at: string;
  })[];
}

/** What is used of a limit. */
export interface LimitUse {
  readonly limit: number;
  /** in the last minute; of concurrent_requests, now */
  readonly used: number;
  /** neither used, nor granted to one of several processes */
  readonly left: number;
}

/** What is used of the limits of a provider or of a target, by one key. */
export interface ProviderLimit {
  /** missing for a provider without keys */
  readonly key?: string;
  /** missing: all models of the provider together */
  readonly model?: string;
  /** how many count together, by their last word; missing: what the process that answers used */
  readonly processes?: number;
  readonly requests_per_minute?: LimitUse;
  readonly tokens_per_minute?: LimitUse;
  readonly concurrent_requests?: LimitUse;
}

/** A provider, as this process has seen it since its start. */
export interface ProviderStatus {
  readonly name: string;
  readonly state: "healthy" | "degraded" | "ejected" | "unused";
  /** since when it has the state */
  readonly since?: string;
  /** when it is tried again; missing until an operator readmits it */
  readonly retry_at?: string;
  readonly retry_in_ms?: number;
  readonly ejection?: Ejection;
  /** requests that are running there now */
  readonly running: number;
  readonly recent: AttemptStats;
  readonly stop_at?: ProviderBudget;
  /** what ejecting and readmitting changes: all processes that share the store, or the one that answers */
  readonly changes_reach: "all_processes" | "this_process";
  /** the last 60 minutes, oldest first, without those that had no request */
  readonly history: readonly ({
    /** a time, in UTC */
    readonly at: string;
    /** requests that were over; not those whose client left first */
    readonly requests: number;
    /** of those, the ones that the provider failed */
    readonly errors: number;
    readonly error_rate?: number;
    /** rounded up to a step of a fifth */
    readonly first_byte_p50_ms?: number;
    readonly first_byte_p95_ms?: number;
    /** of answers that ended well; of streams from their first event on */
    readonly tokens_per_second?: number;
    /** as the provider counts them */
    readonly prompt_tokens?: number;
    /** of those, the ones that it read from its prompt cache */
    readonly cached_tokens?: number;
  })[];
  /** the last 20, newest first */
  readonly errors: readonly (ProviderFault)[];
  readonly keys: readonly (ProviderKey)[];
  /** for all models first, then for each target */
  readonly limits: readonly (ProviderLimit)[];
  /** those that were used, or ejected by an operator */
  readonly targets: readonly (ProviderTarget)[];
  readonly unused_targets: number;
}

/** The providers, as this process has seen them since its start. */
export interface Providers {
  readonly object: "list";
  readonly data: readonly (ProviderStatus)[];
  /** requests that wait in the process that answers, for each model with the option wait */
  readonly waiting: readonly ({
    readonly model: string;
    readonly waiting: number;
    /** as many as may wait */
    readonly most: number;
  })[];
}

/** What is ejected, why, and for how long. */
export interface EjectProvider {
  /** a model of the provider; default: the whole provider */
  readonly target?: string;
  /** a string of 1 to 200 characters */
  readonly reason?: string;
  /** an integer from 1 to 31622400000 */
  readonly for_ms?: number;
}

/** What is readmitted. */
export interface ReadmitProvider {
  /** a model of the provider; default: the whole provider */
  readonly target?: string;
}

/** A model of a provider that this process has sent requests to. */
export interface Target {
  readonly provider: string;
  readonly model: string;
  readonly state: "healthy" | "ejected" | "probing";
  readonly failures_in_a_row: number;
  /** when an ejected target is tried again */
  readonly retry_at?: string;
  /** recent time to first byte */
  readonly first_byte_ms?: number;
  /** requests that are running there now */
  readonly running: number;
}

/** Health of the targets that this process has sent requests to. */
export interface Targets {
  readonly object: "list";
  readonly data: readonly (Target)[];
}

/** A running completion; model and streaming are missing until its body has arrived. */
export interface RunningRequest {
  readonly id: string;
  readonly account: string;
  readonly key: string;
  readonly model?: string;
  readonly provider?: string;
  /** a time, in UTC */
  readonly started_at: string;
  readonly streaming?: boolean;
}

/** The running completions of this process, oldest first. */
export interface RunningRequests {
  readonly object: "list";
  readonly data: readonly (RunningRequest)[];
}

/** What a session may do, and for how long. */
export interface NewSession {
  /** a string of 1 to 128 characters */
  readonly user?: string;
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  readonly markup?: Markup;
  /** a decimal string of USD, more than 0 and at most 9007199.254740991, with at most 9 decimals, such as "25.00" */
  readonly max_spend: string;
  /** an integer from 1 to 86400000 */
  readonly ttl_ms: number;
  /** 1 to 10 origins, such as ["https://chat.example.com"] */
  readonly origins: readonly (string)[];
}

/** A session: the API key for the page, and its ID as a key of the account. */
export interface CreatedSession {
  readonly session: string;
  readonly id: string;
  /** a time, in UTC */
  readonly expires_at: string;
}

/** A session, as the page has it. */
export interface SessionToRevoke {
  /** a string of 1 to 4096 characters */
  readonly session: string;
}

/** A session that can not spend any more. */
export interface RevokedSession {
  readonly id: string;
  readonly account: string;
}

/** The process that answers: its store, what waits for it, and what it has logged since it started. */
export interface Status {
  /** a time, in UTC */
  readonly started_at: string;
  /** requests that it answers now */
  readonly running: number;
  readonly store: {
    /** its URL, without a password */
    readonly name: string;
    readonly state: "available" | "unavailable";
    readonly answer_ms: number;
    /** why it is unavailable */
    readonly error?: string;
  };
  /** that the store has not answered yet */
  readonly waiting_charges: number;
  /** the oldest 100 of them */
  readonly waiting: readonly ({
    readonly account: string;
    readonly request_id: string;
    /** how long */
    readonly waiting_ms: number;
  })[];
  readonly outbox?: {
    readonly folder: string;
    /** why nothing can be written there */
    readonly error?: string;
  };
  readonly request_log: {
    readonly written: number;
    readonly waiting: number;
    /** beyond 100 a minute of an account */
    readonly refusals_left_out: number;
    /** as the store was unavailable for too long */
    readonly lost: number;
  };
}

/** Accounts whose totals were recomputed from their records and journals, and what is wrong with them. */
export interface Verification {
  /** that were verified */
  readonly accounts: number;
  /** of their journals, that were read */
  readonly lines: number;
  readonly findings: readonly ({
    readonly account: string;
    readonly invariant: "I1" | "I2" | "I3" | "I4" | "I5" | "I6" | "I7";
    /** of the request that it is about */
    readonly request_id?: string;
    readonly message: string;
  })[];
  readonly next_cursor: string | null;
}

/** Sums over the requests that ended on a day, in UTC; with the members that they are grouped by. */
export interface UsageRow {
  /** a day such as "2027-01-31", in UTC */
  readonly day?: string;
  readonly account?: string;
  readonly key?: string;
  readonly model?: string;
  /** empty for none; (other) for those beyond 1,000 on a day */
  readonly user?: string;
  /** the one that answered, or was asked last; empty where it was not counted */
  readonly provider?: string;
  /** the value of the tag, as user */
  readonly tag?: string;
  readonly requests: number;
  readonly errors: number;
  /** requests whose client disconnected before the end */
  readonly aborted: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly reasoning_tokens: number;
  /** what accounts paid, in USD */
  readonly charged: string;
  /** what providers bill, in USD, where known */
  readonly cost: string;
}

/** Usage by day, account, key or model, or by end user, provider or tag. */
export interface UsageRows {
  readonly object: "list";
  readonly data: readonly (UsageRow)[];
}

/** A key of the account. What isn’t given isn’t limited. */
export interface NewCustomerKey {
  /** a string of 0 to 200 characters */
  readonly name?: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
}

/** What is given is changed, what is null is taken away, the rest stays. */
export interface CustomerKeyChange {
  readonly name?: string | null;
  readonly budget?: Budget | readonly (Budget)[] | null;
  readonly models?: readonly (string)[] | null;
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>> | null;
  readonly requests_per_minute?: number | null;
  readonly tokens_per_minute?: number | null;
  readonly concurrent_requests?: number | null;
  readonly end_users?: EndUserLimits | null;
  readonly expires_at?: string | null;
}

/** A key of the account, without its secret. */
export interface CustomerKey {
  readonly id: string;
  readonly name: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  readonly state: "active" | "paused" | "revoked" | "expired";
  /** a time, in UTC */
  readonly created_at: string;
  /** a time, in UTC */
  readonly revoked_at?: string;
  /** when its previous secret ends, or ended */
  readonly overlap_until?: string;
  /** made by the customer, who may change, pause and resume it */
  readonly managed: boolean;
}

/** A key of the account, and what is left of its limits. */
export interface CustomerKeyDetails {
  readonly id: string;
  readonly name: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  readonly state: "active" | "paused" | "revoked" | "expired";
  /** a time, in UTC */
  readonly created_at: string;
  /** a time, in UTC */
  readonly revoked_at?: string;
  /** when its previous secret ends, or ended */
  readonly overlap_until?: string;
  /** made by the customer, who may change, pause and resume it */
  readonly managed: boolean;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly held: string;
  /** requests that run */
  readonly running: number;
  /** of several budgets, of the one that has the least left */
  readonly budget_left?: string;
  /** a time, in UTC */
  readonly budget_resets_at?: string;
  /** each budget, if there are several */
  readonly budgets?: readonly ({
    /** USD, as a decimal string */
    readonly amount: string;
    readonly per: "hour" | "day" | "week" | "month" | "lifetime";
    /** USD, as a decimal string */
    readonly spent: string;
    /** USD, as a decimal string */
    readonly left: string;
    /** a time, in UTC */
    readonly resets_at?: string;
  })[];
  /** that fit now */
  readonly requests_left?: number;
  /** that fit now */
  readonly tokens_left?: number;
}

/** The keys of the account, revoked ones too, without their secrets. */
export interface CustomerKeys {
  readonly object: "list";
  readonly data: readonly (CustomerKey)[];
}

/** A key and its secret. duplicate: it was made before, and its secret can not be had again; rotate gives it another. */
export interface CreatedCustomerKey {
  readonly id: string;
  readonly name: string;
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
  /** a time such as "2027-01-31T00:00:00Z" */
  readonly expires_at?: string;
  readonly state: "active" | "paused" | "revoked" | "expired";
  /** a time, in UTC */
  readonly created_at: string;
  /** a time, in UTC */
  readonly revoked_at?: string;
  /** when its previous secret ends, or ended */
  readonly overlap_until?: string;
  /** made by the customer, who may change, pause and resume it */
  readonly managed: boolean;
  /** sk-ccr-…: only where it was made now */
  readonly key?: string;
  readonly duplicate: boolean;
}

/** What all keys of the account may do together. What isn’t given isn’t limited. */
export interface OwnPolicy {
  /** an object of amount and per, or a list of up to 5, each of another period */
  readonly budget?: Budget | readonly (Budget)[];
  /** 1 to 100 model IDs, in which * stands for any characters */
  readonly models?: readonly (string)[];
  /** labels that a target must have, by name: a value, or a list of which it must have one. */
  readonly require?: Readonly<Record<string, boolean | string | readonly (boolean | string)[]>>;
  /** an integer from 1 to 1000000000 */
  readonly requests_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly tokens_per_minute?: number;
  /** an integer from 1 to 1000000000 */
  readonly concurrent_requests?: number;
  readonly end_users?: EndUserLimits;
}

/** The credits of the account: what there is, and what ends when. */
export interface Credits {
  readonly account: string;
  /** USD, as a decimal string */
  readonly balance: string;
  /** for requests that are running */
  readonly held: string;
  /** USD, as a decimal string */
  readonly spent: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly expired: string;
  /** the balance can be spent down to minus this */
  readonly credit_limit: string;
  /** new requests are refused */
  readonly frozen: boolean;
  readonly policy?: OwnPolicy;
  readonly limits?: AccountLimits;
  /** what is left of each, in the order in which it is spent */
  readonly grants: readonly ({
    /** USD, as a decimal string */
    readonly amount: string;
    /** USD, as a decimal string */
    readonly remaining: string;
    /** null: it does not expire */
    readonly expires_at: string | null;
    /** the allowance that granted it */
    readonly allowance: string | null;
  })[];
  readonly allowances: readonly ({
    readonly id: string;
    /** of the next period, in USD */
    readonly amount: string;
    /** of this period, in USD */
    readonly granted: string;
    /** USD, as a decimal string */
    readonly remaining: string;
    readonly per: "hour" | "day" | "week" | "month";
    /** a time, in UTC */
    readonly resets_at: string;
    /** a time, in UTC */
    readonly until?: string;
  })[];
}

/** Who has signed in, and what it may do. */
export interface Holder {
  readonly account: string;
  readonly name: string;
  /** an API key, or a session of the site */
  readonly signed_in_by: "key" | "host";
  /** the ID of that API key */
  readonly key?: string;
  /** key: it sees that API key alone, which has limits of its own */
  readonly scope: "account" | "key";
  readonly may: readonly ("read" | "statements" | "keys" | "playground")[];
  /** where chat completions are served, on this origin */
  readonly api: string;
  /** fields of a key that are the same for all keys of this site, and can not be chosen */
  readonly fixed_key_fields: readonly (string)[];
  /** usage is counted by end user */
  readonly end_users: boolean;
}

/** The models that the account may use, at its prices. GET /v1/models says more of each. */
export interface OwnModels {
  readonly object: "list";
  readonly data: readonly ({
    readonly id: string;
    readonly name: string;
    readonly description: string;
    readonly owned_by: string;
    readonly context_length: number | null;
    /** USD per token or call, as decimal strings */
    readonly pricing: Readonly<Record<string, string | readonly ({
      readonly cost: string;
      readonly min: number;
      readonly max?: number;
    })[]>>;
  })[];
}

/** A short-lived API key for the page that asked for it. What it spends is charged to the account. */
export interface PlaygroundKey {
  /** ses-… */
  readonly key: string;
  /** a time, in UTC */
  readonly expires_at: string;
  /** USD, as a decimal string */
  readonly max_spend: string;
}

/** One request: what it was, and what was charged. It holds no prompt and no answer. */
export interface OwnRequest {
  /** the x-request-id of its response */
  readonly id: string;
  /** when it arrived */
  readonly created_at: string;
  /** the ID of the API key */
  readonly key: string;
  readonly endpoint: "completions" | "metered";
  /** of its response; 499 if the client left before */
  readonly status: number;
  /** of its error */
  readonly code?: string;
  readonly model?: string;
  readonly streamed: boolean;
  /** ms */
  readonly first_byte_ms?: number;
  /** ms */
  readonly duration_ms: number;
  readonly ending?: string;
  readonly finish_reason?: string;
  /** refused: it never ran; unsettled: its charge is not posted yet; voided: nothing is charged */
  readonly state: "refused" | "unsettled" | "voided" | "settled";
  /** USD, as a decimal string */
  readonly charged: string;
  /** the client's own x-request-id */
  readonly client_request_id?: string;
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly cached_tokens?: number;
    readonly completion_tokens: number;
    readonly reasoning_tokens?: number;
  };
  /** the end user */
  readonly user?: string;
}

/** Requests of the account, the newest first. */
export interface OwnRequests {
  readonly object: "list";
  readonly data: readonly (OwnRequest)[];
  /** for cursor, where there may be more; null: there are no more */
  readonly next_cursor: string | null;
}

/** A month of the account: closing = opening + granted + adjusted - expired - charged + refunded. */
export interface OwnStatement {
  readonly account: string;
  readonly month: string;
  /** a time, in UTC */
  readonly from: string;
  /** a time, in UTC */
  readonly to: string;
  /** USD, as a decimal string */
  readonly opening: string;
  /** USD, as a decimal string */
  readonly granted: string;
  /** USD, as a decimal string */
  readonly adjusted: string;
  /** USD, as a decimal string */
  readonly expired: string;
  /** USD, as a decimal string */
  readonly charged: string;
  /** USD, as a decimal string */
  readonly refunded: string;
  /** USD, as a decimal string */
  readonly closing: string;
  readonly charges: readonly ({
    readonly model: string;
    readonly key: string;
    readonly requests: number;
    /** USD, as a decimal string */
    readonly charged: string;
    /** USD, as a decimal string */
    readonly refunded: string;
  })[];
  readonly end_users: readonly ({
    readonly user: string;
    readonly requests: number;
    /** USD, as a decimal string */
    readonly charged: string;
    /** USD, as a decimal string */
    readonly refunded: string;
  })[];
  readonly credits: readonly ({
    readonly type: string;
    /** a time, in UTC */
    readonly at: string;
    /** USD, as a decimal string */
    readonly amount: string;
    /** USD, as a decimal string */
    readonly balance: string;
    readonly allowance?: string;
  })[];
}

/** Sums over the requests that ended on a day, in UTC, by day, key, model or end user. */
export interface OwnUsage {
  readonly object: "list";
  readonly data: readonly ({
    /** a day such as "2027-01-31", in UTC */
    readonly day?: string;
    readonly key?: string;
    readonly model?: string;
    /** empty for none; (other) for those beyond 1,000 on a day */
    readonly user?: string;
    readonly requests: number;
    readonly errors: number;
    /** requests whose client disconnected before the end */
    readonly aborted: number;
    readonly prompt_tokens: number;
    readonly cached_tokens: number;
    readonly completion_tokens: number;
    readonly reasoning_tokens: number;
    /** USD, as a decimal string */
    readonly charged: string;
  })[];
}

/** A function for each operation of the admin API. */
export interface AdminClient {
  /** Get the name and the permissions of the operator. `GET /me` */
  getMe(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Me>;
  /** List accounts with their balances. `GET /accounts` */
  listAccounts(input?: { readonly limit?: number; readonly cursor?: string }, options?: CallOptions): Promise<AccountPage>;
  /** Get the balance and the policy of an account. `GET /accounts/{account}` */
  getAccount(input: { readonly account: string }, options?: CallOptions): Promise<AccountDetails>;
  /** Freeze or unfreeze an account, change its policy, or set how much it may owe. `PATCH /accounts/{account}` */
  updateAccount(input: { readonly account: string } & AccountChange, options?: ChangeOptions): Promise<AccountDetails>;
  /** Delete an account: its keys, names, usage and journal. Its sums stay, under an id that says nothing of it. `DELETE /accounts/{account}` */
  deleteAccount(input: { readonly account: string }, options?: ChangeOptions): Promise<DeletedAccount>;
  /** Get what counts for an end user of an account, or of one of its keys. `GET /accounts/{account}/end-users/{end_user}` */
  getEndUser(input: { readonly account: string; readonly end_user: string; readonly key?: string }, options?: CallOptions): Promise<EndUserCounters>;
  /** Add credits to an account. `POST /accounts/{account}/grants` */
  createGrant(input: { readonly account: string } & NewGrant, options?: ChangeOptions): Promise<CreditsChange>;
  /** List what is left of the grants of an account, and when it expires. `GET /accounts/{account}/grants` */
  listGrants(input: { readonly account: string }, options?: CallOptions): Promise<Grants>;
  /** Correct a balance, up or down. `POST /accounts/{account}/adjustments` */
  createAdjustment(input: { readonly account: string } & NewAdjustment, options?: ChangeOptions): Promise<CreditsChange>;
  /** List the journal of an account. `GET /accounts/{account}/journal` */
  listJournal(input: { readonly account: string; readonly after?: number; readonly limit?: number; readonly order?: "oldest" | "newest" }, options?: CallOptions): Promise<Journal>;
  /** Get the statement of a month. `GET /accounts/{account}/statements/{month}` */
  getStatement(input: { readonly account: string; readonly month: string }, options?: CallOptions): Promise<Statement>;
  /** Get the statement of a month, as CSV. `GET /accounts/{account}/statements/{month}` */
  getStatementCsv(input: { readonly account: string; readonly month: string }, options?: CallOptions): Promise<string>;
  /** List the allowances of an account. `GET /accounts/{account}/allowances` */
  listAllowances(input: { readonly account: string }, options?: CallOptions): Promise<Allowances>;
  /** Create an allowance, or change it. `POST /accounts/{account}/allowances/{allowance}` */
  setAllowance(input: { readonly account: string; readonly allowance: string } & NewAllowance, options?: ChangeOptions): Promise<Allowance>;
  /** End an allowance at the end of its period, or now. `DELETE /accounts/{account}/allowances/{allowance}` */
  endAllowance(input: { readonly account: string; readonly allowance: string; readonly at?: "period_end" | "now" }, options?: ChangeOptions): Promise<AllowanceEnd>;
  /** Refund a request. `POST /accounts/{account}/requests/{request}/refund` */
  refundRequest(input: { readonly account: string; readonly request: string } & NewRefund, options?: ChangeOptions): Promise<Refund>;
  /** List the API keys of an account. `GET /accounts/{account}/keys` */
  listKeys(input: { readonly account: string }, options?: CallOptions): Promise<ApiKeys>;
  /** Create an API key, and show it once. `POST /accounts/{account}/keys` */
  createKey(input: { readonly account: string } & NewApiKey, options?: ChangeOptions): Promise<CreatedApiKey>;
  /** Get the policy and counters of an API key. `GET /accounts/{account}/keys/{id}` */
  getKey(input: { readonly account: string; readonly id: string }, options?: CallOptions): Promise<ApiKeyDetails>;
  /** Change the policy of an API key. `PATCH /accounts/{account}/keys/{id}` */
  updateKey(input: { readonly account: string; readonly id: string } & ApiKeyChange, options?: ChangeOptions): Promise<ApiKey>;
  /** Revoke an API key permanently. `DELETE /accounts/{account}/keys/{id}` */
  revokeKey(input: { readonly account: string; readonly id: string }, options?: ChangeOptions): Promise<ApiKey>;
  /** Reject an API key until it is resumed. `POST /accounts/{account}/keys/{id}/pause` */
  pauseKey(input: { readonly account: string; readonly id: string }, options?: ChangeOptions): Promise<ApiKey>;
  /** Accept a paused API key again. `POST /accounts/{account}/keys/{id}/resume` */
  resumeKey(input: { readonly account: string; readonly id: string }, options?: ChangeOptions): Promise<ApiKey>;
  /** Find the API keys that have a secret or an id. `POST /keys/find` */
  findKey(input: KeySearch, options?: ChangeOptions): Promise<ApiKeys>;
  /** Revoke the only API key that has a secret or an id. `POST /keys/revoke` */
  revokeFoundKey(input: KeySearch, options?: ChangeOptions): Promise<ApiKey>;
  /** Replace the secret of an API key, and show it once. `POST /accounts/{account}/keys/{id}/rotate` */
  rotateKey(input: { readonly account: string; readonly id: string } & Rotation, options?: ChangeOptions): Promise<CreatedApiKey>;
  /** Create a session for a web page. `POST /accounts/{account}/sessions` */
  createSession(input: { readonly account: string } & NewSession, options?: ChangeOptions): Promise<CreatedSession>;
  /** Revoke a session permanently. `POST /sessions/revoke` */
  revokeSession(input: SessionToRevoke, options?: ChangeOptions): Promise<RevokedSession>;
  /** Query usage and charges. `GET /usage` */
  queryUsage(input?: { readonly from?: string; readonly to?: string; readonly account?: string; readonly key?: string; readonly model?: string; readonly group_by?: readonly ('day' | 'account' | 'key' | 'model' | 'user' | 'provider' | `tag:${string}`)[] }, options?: CallOptions): Promise<UsageRows>;
  /** List all models with their targets, prices and costs. `GET /models` */
  listModels(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<ModelList>;
  /** Set the weight of a target of a model whose strategy is weighted. `POST /providers/{name}/weight` */
  setWeight(input: { readonly name: string } & SetWeight, options?: ChangeOptions): Promise<ModelPrices>;
  /** Search the log of requests. `GET /requests` */
  listRequests(input?: { readonly account?: string; readonly key?: string; readonly model?: string; readonly status?: string; readonly from?: string; readonly to?: string; readonly cursor?: string; readonly limit?: number; readonly provider?: string; readonly code?: string }, options?: CallOptions): Promise<FoundRequests>;
  /** Get a request from the log. `GET /requests/{request}` */
  getRequest(input: { readonly request: string }, options?: CallOptions): Promise<LoggedRequest>;
  /** List providers with their state, history, errors and keys. `GET /providers` */
  listProviders(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Providers>;
  /** Eject a provider, or one of its targets. `POST /providers/{name}/eject` */
  ejectProvider(input: { readonly name: string } & EjectProvider, options?: ChangeOptions): Promise<ProviderStatus>;
  /** Readmit a provider with all its targets, or one target. `POST /providers/{name}/readmit` */
  readmitProvider(input: { readonly name: string } & ReadmitProvider, options?: ChangeOptions): Promise<ProviderStatus>;
  /** List the health of the targets. `GET /health` */
  listTargets(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Targets>;
  /** List running completions. `GET /running` */
  listRunningRequests(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<RunningRequests>;
  /** Get the status of the process and its store. `GET /status` */
  getStatus(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Status>;
  /** Verify the balances of accounts against their journals, a page at a time. `GET /verification` */
  verifyAccounts(input?: { readonly account?: string; readonly limit?: number; readonly cursor?: string }, options?: CallOptions): Promise<Verification>;
  /** This document. `GET /openapi.json` */
  getDescription(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Readonly<Record<string, unknown>>>;
  /** The console, for browsers. A browser without valid credentials gets it too, and it asks for a token; a program gets a 401. `GET /` */
  getPage(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<string>;
}

/** A function for each operation of the account API. */
export interface AccountClient {
  /** Get who has signed in, and what it may do. `GET /me` */
  getMe(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Holder>;
  /** Get the credits of the account. `GET /credits` */
  getCredits(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Credits>;
  /** List the models that the account may use, at its prices. `GET /models` */
  listModels(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<OwnModels>;
  /** Query usage and charges. `GET /usage` */
  queryUsage(input?: { readonly from?: string; readonly to?: string; readonly key?: string; readonly model?: string; readonly group_by?: readonly ('day' | 'key' | 'model' | 'user')[] }, options?: CallOptions): Promise<OwnUsage>;
  /** Query usage and charges, as CSV. `GET /usage` */
  queryUsageCsv(input?: { readonly from?: string; readonly to?: string; readonly key?: string; readonly model?: string; readonly group_by?: readonly ('day' | 'key' | 'model' | 'user')[] }, options?: CallOptions): Promise<string>;
  /** List the API keys of the account. `GET /keys` */
  listKeys(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<CustomerKeys>;
  /** Create an API key, and show it once. `POST /keys` */
  createKey(input: NewCustomerKey, options?: ChangeOptions): Promise<CreatedCustomerKey>;
  /** Get the limits of an API key, and what is left of them. `GET /keys/{id}` */
  getKey(input: { readonly id: string }, options?: CallOptions): Promise<CustomerKeyDetails>;
  /** Change the limits of an API key that the customer made. `PATCH /keys/{id}` */
  updateKey(input: { readonly id: string } & CustomerKeyChange, options?: ChangeOptions): Promise<CustomerKey>;
  /** Revoke an API key permanently. `DELETE /keys/{id}` */
  revokeKey(input: { readonly id: string }, options?: ChangeOptions): Promise<CustomerKey>;
  /** Reject an API key that the customer made until it is resumed. `POST /keys/{id}/pause` */
  pauseKey(input: { readonly id: string }, options?: ChangeOptions): Promise<CustomerKey>;
  /** Accept a paused API key again, if the customer made it. `POST /keys/{id}/resume` */
  resumeKey(input: { readonly id: string }, options?: ChangeOptions): Promise<CustomerKey>;
  /** Replace the secret of an API key, and show it once. `POST /keys/{id}/rotate` */
  rotateKey(input: { readonly id: string } & Rotation, options?: ChangeOptions): Promise<CreatedCustomerKey>;
  /** Search the requests of the account. `GET /requests` */
  listRequests(input?: { readonly key?: string; readonly model?: string; readonly status?: string; readonly from?: string; readonly to?: string; readonly cursor?: string; readonly limit?: number }, options?: CallOptions): Promise<OwnRequests>;
  /** Search the requests of the account, as CSV. `GET /requests` */
  listRequestsCsv(input?: { readonly key?: string; readonly model?: string; readonly status?: string; readonly from?: string; readonly to?: string; readonly cursor?: string; readonly limit?: number }, options?: CallOptions): Promise<string>;
  /** Get a request of the account. `GET /requests/{request}` */
  getRequest(input: { readonly request: string }, options?: CallOptions): Promise<OwnRequest>;
  /** Get the statement of a month. `GET /statements/{month}` */
  getStatement(input: { readonly month: string }, options?: CallOptions): Promise<OwnStatement>;
  /** Get the statement of a month, as CSV. `GET /statements/{month}` */
  getStatementCsv(input: { readonly month: string }, options?: CallOptions): Promise<string>;
  /** Get a short-lived API key for the playground of a session of the site. `POST /playground` */
  createPlaygroundKey(input: Readonly<Record<string, never>>, options?: ChangeOptions): Promise<PlaygroundKey>;
  /** This document. `GET /openapi.json` */
  getDescription(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<Readonly<Record<string, unknown>>>;
  /** The account page, for browsers. A browser without valid credentials gets it too, and it asks for an API key; a program gets a 401. `GET /` */
  getPage(input?: Readonly<Record<string, never>>, options?: CallOptions): Promise<string>;
}
