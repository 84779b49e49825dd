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

/** As it is given to JSON, which leaves out what is undefined: each copy costs as much as the rest. */
type Written<Members> = { readonly [Name in keyof Members]: Members[Name] | undefined };

interface WrittenRequest extends Omit<Written<LoggedRequest>, 'createdAt' | 'attempts' | 'usage'> {
  /** In ms since the epoch. */
  readonly createdAt: number;
  readonly attempts: readonly Written<LoggedAttempt>[];
  readonly usage: Written<LoggedRequest['usage'] & object> | undefined;
}

/**
 * The row of a request; `readRow` is the other way.
 *
 * @param settled - undefined while its charge isn't posted, and for a request without a hold
 * @param replaces - a row without the charge was written before
 */
export function rowOf(ended: ResponseEnded, settled: Settled | undefined, replaces: boolean): RequestLogRow {
  const { requestId: id, account = '' } = ended;
  const json = JSON.stringify(written(ended, settled));
  return replaces ? { id, account, json, replaces } : { id, account, json };
}

function written(ended: ResponseEnded, settled: Settled | undefined): WrittenRequest {
  const { requestId, startedAt, account = '', key = '', endpoint, status, errorCode, model } = ended;
  const { stream, firstByteMs, durationMs, ending, finishReason, clientRequestId, admitted } = ended;
  const provider = settled?.provider ?? ended.provider;
  const upstreamModel = settled?.upstreamModel ?? ended.upstreamModel;
  return {
    id: requestId,
    createdAt: startedAt,
    account,
    key,
    endpoint: endpoint === 'metered' ? 'metered' : 'completions',
    status,
    code: errorCode,
    model: model ?? settled?.model,
    provider,
    upstreamModel,
    byok: settled?.byok,
    streamed: stream,
    attempts: writtenAttempts(ended),
    firstByteMs,
    durationMs,
    ending: ending ?? settled?.ending,
    finishReason: finishReason?.slice(0, MAX_TEXT),
    state: !admitted ? 'refused' : !settled ? 'unsettled' : settled.voided ? 'voided' : 'settled',
    charged: settled?.charged ?? '0.00',
    writtenOff: settled && !/^[0.]+$/.test(settled.writtenOff) ? settled.writtenOff : undefined,
    cost: settled?.cost,
    price: settled?.price,
    usage: settled?.usage && writtenUsage(settled.usage, settled.usageSource),
    dimensions: settled?.dimensions,
    clientRequestId,
  };
}

function writtenUsage(
  usage: Usage,
  source: Settled['usageSource'],
): Written<Required<LoggedRequest['usage'] & object>> {
  return {
    promptTokens: usage.promptTokens,
    cachedTokens: usage.cachedTokens,
    cacheWriteTokens: usage.cacheWriteTokens,
    cacheWriteHourTokens: usage.cacheWriteHourTokens,
    audioPromptTokens: usage.audioPromptTokens,
    imagePromptTokens: usage.imagePromptTokens,
    completionTokens: usage.completionTokens,
    reasoningTokens: usage.reasoningTokens,
    audioCompletionTokens: usage.audioCompletionTokens,
    imageCompletionTokens: usage.imageCompletionTokens,
    webSearches: usage.webSearches,
    toolCalls: usage.toolCalls,
    source,
  };
}

function writtenAttempts({ attempts, startedAt }: ResponseEnded): readonly Written<LoggedAttempt>[] {
  const [only] = attempts;
  // Almost every request has one.
  if (only && attempts.length === 1) return [writtenAttempt(only, startedAt)];
  return attempts.slice(0, MAX_ATTEMPTS).map((attempt) => writtenAttempt(attempt, startedAt));
}

function writtenAttempt(attempt: AttemptEnded, arrivedAt: number): Written<LoggedAttempt> {
  const { provider, model, startedAt, durationMs, status, errorCode, upstreamErrorCode } = attempt;
  return {
    provider,
    model,
    afterMs: Math.max(0, startedAt - arrivedAt),
    durationMs,
    status,
    code: errorCode,
    upstreamCode: upstreamErrorCode?.slice(0, MAX_TEXT),
    upstreamRequestId: attempt.upstreamRequestId,
  };
}

/** Undefined for a row that isn't one of this release's. */
export function readRow({ json }: RequestLogRow): LoggedRequest | undefined {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `rowOf` wrote it
    const request = JSON.parse(json) as Omit<LoggedRequest, 'createdAt'> & { readonly createdAt: number };
    return { ...request, createdAt: new Date(request.createdAt) };
  } catch {
    return undefined;
  }
}
