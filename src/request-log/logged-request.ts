import type { Dimensions, Ending } from '../ledger/contract/ledger-store.ts';
import type { RequestLogRow } from '../ledger/contract/request-log.ts';
import type { Usage } from '../metering/usage-dialects.ts';
import type { AttemptEnded, ResponseEnded, Settled } from '../observability/hooks.ts';

/** One request, for operators: what it was, where it went, and what it cost. It holds no prompt, no answer and no API key. */
export interface LoggedRequest {
  /** `x-request-id` of the response, and the id in the journal. */
  readonly id: string;
  /** When it arrived. */
  readonly createdAt: Date;
  readonly account: string;
  /** Id of the API key. */
  readonly key: string;
  /** `metered` for a route of the host's own. */
  readonly endpoint: 'completions' | 'metered';
  /** The status that the client got; 499 if it left before there was one. */
  readonly status: number;
  /** Code of the error that the client got, or that ended its stream; a provider's own error has none. */
  readonly code?: string;
  /** The model's ID for clients; undefined if the request named no existing model. */
  readonly model?: string;
  /** The provider that answered, or was tried last. */
  readonly provider?: string;
  /** The provider's name for the model. */
  readonly upstreamModel?: string;
  /** The provider was called with the client's own key (BYOK); undefined unless it is settled, and for a metered route. */
  readonly byok?: boolean;
  readonly streamed: boolean;
  /** In order; a failover shows as a second one with another target. The first 16. */
  readonly attempts: readonly LoggedAttempt[];
  /** From its arrival to the first byte of the response body, in ms. */
  readonly firstByteMs?: number;
  /** From its arrival to its end, in ms. */
  readonly durationMs: number;
  readonly ending?: Ending;
  /** As reported by the provider, e.g. `stop`; `error` if the answer reported an error. */
  readonly finishReason?: string;
  /** `refused`: without a hold. `unsettled`: the charge isn't posted yet. `voided`: nothing is charged. */
  readonly state: 'refused' | 'unsettled' | 'voided' | 'settled';
  /** USD, as a decimal string; `'0.00'` unless it is settled. */
  readonly charged: string;
  /** The part of the charge that the balance didn't cover; USD, as a decimal string. */
  readonly writtenOff?: string;
  /** What the provider bills; USD, as a decimal string; undefined if no `cost` is configured. */
  readonly cost?: string;
  /** Version of the price, as in the journal. */
  readonly price?: string;
  readonly usage?: Usage & { readonly source: Settled['usageSource'] };
  /** As `{ user: 'u-17', 'tag:feature': 'search' }`. They may be personal data. */
  readonly dimensions?: Dimensions;
  /** The client's own `x-request-id`. */
  readonly clientRequestId?: string;
}

/** A request to a provider. */
export interface LoggedAttempt {
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  /** From the request's arrival until this was sent, in ms. */
  readonly afterMs: number;
  /** Until the answer was over, or known to be unusable; in ms. */
  readonly durationMs: number;
  /** Status of the provider's answer; undefined if there was none. */
  readonly status?: number;
  /** Why there was no answer for the client; `client_gone` if the client left. */
  readonly code?: string;
  /** The provider's own code of its error, or that of the connection, e.g. `ECONNREFUSED`. */
  readonly upstreamCode?: string;
  /** `x-request-id` of the provider's answer. */
  readonly upstreamRequestId?: string;
}

const MAX_ATTEMPTS = 16;
/** Longer texts of providers and clients are cut. */
const MAX_TEXT = 256;

/** The first value of a row. Another list has another number. */
const FORMAT = 1;

/**
 * What is written of a request: lists, because the names of the members would take half of the log. Its id and its account are
 * columns of the row.
 */
const REQUEST = [
  'createdAt',
  'key',
  'endpoint',
  'status',
  'code',
  'model',
  'provider',
  'upstreamModel',
  'byok',
  'streamed',
  'firstByteMs',
  'durationMs',
  'ending',
  'finishReason',
  'state',
  'charged',
  'writtenOff',
  'cost',
  'price',
  'dimensions',
  'clientRequestId',
  'attempts',
  'usage',
] as const;

const ATTEMPT = [
  'provider',
  'model',
  'afterMs',
  'durationMs',
  'status',
  'code',
  'upstreamCode',
  'upstreamRequestId',
] as const;

const USAGE = [
  'promptTokens',
  'cachedTokens',
  'cacheWriteTokens',
  'cacheWriteHourTokens',
  'audioPromptTokens',
  'imagePromptTokens',
  'completionTokens',
  'reasoningTokens',
  'audioCompletionTokens',
  'imageCompletionTokens',
  'webSearches',
  'toolCalls',
  'source',
] as const;

/** The values of these members, and never if one is missing in the list. JSON makes null of what is undefined. */
type Packed<Names extends readonly PropertyKey[], Members> = [Exclude<keyof Members, Names[number]>] extends [
  never,
]
  ? { readonly [Index in keyof Names]: Members[Names[Index] & keyof Members] | undefined }
  : never;

