import type { WindowPeriod } from '../ledger/contract/key-records.ts';

/** The state of a provider, as this process has seen it since its start. */
export interface ProviderStatus {
  /** Its name in `providers`. */
  readonly name: string;
  /** `unused`: this process has sent it no request. `degraded`: it takes requests, but one of its targets is degraded or ejected. */
  readonly state: ProviderState | 'unused';
  /** Since when it has the state; undefined for `unused`. */
  readonly since?: Date;
  /** When an ejected provider is tried again; undefined until an operator readmits it. */
  readonly retryAt?: Date;
  readonly retryInMs?: number;
  /** Only if an operator has ejected the whole provider, or its `stopAt` has. */
  readonly ejection?: EjectionByHand;
  /** Only with the option `stopAt`. */
  readonly stopAt?: ProviderBudget;
  /** Which processes change if an operator ejects or readmits: all that share the store, or this one. */
  readonly changesReach: 'all_processes' | 'this_process';
  /** Number of requests that run there now. */
  readonly running: number;
  /** The last five minutes. */
  readonly recent: AttemptStats;
  /** The last 60 minutes, oldest first, without those that had no request. */
  readonly history: readonly MinuteStats[];
  /** The last 20 errors, newest first. */
  readonly errors: readonly ProviderFault[];
  /** Its API keys. */
  readonly keys: readonly ProviderKeyStatus[];
  /** What is used of its option `limits`, and of those of its targets: by each key, for all models first. */
  readonly limits: readonly ProviderLimitStatus[];
  /** Those that this process has used, or that an operator has ejected. */
  readonly targets: readonly ProviderTargetStatus[];
  /** Number of its other targets. */
  readonly unusedTargets: number;
}

/**
 * `ejected`: after failures, other targets are tried first; by an operator, it isn't chosen. `degraded`: chosen as usual, though its
 * latest request failed, or a tenth of at least ten requests of the last five minutes did. `healthy`: none of it.
 */
export type ProviderState = 'healthy' | 'degraded' | 'ejected';

/** A model of a provider. */
export interface ProviderTargetStatus {
  /** The provider's name for the model, or the upstream wildcard pattern. */
  readonly model: string;
  readonly state: ProviderState;
  /** Since when it has the state, as far as known; undefined if it was never used. */
  readonly since?: Date;
  /** When an ejected target is tried again; undefined until an operator readmits it. */
  readonly retryAt?: Date;
  readonly retryInMs?: number;
  /** Only if an operator has ejected the target, or its whole provider. */
  readonly ejection?: EjectionByHand;
  /** It is ejected after failures of few accounts: requests of others choose it as usual. */
  readonly someAccountsOnly?: true;
  readonly failuresInARow: number;
  /** A request is probing the ejected target. */
  readonly probing?: true;
  /** Number of requests that run there now. */
  readonly running: number;
  /** The last five minutes. */
  readonly recent: AttemptStats;
}

/** What a provider may cost in a period, and has. */
export interface ProviderBudget extends StopAt {
  /** In this period, of all processes; USD, as a decimal string. */
  readonly spent: string;
  /** When the period ends. */
  readonly until: Date;
  /** An operator has readmitted it: it isn't ejected before the period ends. */
  readonly resumed?: true;
}

/** An amount of USD, as a decimal string, in each period. */
export interface StopAt {
  readonly amount: string;
  readonly per: WindowPeriod;
}

/** An operator has ejected a target, or a provider; or a provider has cost what its `stopAt` allows. */
export interface EjectionByHand {
  readonly at: Date;
  /** Who did it; undefined if not given. */
  readonly by?: string;
  readonly reason?: string;
  /** When it ends by itself. */
  readonly until?: Date;
  /** Not by an operator: the provider has cost so much. */
  readonly stopAt?: StopAt;
}

/** Sums over requests to providers, each counted when it was over. */
export interface AttemptStats {
  /** Requests that show how the provider does: not those whose client left first. */
  readonly requests: number;
  /** Of those, the ones that failed for the provider: no answer, one of 429 or 5xx, with an error in it, cut off, or our key rejected. */
  readonly errors: number;
  /** 0 to 1; undefined without requests. */
  readonly errorRate?: number;
  /** Time until the first event of a stream, or the first byte of another answer, in ms, rounded up to a step of a fifth;
   * undefined without answers.
   */
  readonly firstByteP50Ms?: number;
  /** As `firstByteP50Ms`. */
  readonly firstByteP95Ms?: number;
  /**
   * Output tokens for each second of answers that ended well: of streams from their first event to their end, of others from
   * the request on; undefined without any.
   */
  readonly tokensPerSecond?: number;
  /** Tokens of prompts, as the provider counts them; undefined without any. */
  readonly promptTokens?: number;
  /** Of those, the ones that it read from its prompt cache: what `sticky` saves. */
  readonly cachedTokens?: number;
}

export interface MinuteStats extends AttemptStats {
  /** The beginning of the minute. */
  readonly at: Date;
}

/** An error of a provider. */
export interface ProviderFault {
  readonly at: Date;
  /** The provider's name for the model. */
  readonly model: string;
  /** `x-request-id` of the client's answer. */
  readonly requestId: string;
  /** Status of the provider's answer; undefined if there was none. */
  readonly status?: number;
  /** The router's code for it: see docs/errors.md. */
  readonly code: string;
  /** The provider's own code, e.g. `model_overloaded`, or that of the connection, e.g. `ECONNREFUSED`. */
  readonly providerCode?: string;
  /** What the provider said, on one line of at most 200 characters, with secrets masked. It may quote the client's prompt. */
  readonly message: string;
}

/** What is used of the option `limits` of a provider, or of a target, by one key. */
export interface ProviderLimitStatus {
  /** `key 1 of 2`; undefined for a provider without keys. */
  readonly key?: string;
  /** The target, as in `targets`; undefined: all models of the provider together. */
  readonly model?: string;
  /** How many processes count together, by their last word; undefined: what this process used, as it knows of no other. */
  readonly processes?: number;
  readonly requestsPerMinute?: LimitUse;
  readonly tokensPerMinute?: LimitUse;
  readonly concurrentRequests?: LimitUse;
}

export interface LimitUse {
  readonly limit: number;
  /** In the last minute; of `concurrentRequests`, now. */
  readonly used: number;
  /** Neither used, nor granted to one of several processes. */
  readonly left: number;
}

/** The requests for a model with `wait` that wait in this process. */
export interface WaitingStatus {
  /** Its ID, or the wildcard pattern. */
  readonly model: string;
  readonly waiting: number;
  /** As many as may wait. */
  readonly most: number;
}

/** An API key of a provider. */
export interface ProviderKeyStatus {
  /** `key 1 of 2` */
  readonly name: string;
  /** Its last four characters: `…wxyz`; undefined if it was not read yet, or is too short to show them. */
  readonly masked?: string;
  /** `refused`: the provider rejected it, or its quota is spent. `rate_limited`: for at least one model. */
  readonly state: 'available' | 'rate_limited' | 'refused';
  /** When it is used again; undefined for the only key, which is used all the same. */
  readonly until?: Date;
  /** What its last answers said. */
  readonly limits: readonly ProviderRateLimit[];
}

/** What is left of a rate limit of a key, as the provider's last answer says. */
export interface ProviderRateLimit {
  /** The provider's name for the model that was asked. */
  readonly model: string;
  /** `requests`, `tokens`, `requests-day` */
  readonly name: string;
  readonly limit?: number;
  readonly remaining: number;
  /** When it is whole again, by the provider's word. */
  readonly resetAt?: Date;
  /** When the provider said so. */
  readonly at: Date;
}
