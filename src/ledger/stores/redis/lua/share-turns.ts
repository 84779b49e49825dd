import { defineScript, type LuaScript, NOW_LUA } from './define-script.ts';

/** Returns where other members served turns of conversations; appends what this one tells, once it has read all. */
export const shareTurns: LuaScript<readonly string[], SharedTurns> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] list         "number until member text", numbered without gaps, the newest last
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] member       without a space
-- ARGV[3] since        the number up to which the member has read
-- ARGV[4..] turns      ms that it is of use, text; ...
-- returns {number, 1 if there are more and nothing was appended, {ms that it is still of use, text, ...}}
local PAGE, MAX, FORGET_MS = 1000, 131072, 86400000
${NOW_LUA}
local member, since = ARGV[2], tonumber(ARGV[3])

local function number_at(index)
  local text = redis.call('LINDEX', KEYS[1], index)
  return text and tonumber(string.match(text, '^%d+'))
end
local last = number_at(-1) or 0
local first = last > 0 and number_at(0) or 1
-- The list was lost, and has begun again.
if since > last then since = 0 end
local from = math.max(since + 1, first)
local read_to = math.min(last, from + PAGE - 1)
local turns = {}
if read_to >= from then
  for _, text in ipairs(redis.call('LRANGE', KEYS[1], from - first, read_to - first)) do
    local till, teller, turn = string.match(text, '^%d+ (%d+) (%S+) (.*)$')
    if teller ~= member and tonumber(till) > now then
      turns[#turns + 1] = string.format('%d', tonumber(till) - now)
      turns[#turns + 1] = turn
    end
  end
end
local has_more = read_to < last
if #ARGV > 3 and not has_more then
  for i = 4, #ARGV, 2 do
    last = last + 1
    redis.call('RPUSH', KEYS[1], string.format('%d %d ', last, now + tonumber(ARGV[i])) .. member .. ' ' .. ARGV[i + 1])
  end
  redis.call('LTRIM', KEYS[1], -MAX, -1)
  redis.call('PEXPIRE', KEYS[1], string.format('%d', FORGET_MS))
end
-- What the member has just told it need not read.
return {string.format('%d', has_more and read_to or last), has_more and '1' or '0', turns}
`,
  (reply) => ({ number: reply.count(), hasMore: reply.text() === '1', turns: reply.nested().pairs() }),
);

export interface SharedTurns {
  readonly number: number;
  readonly hasMore: boolean;
  /** How long each is of use, and what it says. */
  readonly turns: readonly (readonly [string, string])[];
}