/** With lists, and with its time in ms since the epoch. */
interface ListedRequest extends Omit<LoggedRequest, 'id' | 'account' | 'createdAt' | 'attempts' | 'usage'> {
  readonly createdAt: number;
  readonly attempts: readonly PackedAttempt[];
  readonly usage?: PackedUsage;
}

type LoggedUsage = Required<LoggedRequest>['usage'];
type PackedRequest = readonly [
  format: typeof FORMAT,
  ...values: Packed<typeof REQUEST, Required<ListedRequest>>,
];
type PackedAttempt = Packed<typeof ATTEMPT, LoggedAttempt>;
type PackedUsage = Packed<typeof USAGE, LoggedUsage>;

/**
 * The row of a request; `readRow` is the other way.
 *
 * @param settled - undefined while its charge isn't posted, and for a request without a hold
 * @param replaces - a row without the charge was written before
 */
export function rowOf(ended: ResponseEnded, settled: Settled | undefined, replaces: boolean): RequestLogRow {
  const { requestId: id, account = '' } = ended;
  const json = JSON.stringify(packed(ended, settled));
  return replaces ? { id, account, json, replaces } : { id, account, json };
}

function packed(ended: ResponseEnded, settled: Settled | undefined): PackedRequest {
  const { finishReason } = ended;
  return [
    FORMAT,
    ended.startedAt,
    ended.key ?? '',
    ended.endpoint === 'metered' ? 'metered' : 'completions',
    ended.status,
    ended.errorCode,
    ended.model ?? settled?.model,
    settled?.provider ?? ended.provider,
    settled?.upstreamModel ?? ended.upstreamModel,
    settled?.byok,
    ended.stream,
    ended.firstByteMs,
    ended.durationMs,
    ended.ending ?? settled?.ending,
    finishReason?.slice(0, MAX_TEXT),
    !ended.admitted ? 'refused' : !settled ? 'unsettled' : settled.voided ? 'voided' : 'settled',
    settled?.charged ?? '0.00',
    settled && !/^[0.]+$/.test(settled.writtenOff) ? settled.writtenOff : undefined,
    settled?.cost,
    settled?.price,
    settled?.dimensions,
    ended.clientRequestId,
    packedAttempts(ended),
    settled?.usage && packedUsage(settled.usage, settled.usageSource),
  ];
}

function packedUsage(usage: Usage, source: Settled['usageSource']): PackedUsage {
  return [
    usage.promptTokens,
    usage.cachedTokens,
    usage.cacheWriteTokens,
    usage.cacheWriteHourTokens,
    usage.audioPromptTokens,
    usage.imagePromptTokens,
    usage.completionTokens,
    usage.reasoningTokens,
    usage.audioCompletionTokens,
    usage.imageCompletionTokens,
    usage.webSearches,
    usage.toolCalls,
    source,
  ];
}

function packedAttempts({ attempts, startedAt }: ResponseEnded): readonly PackedAttempt[] {
  const [only] = attempts;
  // Almost every request has one.
  if (only && attempts.length === 1) return [packedAttempt(only, startedAt)];
  return attempts.slice(0, MAX_ATTEMPTS).map((attempt) => packedAttempt(attempt, startedAt));
}

function packedAttempt(attempt: AttemptEnded, arrivedAt: number): PackedAttempt {
  return [
    attempt.provider,
    attempt.model,
    Math.max(0, attempt.startedAt - arrivedAt),
    attempt.durationMs,
    attempt.status,
    attempt.errorCode,
    attempt.upstreamErrorCode?.slice(0, MAX_TEXT),
    attempt.upstreamRequestId,
  ];
}

/** Undefined for a row of another form: of another release. */
export function readRow({ id, account, json }: RequestLogRow): LoggedRequest | undefined {
  const values = valuesIn(json);
  if (!values) return undefined;
  const { createdAt, attempts, usage, ...request } = unpacked<ListedRequest>(REQUEST, values);
  return {
    id,
    createdAt: new Date(createdAt),
    account,
    ...request,
    attempts: attempts.map((attempt) => unpacked<LoggedAttempt>(ATTEMPT, attempt)),
    ...(usage && { usage: unpacked<LoggedUsage>(USAGE, usage) }),
  };
}

function valuesIn(json: string): readonly unknown[] | undefined {
  try {
    const row: unknown = JSON.parse(json);
    return Array.isArray(row) && row[0] === FORMAT ? row.slice(1) : undefined;
  } catch {
    return undefined;
  }
}

/** An object of the values that aren't null. */
function unpacked<Members>(names: readonly (keyof Members)[], values: readonly unknown[]): Members {
  const members: { [Name in keyof Members]?: unknown } = {};
  for (const [index, name] of names.entries()) {
    const value = values[index] ?? undefined;
    if (value !== undefined) members[name] = value;
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `rowOf` packed them
  return members as Members;
}
