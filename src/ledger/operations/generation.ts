import type { Ending, LedgerStore, SettledUsage } from '../contract/ledger-store.ts';
import { formatUsd } from '../contract/money.ts';
import { requestTime } from '../contract/request-ids.ts';

/** The outcome of one request. Amounts are decimal strings in USD. */
export interface Generation {
  /** `x-request-id` of its answer. */
  readonly id: string;
  readonly account: string;
  /** Id of the API key. */
  readonly key: string;
  /**
   * `voided`: nothing is charged. `expired`: the process that served the request died, and what was known to be consumed
   * is charged; a late settlement may still correct that.
   */
  readonly state: 'running' | 'settled' | 'voided' | 'expired';
  readonly createdAt: Date;
  readonly model?: string;
  readonly provider?: string;
  /** The provider's name for the model, where it differs from the model's ID. */
  readonly upstreamModel?: string;
  readonly streamed?: boolean;
  /** The provider was called with the client's own key (BYOK). */
  readonly byok?: boolean;
  readonly ending?: Ending;
  /** As reported by the provider, e.g. `stop`; `error` where the answer is an error. */
  readonly finishReason?: string;
  /** From the request's arrival to the first byte of an answer. */
  readonly firstByteMs?: number;
  /** From the request's arrival to its end. */
  readonly durationMs?: number;
  readonly usage?: Pick<
    SettledUsage,
    | 'promptTokens'
    | 'cachedTokens'
    | 'cacheWriteTokens'
    | 'completionTokens'
    | 'reasoningTokens'
    | 'webSearches'
    | 'source'
  >;
  readonly charged: string;
  /** The hold, while it runs. */
  readonly held?: string;
  /** What the provider bills, where known. */
  readonly cost?: string;
}

/**
 * Finds a request by its id; undefined if it belongs to another account, or its record was deleted: 24 hours after its
 * end, or 10 minutes if it cost nothing.
 */
export async function findGeneration(
  store: LedgerStore,
  account: string,
  id: string,
): Promise<Generation | undefined> {
  const record = await store.request(account, id);
  if (!record) return undefined;
  const { state, amount, key, line: position } = record;
  const [line] = position === undefined ? [] : await store.journal(account, position - 1n, 1);
  const { usage: settled } = line?.id === id ? line : {};
  const { promptTokens = 0, cachedTokens = 0, completionTokens = 0, reasoningTokens = 0 } = settled ?? {};
  const { source, cost, upstreamModel, byok, streamed, finishReason, firstByteMs, durationMs } =
    settled ?? {};
  const { cacheWriteTokens, webSearches } = settled ?? {};
  const { model } = record;
  const { ending, provider } = settled ?? record;
  return {
    id,
    account,
    key,
    state: state === 'held' ? 'running' : state,
    createdAt: new Date(requestTime(id)),
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
    ...(upstreamModel !== undefined && { upstreamModel }),
    ...(streamed !== undefined && { streamed }),
    ...(byok !== undefined && { byok }),
    ...(ending && { ending }),
    ...(finishReason !== undefined && { finishReason }),
    ...(firstByteMs !== undefined && { firstByteMs }),
    ...(durationMs !== undefined && { durationMs }),
    ...(source && {
      usage: {
        promptTokens,
        cachedTokens,
        ...(cacheWriteTokens !== undefined && { cacheWriteTokens }),
        completionTokens,
        reasoningTokens,
        ...(webSearches !== undefined && { webSearches }),
        source,
      },
    }),
    charged: formatUsd(state === 'held' ? 0n : amount),
    ...(state === 'held' && { held: formatUsd(amount) }),
    ...(cost !== undefined && { cost: formatUsd(cost) }),
  };
}
