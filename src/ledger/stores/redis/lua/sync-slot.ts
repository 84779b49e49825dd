import type { NewSlot, SlotAmounts, SlotState, WordState } from '../../../contract/fleet-view.ts';
import { defineScript, type LuaScript, NOW_LUA, ReplyReader } from './define-script.ts';

/** Counts what a member of a slot used, and grants it its part of what is left. */
export const syncSlot: LuaScript<readonly string[], SlotState | NewSlot> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] hash         'id' -> epoch
--                      'b' .. bucket -> "requests tokens"
--                      'm' .. member -> "seq until bucket", then "requests tokens running" that it was granted, that it wants,
--                                       how many it runs, and "requests tokens" that it was granted of the provider's word
--                      's' .. 1, 2  -> of requests, tokens, what the provider counts: "sent number most until", of which the last
--                                      three are its newest word: how much was sent then, how much may be, and when it ends
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] epoch        of the last reply
-- ARGV[3] new epoch    if there is none
-- ARGV[4] member
-- ARGV[5] seq
-- ARGV[6] bucket       ms
-- ARGV[7] lease        ms
-- ARGV[8..10] limits   requests, tokens, running; empty without one
-- ARGV[11..13] wanted  the same
-- ARGV[14] least       tokens of use
-- ARGV[15] running
-- ARGV[16] leaving     1 or 0
-- ARGV[17..18] sent    requests, tokens since the last report
-- ARGV[19..21] word    on requests: left, number, ms until it ends; empty without one, the number if it is not known
-- ARGV[22..24] word    on tokens: the same
-- ARGV[25..] used      ms ago, requests, tokens; ...
-- returns {epoch} for another epoch, else {epoch, granted: requests, tokens, running, left: the same, used: the same, members,
--          ms until a request is free, ms until the tokens are,
--          of the word on requests: left, number, ms until it ends, sent, granted, spare; of that on tokens: the same}
local BUCKETS = 61
${NOW_LUA}
local length, lease = tonumber(ARGV[6]), tonumber(ARGV[7])
local current = math.floor(now / length)

local epoch = redis.call('HGET', KEYS[1], 'id')
if not epoch then
  epoch = ARGV[3]
  redis.call('HSET', KEYS[1], 'id', epoch)
end
redis.call('PEXPIRE', KEYS[1], string.format('%d', (BUCKETS + 1) * length + lease))
if epoch ~= ARGV[2] then return {epoch} end

local requests, tokens, changed, stale = {}, {}, {}, {}
local function add(bucket, more_requests, more_tokens)
  if bucket <= current - BUCKETS then return end
  requests[bucket] = (requests[bucket] or 0) + more_requests
  tokens[bucket] = (tokens[bucket] or 0) + more_tokens
  changed[bucket] = true
end
local function take_back(of, amount, bucket)
  if bucket <= current - BUCKETS then return end
  for each = bucket, current do
    local part = math.min(amount, of[each] or 0)
    if part > 0 then
      of[each] = of[each] - part
      changed[each] = true
      amount = amount - part
    end
    if amount <= 0 then return end
  end
end

