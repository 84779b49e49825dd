import type {
  AllowanceRow,
  AccountTotals,
  BucketRow,
  CountedBy,
  CountersRow,
  EndUserRow,
  KeyRow,
  LotRow,
  RequestRow,
} from '../../engine/account-rows.ts';
import { ALLOWANCE_PERIODS, ROLLOVERS } from '../../contract/allowances.ts';
import { limitsOfTerms, limitTerms } from '../../engine/limit-terms.ts';
import type { EndUserLimits } from '../../contract/key-records.ts';
import type {
  DimensionRow,
  Dimensions,
  JournalLine,
  SettledUsage,
  UsageRow,
} from '../../contract/ledger-store.ts';
import { ENDINGS, type UsageCounts } from '../../contract/usage.ts';
import {
  type Columns,
  columnsOf,
  timeOrNeverIn,
  booleanIn,
  integerIn,
  mappedIn,
  type Members,
  numberIn,
  optional,
  textIn,
  enumIn,
} from './sqlite-columns.ts';

/** The mapping of each kind of row to columns: each member is named once, with its column and type. */

export const TOTALS: Columns<AccountTotals> = columnsOf<AccountTotals>({
  granted: integerIn('granted'),
  available: integerIn('available'),
  held: integerIn('held'),
  spent: integerIn('spent'),
  expired: integerIn('expired'),
  writtenOff: integerIn('written_off'),
  floor: integerIn('floor'),
  lowestFloor: integerIn('lowest_floor'),
  frozen: booleanIn('frozen'),
  seq: integerIn('seq'),
  lowWater: numberIn('low_water'),
  freeLowWater: numberIn('free_low_water'),
  nextExpiry: timeOrNeverIn('next_expiry'),
  policyVersion: numberIn('policy_version'),
});

/** Members of a request that change while it runs, and when it ends. */
type RequestState = Pick<
  RequestRow,
  'state' | 'amount' | 'checkpoint' | 'due' | 'model' | 'line' | 'ending' | 'provider'
>;

const REQUEST_STATES: Members<RequestState> = {
  state: enumIn('state', ['held', 'settled', 'voided', 'expired']),
  amount: integerIn('amount'),
  checkpoint: integerIn('checkpoint'),
  due: numberIn('due'),
  model: textIn('model'),
  line: optional(integerIn('line')),
  ending: optional(enumIn('ending', ENDINGS)),
  provider: optional(textIn('provider')),
};

export const REQUEST_STATE: Columns<RequestState> = columnsOf(REQUEST_STATES);
export const REQUEST: Columns<RequestRow> = columnsOf<RequestRow>({
  id: textIn('id'),
  key: textIn('api_key'),
  countedAt: numberIn('counted_at'),
  countedBy: columnsOf<CountedBy>({
    key: booleanIn('in_key'),
    account: booleanIn('in_account'),
    endUser: optional(textIn('end_user')),
  }),
  tokens: numberIn('tokens'),
  idempotencyKey: optional(columnsOf({ key: textIn('idempotency_key'), body: textIn('body_hash') })),
  ...REQUEST_STATES,
});

const bucketIn = (name: string): Columns<BucketRow> =>
  columnsOf({ level: numberIn(name), at: numberIn(`${name}_at`) });

/** Members of a key that operators change. */
type KeyTerms = Omit<KeyRow, 'key' | 'createdAt' | keyof CountersRow>;

const STATE: Members<CountersRow> = {
  held: integerIn('held'),
  running: numberIn('running'),
  spent: integerIn('spent'),
  countedAt: numberIn('counted_at'),
  spentBefore: columnsOf<CountersRow['spentBefore']>({
    hour: integerIn('before_hour'),
    day: integerIn('before_day'),
    week: integerIn('before_week'),
    month: integerIn('before_month'),
  }),
  requestBucket: bucketIn('request_level'),
  tokenBucket: bucketIn('token_level'),
};

const limitsIn = (name: string): Columns<EndUserLimits> => mappedIn(textIn(name), limitsOfTerms, limitTerms);

const TERMS: Members<KeyTerms> = {
  hash: optional(textIn('hash')),
  previous: optional(columnsOf({ hash: textIn('previous_hash'), until: numberIn('previous_until') })),
  name: textIn('name'),
  limits: limitsIn('limits'),
  endUsers: optional(limitsIn('end_users')),
  expiresAt: optional(numberIn('expires_at')),
  policy: optional(textIn('policy')),
  paused: booleanIn('paused'),
  revokedAt: optional(numberIn('revoked_at')),
  version: numberIn('version'),
};

