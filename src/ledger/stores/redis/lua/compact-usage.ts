import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';

/** Deletes usage rows, and adds the charges of those that are of no dimension to the sum of compacted rows. */
export const compactUsage: LuaScript<readonly string[], void> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV        the rows' fields
-- returns {}
${ACCOUNT_LUA}
-- Written nevertheless, it would keep an account that was deleted meanwhile from being made again.
if redis.call('EXISTS', USAGE) == 0 then return {} end
local sum = integer(redis.call('HGET', USAGE, SENTINEL) or '0')
for _, field in ipairs(ARGV) do
  local row = not string.find(field, '^%d+ :') and redis.call('HGET', USAGE, field)
  if row then sum = plus(sum, integer(string.match(row, '(%S+) %S+$'))) end
end
redis.call('HSET', USAGE, SENTINEL, decimal(sum))
redis.call('HDEL', USAGE, unpack(ARGV))
return {}
`,
  () => {},
);