local members, seq = 0, 0
local granted, unmet, running = {0, 0, 0}, {0, 0, 0}, 0
local lost = {}
-- Of what the provider counts; what others were granted of its word, and want beyond that.
local words, granted_words, unmet_words = {{0, 0, 0, 0}, {0, 0, 0, 0}}, {0, 0}, {0, 0}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local kind, name = string.sub(fields[i], 1, 1), string.sub(fields[i], 2)
  local n = {}
  for word in string.gmatch(fields[i + 1], '%S+') do n[#n + 1] = tonumber(word) end
  if kind == 'b' then
    local bucket = tonumber(name)
    if bucket <= current - BUCKETS or bucket > current + BUCKETS then
      stale[#stale + 1] = fields[i]
    else
      requests[bucket], tokens[bucket] = (requests[bucket] or 0) + n[1], (tokens[bucket] or 0) + n[2]
    end
  elseif kind == 'm' and name == ARGV[4] then
    seq = n[1]
  elseif kind == 'm' and n[2] <= now then
    -- What it used of this is not known.
    lost[#lost + 1] = {n[3], n[4], n[5], n[11] or 0, n[12] or 0}
    stale[#stale + 1] = fields[i]
  elseif kind == 'm' then
    members = members + 1
    -- Of running requests, what is wanted comes on top of what runs.
    n[9] = n[9] + n[10]
    for j = 1, 3 do
      granted[j] = granted[j] + n[3 + j]
      unmet[j] = unmet[j] + math.max(0, n[6 + j] - n[3 + j])
    end
    running = running + n[10]
    for j = 1, 2 do
      local of_word = n[10 + j] or 0
      granted_words[j] = granted_words[j] + of_word
      unmet_words[j] = unmet_words[j] + math.max(0, n[6 + j] - of_word)
    end
  elseif kind == 's' then
    words[tonumber(name)] = n
  end
end
for _, each in ipairs(lost) do
  add(each[1], each[2], each[3])
  for j = 1, 2 do words[j][1] = words[j][1] + each[3 + j] end
end
if tonumber(ARGV[5]) > seq then
  seq = tonumber(ARGV[5])
  for j = 1, 2 do words[j][1] = words[j][1] + tonumber(ARGV[16 + j]) end
  for i = 25, #ARGV, 3 do
    local bucket = math.floor((now - tonumber(ARGV[i])) / length)
    local more_requests, more_tokens = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    add(bucket, math.max(0, more_requests), math.max(0, more_tokens))
    if more_requests < 0 then take_back(requests, -more_requests, bucket) end
    if more_tokens < 0 then take_back(tokens, -more_tokens, bucket) end
  end
end
for j = 1, 2 do
  local word, left = words[j], tonumber(ARGV[16 + 3 * j])
  local number = tonumber(ARGV[17 + 3 * j])
  -- The word about a later request counts; the lesser, where a new member doesn't know about which; and any once the last is over.
  local at = number or word[1]
  if left and (word[4] <= now or number and number >= word[2] or not number and at + left < word[3]) then
    word[2], word[3], word[4] = at, at + left, now + tonumber(ARGV[18 + 3 * j])
  end
end
local used = {0, 0, tonumber(ARGV[15])}
for _, count in pairs(requests) do used[1] = used[1] + count end
for _, count in pairs(tokens) do used[2] = used[2] + count end

local is_leaving = ARGV[16] == '1'
if not is_leaving then members = members + 1 end
-- Each gets what it wants, and a part of the rest; where that is not enough, what is left in proportion.
local function part(free, mine, others, least)
  local spare = free - mine - others
  if spare >= 0 then return mine + math.ceil(spare / (2 * members)) end
  if mine == 0 or free < least then return 0 end
  return math.min(free, mine, math.max(least, math.floor(free * mine / (mine + others))))
end
local function share(limit, i, least)
  if is_leaving then return 0 end
  local mine = tonumber(ARGV[10 + i])
  if not limit then return mine end
  -- What is more than the limit fits when nothing counts.
  if least > limit and used[i] + granted[i] == 0 then return math.min(mine, least) end
  return part(limit - used[i] - granted[i], mine, unmet[i], least)
end
local grants, left = {}, {}
local least = {1, math.max(1, tonumber(ARGV[14])), 1}
for i = 1, 3 do
  local limit = tonumber(ARGV[7 + i])
  grants[i] = share(limit, i, least[i])
  left[i] = limit and math.max(0, limit - used[i] - granted[i] - grants[i]) or 0
end
local function wait(of, i)
  local limit = tonumber(ARGV[7 + i])
  if not limit then return 0 end
  local over = used[i] + granted[i] + grants[i] - math.max(0, limit - least[i])
  if over <= 0 then return 0 end
  for bucket = current - BUCKETS + 1, current do
    over = over - (of[bucket] or 0)
    if over <= 0 then return math.max(1, (bucket + BUCKETS) * length - now) end
  end
  return BUCKETS * length
end
local function texts(numbers)
  local words = {}
  for i, each in ipairs(numbers) do words[i] = string.format('%d', each) end
  return words
end
local waits = {wait(requests, 1), wait(tokens, 2)}
local said, of_words = {}, {0, 0}
for j = 1, 2 do
  local sent, number, most, ends = unpack(words[j])
  local free = ends > now and most - sent - granted_words[j] or 0
  if ends > now and not is_leaving then
    of_words[j] = part(free, tonumber(ARGV[10 + j]), unmet_words[j], least[j])
  end
  said[j] = {most - number, number, math.max(0, ends - now), sent, of_words[j], math.max(0, free - of_words[j])}
  if sent ~= 0 or ends > 0 then
    redis.call('HSET', KEYS[1], 's' .. j, table.concat(texts(words[j]), ' '))
  end
end

if #stale > 0 then redis.call('HDEL', KEYS[1], unpack(stale)) end
for bucket in pairs(changed) do
  local counts = string.format('%d %d', requests[bucket] or 0, tokens[bucket] or 0)
  redis.call('HSET', KEYS[1], string.format('b%d', bucket), counts)
end
if is_leaving then
  redis.call('HDEL', KEYS[1], 'm' .. ARGV[4])
else
  local runs = used[3]
  local own = {seq, now + lease, current, grants[1], grants[2], grants[3] + runs, ARGV[11], ARGV[12], ARGV[13], runs,
    of_words[1], of_words[2]}
  redis.call('HSET', KEYS[1], 'm' .. ARGV[4], table.concat(texts(own), ' '))
end
grants[3] = grants[3] + used[3]
used[3] = used[3] + running
local reply = {epoch}
for _, numbers in ipairs({grants, left, used, {members}, waits, said[1], said[2]}) do
  for _, each in ipairs(texts(numbers)) do reply[#reply + 1] = each end
end
return reply
`,
  (reply) => {
    const [epoch = '', ...rest] = reply.texts();
    if (rest.length === 0) return { epoch };
    const numbers = new ReplyReader(rest);
    const [granted, left, used] = [amountsOf(numbers), amountsOf(numbers), amountsOf(numbers)];
    const members = numbers.count();
    const waitMs = { requests: numbers.count(), tokens: numbers.count() };
    const words = { requests: wordOf(numbers), tokens: wordOf(numbers) };
    return { epoch, granted, left, used, members, waitMs, words };
  },
);

function amountsOf(numbers: ReplyReader): SlotAmounts {
  return { requests: numbers.count(), tokens: numbers.count(), running: numbers.count() };
}

function wordOf(numbers: ReplyReader): WordState {
  const word = { left: numbers.count(), at: numbers.count(), forMs: numbers.count() };
  return { ...word, sent: numbers.count(), granted: numbers.count(), spare: numbers.count() };
}
