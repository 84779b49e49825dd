import type { LedgerEvent } from '../ledger/contract/events.ts';
import type { Ending } from '../ledger/contract/ledger-store.ts';
import type { Usage } from '../metering/usage-dialects.ts';

/** Told what happens; may be async, can't break a request. None of it holds a key; of prompts and answers, `onContent` alone. */
export interface Hooks {
  /** A request came, to whatever endpoint: nothing of it was checked yet. Called while the host's handler runs. */
  readonly onRequest?: (started: RequestStarted) => unknown;
  /** Its response is over, however it ended. Called once for each `onRequest`. */
  readonly onResponse?: (ended: ResponseEnded) => unknown;
  /**
   * What a completion was asked, and what its client got: personal data, recorded only where some hook has this. Called
   * once for each completion for which money was held, when its answer is over, before `onResponse`.
   */
  readonly onContent?: (content: RecordedContent) => unknown;
  /**
   * The most of each body that `onContent` of these hooks is given: 1 to 1,048,576.
   *
   * @default 65536
   */
  readonly maxContentBytes?: number;
  /**
   * A request's charge was posted, or its hold was given back (`charged` is `'0.00'`, `voided` true). Mostly a little after
   * `onResponse`, sometimes before it; while the store is away, much later.
   */
  readonly onSettled?: (settled: Settled) => unknown;
  /** Something went wrong that the host should know of: our own bugs, providers' faults, a store that is away. */
  readonly onError?: (error: Error, context: { readonly requestId?: string }) => unknown;
  /** Something happened to the ledger that its operator should know of. */
  readonly onLedgerEvent?: (event: LedgerEvent) => unknown;
  /** A target was set aside for failing, or came back. */
  readonly onHealthChange?: (change: HealthChange) => unknown;
  /** Called once, when the router is made, with what gauges read whenever they are asked. */
  readonly onRouter?: (router: RouterGauges) => unknown;
  /**
   * Headers for a provider beside those of ours, as of a trace: asked before each attempt, and not awaited. A name that
   * is set already stays as it is; what can't be a header is left out.
   */
  readonly upstreamHeaders?: (attempt: AttemptStarted) => Readonly<Record<string, string>> | undefined;
  /**
   * These hooks count and trace, and nobody reads them as news: what would go to stderr without an `onError` or an
   * `onLedgerEvent` still goes there.
   */
  readonly keepsDefaultLog?: boolean;
}

/** What a path stands for. */
export type EndpointName = 'completions' | 'models' | 'model' | 'credits' | 'generation';

export interface RequestStarted {
  /** `x-request-id` of the response, and the id in the ledger. */
  readonly requestId: string;
  /** Undefined for a path that is not served. */
  readonly endpoint: EndpointName | undefined;
  readonly method: string;
  /** Without its query; at most 256 characters. */
  readonly path: string;
  /** In ms since the epoch. */
  readonly startedAt: number;
  /** The client's own `x-request-id`, where it is 1 to 128 letters, digits and `_.:=+/@-`: for its logs' sake, never trusted as an id. */
  readonly clientRequestId?: string;
  /** The trace that the client says this is part of, as W3C Trace Context writes it. */
  readonly traceparent?: string;
  readonly tracestate?: string;
}

export interface ResponseEnded extends RequestStarted {
  /** As the client got it; 499 where it left before there was one. */
  readonly status: number;
  /** Of the error that the client was told, or that ended its stream; a provider's own refusal has none. */
  readonly errorCode?: string;
  /** Undefined for a stranger. */
  readonly account?: string;
  /** The key's id. */
  readonly key?: string;
  /** Its ID as clients know it; undefined where the request did not get as far as a model that there is. */
  readonly model?: string;
  /** The entry with a star that the model comes of: label metrics by it, for clients choose what stands in the star's place. */
  readonly wildcard?: string;
  /** Whose answer it was, or who was asked last. */
  readonly provider?: string;
  readonly upstreamModel?: string;
  /** The provider's own id of the request that it answered last: its `x-request-id`. */
  readonly upstreamRequestId?: string;
  readonly stream: boolean;
  /** What was sent to providers, in that order; a failover shows as a second one with another target. */
  readonly attempts: readonly AttemptEnded[];
  /** From the request's arrival to the first byte of the answer's body, in ms. */
  readonly firstByteMs?: number;
  readonly durationMs: number;
  /** Undefined where nothing was held. */
  readonly ending?: Ending;
  /** Of the answer's first choice, as the provider wrote it. */
  readonly finishReason?: string;
  /** Money was held: `onSettled` tells, or has told, what was charged. */
  readonly admitted: boolean;
}