export const KEY_STATE: Columns<CountersRow> = columnsOf(STATE);
export const KEY_TERMS: Columns<KeyTerms> = columnsOf(TERMS);
export const KEY: Columns<KeyRow> = columnsOf<KeyRow>({
  key: textIn('id'),
  createdAt: numberIn('created_at'),
  ...TERMS,
  ...STATE,
});

export const END_USER: Columns<EndUserRow> = columnsOf<EndUserRow>({ id: textIn('id'), ...STATE });

export const LOT: Columns<LotRow> = columnsOf<LotRow>({
  id: textIn('id'),
  amount: integerIn('amount'),
  remaining: integerIn('remaining'),
  expiresAt: optional(numberIn('expires_at')),
  priority: numberIn('priority'),
});

export const ALLOWANCE: Columns<AllowanceRow> = columnsOf<AllowanceRow>({
  id: textIn('id'),
  version: numberIn('version'),
  per: enumIn('per', ALLOWANCE_PERIODS),
  anchor: numberIn('anchor'),
  until: timeOrNeverIn('until'),
  period: numberIn('period'),
  granted: integerIn('granted'),
  amount: integerIn('amount'),
  rollover: enumIn('rollover', ROLLOVERS),
  priority: numberIn('priority'),
});

const SETTLED_USAGE = columnsOf<SettledUsage>({
  promptTokens: numberIn('prompt_tokens'),
  cachedTokens: numberIn('cached_tokens'),
  completionTokens: numberIn('completion_tokens'),
  reasoningTokens: numberIn('reasoning_tokens'),
  source: enumIn('source', ['upstream', 'estimated', 'none']),
  cost: optional(integerIn('cost')),
  price: textIn('price'),
  ending: enumIn('ending', ENDINGS),
  provider: optional(textIn('provider')),
  upstreamModel: optional(textIn('upstream_model')),
  firstByteMs: optional(numberIn('first_byte_ms')),
  durationMs: optional(numberIn('duration_ms')),
  finishReason: optional(textIn('finish_reason')),
  streamed: optional(booleanIn('streamed')),
  cacheWriteTokens: optional(numberIn('cache_write_tokens')),
  webSearches: optional(numberIn('web_searches')),
  byok: optional(booleanIn('byok')),
  units: optional(numberIn('units')),
});

export const LINE: Columns<JournalLine> = columnsOf<JournalLine>({
  seq: integerIn('seq'),
  type: enumIn('type', ['g', 's', 'l', 'o', 'e', 'x', 'a', 'r']),
  at: numberIn('at'),
  id: textIn('id'),
  amount: integerIn('amount'),
  available: integerIn('available'),
  hold: optional(integerIn('hold')),
  writtenOff: optional(integerIn('written_off')),
  key: optional(textIn('api_key')),
  model: optional(textIn('model')),
  reason: optional(textIn('reason')),
  usage: optional(SETTLED_USAGE, 'source'),
  dimensions: optional(mappedIn(textIn('dimensions'), dimensionsOf, JSON.stringify)),
});

function dimensionsOf(json: string): Dimensions {
  const dimensions: Dimensions = JSON.parse(json);
  return dimensions;
}

const COUNTS: Members<UsageCounts> = {
  requests: numberIn('requests'),
  errors: numberIn('errors'),
  aborted: numberIn('aborted'),
  promptTokens: numberIn('prompt_tokens'),
  cachedTokens: numberIn('cached_tokens'),
  completionTokens: numberIn('completion_tokens'),
  reasoningTokens: numberIn('reasoning_tokens'),
  charged: integerIn('charged'),
  cost: integerIn('cost'),
};

export const USAGE_COUNTS: Columns<UsageCounts> = columnsOf(COUNTS);
export const USAGE: Columns<UsageRow> = columnsOf<UsageRow>({
  day: textIn('day'),
  key: textIn('api_key'),
  model: textIn('model'),
  ...COUNTS,
});

export const DIMENSION_USAGE: Columns<DimensionRow> = columnsOf<DimensionRow>({
  day: textIn('day'),
  dimension: textIn('dimension'),
  value: textIn('value'),
  ...COUNTS,
});
