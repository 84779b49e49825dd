import { withTimeout } from '../async/timeout.ts';
import type { Caller } from '../keys/caller.ts';
import {
  GenerationNotFoundError,
  GenerationRunningError,
  InvalidRequestError,
} from '../errors/request-errors.ts';
import type { Exchange } from '../http/exchange.ts';
import { queryOf } from '../http/url.ts';
import type { LoggedRequest } from '../request-log/logged-request.ts';
import type { RequestLogWriter } from '../request-log/request-log.ts';
import { type LedgerStore } from '../ledger/contract/ledger-store.ts';
import { findGeneration, type Generation } from '../ledger/operations/generation.ts';
import { isRequestId } from '../ledger/contract/request-ids.ts';
import { fromStore } from '../keys/from-store.ts';
import { onlyKeyOf, sendRecord } from './account-record.ts';

export interface GenerationServices {
  readonly store: LedgerStore;
  readonly billing: { posted(requestId: string): Promise<void> };
  /** Keeps requests longer than the books keep their records. */
  readonly requestLog: Pick<RequestLogWriter, 'findWritten'>;
}

/** How long a lookup waits for a charge that this process is posting. */
const MAX_WAIT_MS = 1000;

/**
 * `GET /generation?id=`, compatible with OpenRouter and Vercel, for requests of the caller's own account; for a key with limits,
 * its own alone.
 */
export async function sendGeneration(
  exchange: Exchange,
  caller: Caller,
  { store, billing, requestLog }: GenerationServices,
): Promise<void> {
  const { account, key } = caller;
  const id = queryOf(exchange.url).get('id');
  if (id === null || id === '') {
    throw new InvalidRequestError(
      'missing_required_parameter',
      'GET /generation requires ?id=, the x-request-id of a response.',
      'id',
    );
  }
  const find = (): Promise<Generation | undefined> => fromStore(() => findGeneration(store, account, id));
  let generation = isRequestId(id) ? await find() : undefined;
  if (generation?.state === 'running') {
    // Clients ask as soon as a stream has ended, while its charge is being posted.
    await withTimeout(billing.posted(id), MAX_WAIT_MS, () => {});
    generation = await find();
  }
  if (!generation && isRequestId(id)) {
    const logged = await fromStore(() => requestLog.findWritten(id));
    if (logged?.account === account) generation = loggedGeneration(logged);
  }
  if (!generation) throw new GenerationNotFoundError(id);
  // Ids are in a row: a client that has one can guess those of other keys of the account.
  if (generation.key !== key && (await fromStore(() => onlyKeyOf(caller, store))) !== undefined) {
    throw new GenerationNotFoundError(id);
  }
  if (generation.state === 'running') throw new GenerationRunningError(id);
  sendRecord(exchange, { data: generationBody(generation) });
}

/**
 * Undefined for a request that was refused: it has no generation; and for one whose row never got its charge. The books
 * keep a request that runs, so that its process died, and only the journal says what was charged.
 */
function loggedGeneration(request: LoggedRequest): Generation | undefined {
  const { id, account, key, createdAt, state, charged, model, provider, upstreamModel, byok, streamed } =
    request;
  const { ending, finishReason, firstByteMs, durationMs, usage } = request;
  if (state === 'refused' || state === 'unsettled') return undefined;
  return {
    id,
    account,
    key,
    state,
    createdAt,
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
    ...(upstreamModel !== undefined && { upstreamModel }),
    streamed,
    ...(byok !== undefined && { byok }),
    ...(ending && { ending }),
    ...(finishReason !== undefined && { finishReason }),
    // The log has microseconds, the books have not.
    ...(firstByteMs !== undefined && { firstByteMs: Math.round(firstByteMs) }),
    durationMs: Math.round(durationMs),
    ...(usage && { usage }),
    charged,
  };
}

/** The body that OpenRouter's and Vercel's clients expect: they reject one with a missing member.
 *
 * Never contains the provider's bill, which is between the operator and the provider.
 */
function generationBody(generation: Generation): object {
  const { id, state, createdAt, model, provider, streamed, ending, finishReason, charged, usage } =
    generation;
  const { firstByteMs, durationMs } = generation;
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens, source } = usage ?? NOTHING_USED;
  const { cacheWriteTokens, webSearches } = usage ?? NOTHING_USED;
  const isCancelled = ending === 'client_gone';
  const isComplete = ending === 'finished' && state === 'settled';
  // Without an answer, no key was used.
  const isByok = generation.byok ?? (state === 'voided' ? false : undefined);
  return {
    id,
    created_at: createdAt.toISOString(),
    api_type: 'completions',
    model: model ?? null,
    provider_name: provider ?? null,
    is_byok: isByok ?? null,
    streamed: streamed ?? null,
    cancelled: isCancelled,
    finish_reason: finishReason ?? (isCancelled ? 'cancelled' : isComplete ? 'unknown' : 'error'),
    native_finish_reason: finishReason ?? null,
    ending: ending ?? null,
    total_cost: Number(charged),
    usage: Number(charged),
    charged,
    // With the client's own key, only the client knows the provider's bill.
    upstream_inference_cost: isByok === false ? 0 : null,
    latency: firstByteMs ?? null,
    generation_time: durationMs ?? null,
    tokens_prompt: promptTokens,
    tokens_completion: completionTokens,
    native_tokens_prompt: promptTokens,
    native_tokens_completion: completionTokens,
    native_tokens_reasoning: reasoningTokens,
    native_tokens_cached: cachedTokens,
    native_tokens_cache_creation: cacheWriteTokens ?? null,
    billable_web_search_calls: webSearches ?? null,
    usage_source: source,
    ...NOT_RECORDED,
  };
}

const NOTHING_USED: NonNullable<Generation['usage']> = {
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  webSearches: 0,
  source: 'none',
};

/** Members of OpenRouter's record that the ledger doesn't store; two of them must be strings. */
const NOT_RECORDED = {
  data_region: 'unknown',
  origin: '',
  app_id: null,
  cache_discount: null,
  external_user: null,
  http_referer: null,
  moderation_latency: null,
  native_tokens_completion_images: null,
  num_fetches: null,
  num_input_audio_prompt: null,
  num_media_completion: null,
  num_media_prompt: null,
  num_search_results: null,
  preset_id: null,
  provider_responses: null,
  router: null,
  service_tier: null,
  upstream_id: null,
  user_agent: null,
  web_search_engine: null,
  workspace_id: null,
};
