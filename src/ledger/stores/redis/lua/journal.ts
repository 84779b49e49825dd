import type {
  Dimensions,
  Ending,
  JournalLine,
  Refund,
  SettledUsage,
} from '../../../contract/ledger-store.ts';
import { READ_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { withBlanks } from './row-fields.ts';

/** Lines of a journal after a position, oldest first. */
export const journal: LuaScript<[afterSeq: string, limit: string], JournalLine[]> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- ARGV[1] after        position of the line before the first
-- ARGV[2] limit        maximum number of lines
-- returns lines
${READ_LUA}
local compacted = redis.call('HGET', TOTALS, 'jq')
if not compacted then return {} end
local first = math.max(0, tonumber(ARGV[1]) - tonumber(compacted)) + 1
local last = first + tonumber(ARGV[2]) - 1
return redis.call('LRANGE', JOURNAL, string.format('%d', first), string.format('%d', last))
`,
  (reply) => reply.texts().map(parseLine),
);

/** The details of a settle's line that the script stores as they are. */
export function settleDetails(model: string, usage: SettledUsage, dimensions?: Dimensions): string {
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens, source, cost, price, ending } =
    usage;
  const { provider, upstreamModel, firstByteMs, durationMs, finishReason, streamed } = usage;
  const { cacheWriteTokens, webSearches, byok, units } = usage;
  const counts = [promptTokens, cachedTokens, completionTokens, reasoningTokens];
  const answer = [
    provider,
    upstreamModel,
    firstByteMs,
    durationMs,
    finishReason,
    flag(streamed),
    cacheWriteTokens,
    webSearches,
    flag(byok),
    units,
  ];
  const details: unknown[] = [model, ...counts, source, cost?.toString(), price, ending, ...answer];
  if (dimensions) details.push(dimensions);
  return JSON.stringify(details.map((each) => each ?? null));
}

function flag(given: boolean | undefined): number | undefined {
  return given === undefined ? undefined : Number(given);
}

/** The reason of an adjustment, in the format of its line. */
export function reasonDetails(reason: string): string {
  return JSON.stringify(reason);
}

/** The reason of a refund and the request's dimensions, in the format of its line. */
export function refundDetails({ reason, dimensions }: Pick<Refund, 'reason' | 'dimensions'>): string {
  return JSON.stringify(dimensions ? [reason, dimensions] : reason);
}

function parseLine(line: string): JournalLine {
  const fields = line.split(' ', FIELDS);
  const [letter = '', seq = '', at, id = '', amount = '', available = '', hold, writtenOff, key] = fields;
  const type = TYPES.find((each) => each === letter);
  if (!type) throw new TypeError(`unknown type of a journal line: ${JSON.stringify(letter)}`);
  const rest = line.slice(fields.join(' ').length + 1);
  return {
    type,
    seq: BigInt(seq),
    at: Number(at),
    id,
    amount: BigInt(amount),
    available: BigInt(available),
    ...(hold && hold !== '-' && { hold: BigInt(hold) }),
    ...(writtenOff && writtenOff !== '-' && { writtenOff: BigInt(writtenOff) }),
    ...(key && key !== '-' && { key }),
    ...(rest !== '-' && parseDetails(type, rest)),
  };
}

/** Fields of a line before its details. */
const FIELDS = 9;

const TYPES = ['g', 's', 'l', 'o', 'e', 'x', 'a', 'r'] as const;

type Details = [
  model: string,
  promptTokens: number,
  cachedTokens: number,
  completionTokens: number,
  reasoningTokens: number,
  source: SettledUsage['source'],
  cost: string | null,
  price: string,
  ending: Ending,
  provider: string | null,
  upstreamModel: string | null,
  firstByteMs: number | null,
  durationMs: number | null,
  finishReason: string | null,
  streamed: 0 | 1 | null,
  cacheWriteTokens: number | null,
  webSearches: number | null,
  byok: 0 | 1 | null,
  /** Missing in lines of earlier releases. */
  units?: number | null,
  dimensions?: Dimensions,
];

function parseDetails(
  type: JournalLine['type'],
  rest: string,
): Pick<JournalLine, 'reason' | 'model' | 'usage' | 'dimensions'> {
  if (type === 'a') {
    const reason: string = JSON.parse(rest);
    return { reason };
  }
  if (type === 'r') {
    const [, model = '', json = ''] = /^=(\S*) (.*)$/s.exec(rest) ?? [];
    const parsed: string | [reason: string, dimensions: Dimensions] = JSON.parse(json);
    if (typeof parsed === 'string') return { model: withBlanks(model), reason: parsed };
    const [reason, dimensions] = parsed;
    return { model: withBlanks(model), reason, dimensions };
  }
  const details: Details = JSON.parse(rest);
  const [model, promptTokens, cachedTokens, completionTokens, reasoningTokens, source, cost, price, ...last] =
    details;
  const [ending, provider, upstreamModel, firstByteMs, durationMs, finishReason, ...flags] = last;
  const [streamed, cacheWriteTokens, webSearches, byok, units = null, dimensions] = flags;
  return {
    model,
    usage: {
      promptTokens,
      cachedTokens,
      completionTokens,
      reasoningTokens,
      source,
      ...(cost !== null && { cost: BigInt(cost) }),
      price,
      ending,
      ...(provider !== null && { provider }),
      ...(upstreamModel !== null && { upstreamModel }),
      ...(firstByteMs !== null && { firstByteMs }),
      ...(durationMs !== null && { durationMs }),
      ...(finishReason !== null && { finishReason }),
      ...(streamed !== null && { streamed: streamed === 1 }),
      ...(cacheWriteTokens !== null && { cacheWriteTokens }),
      ...(webSearches !== null && { webSearches }),
      ...(byok !== null && { byok: byok === 1 }),
      ...(units !== null && { units }),
    },
    ...(dimensions && { dimensions }),
  };
}