export interface RecordedContent {
  readonly requestId: string;
  readonly account: string;
  /** The key's id. */
  readonly key: string;
  /** Its ID as clients know it. */
  readonly model: string;
  /** Whose answer it was, or who was asked last. */
  readonly provider: string;
  readonly stream: boolean;
  /** The body as the client sent it, before any edit of ours. */
  readonly request: Buffer;
  /** What the client was sent: JSON, an event stream as far as it came, an error; empty where it left before. */
  readonly response: Buffer;
  readonly requestTruncated: boolean;
  readonly responseTruncated: boolean;
}

/** One request to a provider that is about to be sent. */
export interface AttemptStarted {
  readonly requestId: string;
  /** Its place in `attempts` of `ResponseEnded`. */
  readonly index: number;
  readonly provider: string;
  /** The model's name there. */
  readonly model: string;
  /** Of the provider's base URL. */
  readonly host: string;
  readonly port: number;
  /** In ms since the epoch. */
  readonly startedAt: number;
}

export interface AttemptEnded extends Omit<AttemptStarted, 'requestId' | 'index'> {
  /** The model's name there as the entry with a star has it that it comes of: label metrics by it. */
  readonly wildcard?: string;
  /** Of the provider's answer; undefined where it gave none. */
  readonly status?: number;
  /** Why there was no answer, or none that the client could have; `client_gone` if that left. */
  readonly errorCode?: string;
  readonly upstreamRequestId?: string;
  /** Until its answer was over, or known to be none for the client; in ms. */
  readonly durationMs: number;
}

/** What a router can be asked at any time. */
export interface RouterGauges {
  /** How the targets do that this process has asked. */
  health(): readonly TargetStatus[];
  /** Charges that the store has not answered yet, those of an outbox included. */
  waitingCharges(): number;
}

export interface Settled {
  readonly requestId: string;
  readonly account: string;
  readonly key: string;
  readonly model: string;
  /** The entry with a star that the model comes of: label metrics by it, for clients choose what stands in the star's place. */
  readonly wildcard?: string;
  readonly provider: string;
  readonly upstreamModel: string;
  /** The same as the entry with a star has it. */
  readonly upstreamWildcard?: string;
  /** USD, as a decimal string. */
  readonly charged: string;
  /** What the charge lacked because the balance ended; USD, as a decimal string. */
  readonly writtenOff: string;
  /** What the provider bills; USD, as a decimal string; undefined where no `cost` is configured. */
  readonly cost?: string;
  /** The version of the price that it was charged by, markup included, as the journal has it; undefined where it was voided. */
  readonly price?: string;
  readonly voided: boolean;
  readonly usage?: Usage;
  readonly usageSource: 'upstream' | 'estimated' | 'none';
  readonly ending: Ending;
}

/** A target was set aside, or came back. */
export interface HealthChange {
  readonly type: 'target_ejected' | 'target_recovered';
  readonly provider: string;
  readonly model: string;
  readonly failuresInARow: number;
  readonly retryAt?: number;
}

/** A target as its operator sees it. */
export interface TargetStatus {
  readonly provider: string;
  /** The model's name there. */
  readonly model: string;
  /** `probing`: its cool-down is over, and one request is trying it. */
  readonly state: 'healthy' | 'ejected' | 'probing';
  readonly failuresInARow: number;
  /** When an ejected target is tried again, in ms since the epoch. */
  readonly retryAt?: number;
  /** How long its answers lately took to begin, in ms; undefined before the first one. */
  readonly firstByteMs?: number;
  /** Requests that run there now. */
  readonly running: number;
}
