import type { BalanceBelow, BudgetAt, LedgerEvent } from '../ledger/contract/events.ts';
import type { Dimensions, Ending } from '../ledger/contract/ledger-store.ts';
import type { StopAt } from './provider-status.ts';
import type { Usage } from '../metering/usage-dialects.ts';

/**
 * Called when something happens. Hooks may be async, and their errors can't break a request. No event holds an API key;
 * only `onContent` holds prompts and answers.
 */
export interface Hooks {
  /** A request arrived, at any endpoint; nothing of it is checked yet. Called synchronously, in the app's handler. */
  readonly onRequest?: (started: RequestStarted) => unknown;
  /** The response is over, however it ended. Called once for each `onRequest`. */
  readonly onResponse?: (ended: ResponseEnded) => unknown;
  /** The request and response bodies of a completion: personal data, recorded only if this hook is set. Called once for
   * each completion that had a hold, when its response is over, before `onResponse`.
   */
  readonly onContent?: (content: RecordedContent) => unknown;
  /** The most bytes of each body that `onContent` gets: 1 to 1,048,576.
   *
   * @default 65536
   */
  readonly maxContentBytes?: number;
  /** A request's charge was posted, or its hold was released (`charged` is `'0.00'`, `voided` true). Shortly before or after
   * `onResponse`; much later if the store is unavailable.
   */
  readonly onSettled?: (settled: Settled) => unknown;
  /** An error for the operator: a bug in the router, a provider's failure, an unavailable store. */
  readonly onError?: (error: Error, context: { readonly requestId?: string }) => unknown;
  /** A ledger event for the operator. */
  readonly onLedgerEvent?: (event: LedgerEvent) => unknown;
  /** A charge crossed one of `thresholds`; `onLedgerEvent` gets the same. */
  readonly onThreshold?: (crossed: BalanceBelow | BudgetAt) => unknown;
  /** A target was ejected, after failures or by an operator, or recovered. */
  readonly onHealthChange?: (change: HealthChange) => unknown;
  /** Called once, when the router is created, with functions for gauges to read at any time. */
  readonly onRouter?: (router: RouterGauges) => unknown;
  /** Adds headers to the requests to providers, e.g. for tracing. Called before each attempt, and not awaited. Headers that
   * the router sets are not replaced; invalid headers are dropped.
   */
  readonly upstreamHeaders?: (attempt: AttemptStarted) => Readonly<Record<string, string>> | undefined;
  /** Set by hooks that only measure: errors and alarms are still logged to stderr, as if these hooks had no `onError` and
   * no `onLedgerEvent`.
   *
   * @default false
   */
  readonly keepsDefaultLog?: boolean;
}

/** The endpoint that a path names; `metered` is a route of your own, behind `router.meter`. */
export type EndpointName =
  | 'completions'
  | 'models'
  | 'model'
  | 'credits'
  | 'generation'
  | 'key'
  | 'usage'
  | 'metered';

/** How a wait in line ended: at a target with room, at the end of its time, as the line was full or the router closed, or as its client left. */
export type WaitOutcome = 'served' | 'timed_out' | 'refused' | 'left';

export interface RequestStarted {
  /** `x-request-id` of the response, and the id in the ledger. */
  readonly requestId: string;
  /** Undefined for a path that is not served. */
  readonly endpoint: EndpointName | undefined;
  readonly method: string;
  /** Without the query; at most 256 characters. */
  readonly path: string;
  /** In ms since the epoch. */
  readonly startedAt: number;
  /** The client's own `x-request-id`, if it is 1 to 128 letters, digits and `_.:=+/@-`: for correlating logs, never used as an id. */
  readonly clientRequestId?: string;
  /** The client's W3C Trace Context. */
  readonly traceparent?: string;
  readonly tracestate?: string;
}

export interface ResponseEnded extends RequestStarted {
  /** The status that the client got; 499 if it left before there was one. */
  readonly status: number;
  /** Code of the error that the client got, or that ended its stream; a provider's own error has none. */
  readonly errorCode?: string;
  /** Undefined for an unauthenticated client. */
  readonly account?: string;
  /** The key's id. */
  readonly key?: string;
  /** The model's ID for clients; undefined if the request named no existing model. */
  readonly model?: string;
  /** The wildcard pattern of the model, if it came from one. Use it as a metric label, as clients choose the rest of the ID. */
  readonly wildcard?: string;
  /** The provider that answered, or was tried last. */
  readonly provider?: string;
  readonly upstreamModel?: string;
  /**
   * Whether the answer is of the target and key that served the last turn of the conversation: `kept`, or `moved` to another; `new`
   * if none is known. Undefined without an answer, or without the option `sticky`.
   */
  readonly sticky?: 'new' | 'kept' | 'moved';
  /** Its wait in line, where all targets of its model were full; undefined if it didn't wait. */
  readonly waited?: { readonly ms: number; readonly outcome: WaitOutcome };
  /** The `x-request-id` of the provider's last answer. */
  readonly upstreamRequestId?: string;
  readonly stream: boolean;
  /** The requests to providers, in order; a failover shows as a second one with another target. */
  readonly attempts: readonly AttemptEnded[];
  /** The calls of your `route` and `guard`, in the order of their ends; undefined if there were none. */
  readonly hookCalls?: readonly HookEnded[];
  /** From the request's arrival to the first byte of the response body, in ms. */
  readonly firstByteMs?: number;
  readonly durationMs: number;
  /** Undefined without a hold. */
  readonly ending?: Ending;
  /** The provider's `finish_reason` of the first choice; `error` if the answer reported an error. */
  readonly finishReason?: string;
  /** There was a hold: `onSettled` reports, or has reported, the charge. */
  readonly admitted: boolean;
}

