import { MAX_AMOUNT } from '../../../contract/money.ts';
import {
  ENDED_PERIOD_MS,
  type ProviderCost,
  type RoutingState,
  WRITER_MS,
} from '../../../contract/routing.ts';
import { defineScript, type LuaScript, NOW_LUA } from './define-script.ts';

const KEYS = /* lua */ `-- KEYS[1] hash         version, document
-- KEYS[2] hash         "from until provider" -> cost; "@writer" -> "number time" of its last batch`;

/** Reads the document, if it is not the known one, and all costs. */
export const readRouting: LuaScript<[known: string], RoutingState> = defineScript(
  /* lua */ `#!lua flags=no-writes
${KEYS}
-- ARGV[1] known        version of the caller; empty without one
-- returns {version, document or empty, {field, value, ...}}
local version = redis.call('HGET', KEYS[1], 'version') or ''
local document = version ~= ARGV[1] and redis.call('HGET', KEYS[1], 'document') or ''
return {version, document, redis.call('HGETALL', KEYS[2])}
`,
  (reply) => {
    const [version, document] = [reply.text(), reply.text()];
    const costs = reply.nested().pairs().flatMap(costOf);
    return { version, ...(document !== '' && { document }), costs };
  },
);

/** Replaces the document, if it still has the version. */
export const writeRouting: LuaScript<[from: string, to: string, document: string], boolean> = defineScript(
  /* lua */ `#!lua
${KEYS}
-- ARGV[1] from         the version that is replaced; empty for the first one
-- ARGV[2] to           its own version
-- ARGV[3] document
-- returns {1 if it was replaced, else 0}
local version = redis.call('HGET', KEYS[1], 'version') or ''
-- A command that the client sent twice has its version.
if version == ARGV[2] then return {'1'} end
if version ~= ARGV[1] then return {'0'} end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'document', ARGV[3])
return {'1'}
`,
  (reply) => reply.text() === '1',
);

/** Adds costs, unless the writer's batch of this number was added before; forgets what is old. */
export const addCosts: LuaScript<readonly string[], void> = defineScript(
  /* lua */ `#!lua
${KEYS}
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] writer
-- ARGV[3] number       of its batch
-- ARGV[4] field        of a cost
-- ARGV[5] amount       nano-dollars
-- ...
-- returns {}
${NOW_LUA}
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local at = string.match(all[i], '^@') and string.match(all[i + 1], ' (%d+)$')
  local ended = string.match(all[i], '^%d+ (%d+) ')
  if at and tonumber(at) + ${WRITER_MS} <= now or ended and tonumber(ended) + ${ENDED_PERIOD_MS} <= now then
    redis.call('HDEL', KEYS[2], all[i])
  end
end
local writer = '@' .. ARGV[2]
local last = string.match(redis.call('HGET', KEYS[2], writer) or '', '^%d+')
if last and tonumber(last) >= tonumber(ARGV[3]) then return {} end
redis.call('HSET', KEYS[2], writer, ARGV[3] .. string.format(' %d', now))
for i = 4, #ARGV, 2 do
  -- Sums stop below 2^53, up to which numbers are exact.
  local sum = tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or '0') + tonumber(ARGV[i + 1])
  redis.call('HSET', KEYS[2], ARGV[i], string.format('%d', math.min(sum, ${MAX_AMOUNT})))
end
return {}
`,
  () => {},
);

function costOf([field, value]: readonly [string, string]): ProviderCost[] {
  const [, from, until, provider] = /^(\d+) (\d+) (.+)$/s.exec(field) ?? [];
  if (provider === undefined) return [];
  return [{ provider, from: Number(from), until: Number(until), amount: BigInt(value) }];
}
