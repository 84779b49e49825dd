import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';

/** Compacts the journal's oldest lines, at most 500, into the account's checkpoint. */
export const compact: LuaScript<[seq: string], 'more' | 'done'> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] seq          the last line to compact
-- returns {'more'} if such lines remain, else {'done'}
${ACCOUNT_LUA}
local values = redis.call('HMGET', TOTALS, 'jq', 'jg', 'js', 'jx', 'jw', 'jt')
if not values[1] then return {'done'} end
local position, granted, spent, expired, lost =
  tonumber(values[1]), integer(values[2]), integer(values[3]), integer(values[4]), integer(values[5])
local wanted = math.min(tonumber(ARGV[1]) - position, redis.call('LLEN', JOURNAL) - 1)
if wanted <= 0 then return {'done'} end
local count, latest = math.min(wanted, 500), tonumber(values[6] or '0')

for _, line in ipairs(redis.call('LRANGE', JOURNAL, '1', decimal(count))) do
  local kind, at, amount, written_off = string.match(line, '^(%a) %S+ (%S+) %S+ (%S+) %S+ %S+ (%S+)')
  amount, latest = tonumber(amount), math.max(latest, tonumber(at))
  if kind == 'g' or kind == 'a' then
    granted = plus(granted, amount)
  elseif kind == 'x' then
    expired = plus(expired, amount)
  else
    spent = plus(spent, amount)
  end
  if written_off ~= '-' then lost = plus(lost, tonumber(written_off)) end
end
redis.call('LTRIM', JOURNAL, decimal(count), '-1')
redis.call('LSET', JOURNAL, '0', SENTINEL)
redis.call('HSET', TOTALS, 'jq', decimal(position + count), 'jg', decimal(granted), 'js', decimal(spent), 'jx', decimal(expired),
  'jw', decimal(lost), 'jt', decimal(latest))
return {count < wanted and 'more' or 'done'}
`,
  (reply) => (reply.text() === 'more' ? 'more' : 'done'),
);