export interface RecordedContent {
  readonly requestId: string;
  readonly account: string;
  /** The key's id. */
  readonly key: string;
  /** The model's ID for clients. */
  readonly model: string;
  /** The provider that answered, or was tried last. */
  readonly provider: string;
  readonly stream: boolean;
  /** The body as the client sent it, before any edit but that of `guard`, whose messages stand in place of the client's. */
  readonly request: Buffer;
  /** The body sent to the client: JSON, an event stream up to its end, or an error; empty if the client left before. */
  readonly response: Buffer;
  readonly requestTruncated: boolean;
  readonly responseTruncated: boolean;
}

/** A call of your `route` or `guard`. */
export interface HookEnded {
  readonly hook: 'route' | 'guard';
  /** In ms since the epoch. */
  readonly startedAt: number;
  readonly durationMs: number;
  /**
   * `changed`: it named a model, or replaced messages; `failed`: it threw, took too long or returned an invalid value;
   * `aborted`: the request was over first.
   */
  readonly result: 'passed' | 'changed' | 'refused' | 'failed' | 'aborted';
}

/** A request to a provider that is about to be sent. */
export interface AttemptStarted {
  readonly requestId: string;
  /** Index in `attempts` of `ResponseEnded`. */
  readonly index: number;
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  /** Host of the provider's base URL. */
  readonly host: string;
  readonly port: number;
  /** In ms since the epoch. */
  readonly startedAt: number;
}

export interface AttemptEnded extends Omit<AttemptStarted, 'requestId' | 'index'> {
  /** The upstream wildcard pattern, if the target came from one: use it as a metric label. */
  readonly wildcard?: string;
  /** Status of the provider's answer; undefined if there was none. */
  readonly status?: number;
  /** Why there was no answer for the client; `client_gone` if the client left. */
  readonly errorCode?: string;
  /** The provider's own code of its error, e.g. `model_overloaded`, or that of the connection, e.g. `ECONNREFUSED`. */
  readonly upstreamErrorCode?: string;
  readonly upstreamRequestId?: string;
  /** Until the answer was over, or known to be unusable; in ms. */
  readonly durationMs: number;
}

/** Current values of a router. */
export interface RouterGauges {
  /** Health of the targets that this process has used. */
  health(): readonly TargetStatus[];
  /** Number of charges that the store has not answered yet, including those in an outbox. */
  waitingCharges(): number;
  /** Number of requests that wait in line for targets with room. */
  waitingRequests(): number;
  /** `close()` is over: the values won't change any more, and the object should be dropped. */
  isClosed(): boolean;
}

export interface Settled {
  readonly requestId: string;
  readonly account: string;
  readonly key: string;
  /** As `{ user: 'u-17', 'tag:feature': 'search' }`: see the option `dimensions`. They may be personal data. */
  readonly dimensions?: Dimensions;
  readonly model: string;
  /** The wildcard pattern of the model, if it came from one. Use it as a metric label, as clients choose the rest of the ID. */
  readonly wildcard?: string;
  readonly provider: string;
  readonly upstreamModel: string;
  /** The upstream wildcard pattern, if the target came from one. */
  readonly upstreamWildcard?: string;
  /** The provider was called with the client's own key (BYOK); undefined if the request was voided, or is of a metered route. */
  readonly byok?: boolean;
  /** USD, as a decimal string. */
  readonly charged: string;
  /** The part of the charge that the balance didn't cover; USD, as a decimal string. */
  readonly writtenOff: string;
  /**
   * The balance afterwards; USD, as a decimal string. Negative with a credit line, of which `creditLimit` + `available` is left.
   * Undefined if an earlier try had posted the charge.
   */
  readonly available?: string;
  /** What the provider bills; USD, as a decimal string; undefined if no `cost` is configured. */
  readonly cost?: string;
  /** Version of the price, including markup, as in the journal; undefined if the request was voided. */
  readonly price?: string;
  readonly voided: boolean;
  readonly usage?: Usage;
  readonly usageSource: 'upstream' | 'estimated' | 'none';
  readonly ending: Ending;
}

/** A target was ejected, or recovered. */
export interface HealthChange {
  readonly type: 'target_ejected' | 'target_recovered';
  readonly provider: string;
  /** The provider's name for the model, or the upstream wildcard pattern; `*` for a whole provider. */
  readonly model: string;
  /** It is the whole provider: an operator ejected or readmitted it, or its `stopAt` did. */
  readonly wholeProvider?: true;
  readonly failuresInARow: number;
  /** When it is tried again, in ms since the epoch; undefined if it recovered, or until an operator readmits it. */
  readonly retryAt?: number;
  /** An operator ejected the target; also if such an ejection ends. */
  readonly byHand?: true;
  /** The provider has cost so much, as a decimal string of USD, in the period; also if the ejection ends. */
  readonly stopAt?: StopAt;
  /** The operator who ejected it. */
  readonly by?: string;
  readonly reason?: string;
}

/** Health of a target, for operators. */
export interface TargetStatus {
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  /** `probing`: the cool-down is over, and one request is probing the target. */
  readonly state: 'healthy' | 'ejected' | 'probing';
  readonly failuresInARow: number;
  /** When an ejected target is tried again, in ms since the epoch; undefined until an operator readmits it. */
  readonly retryAt?: number;
  /** Recent time to the first byte, in ms; undefined before the first answer. */
  readonly firstByteMs?: number;
  /** Number of requests that run at the target now. */
  readonly running: number;
}
