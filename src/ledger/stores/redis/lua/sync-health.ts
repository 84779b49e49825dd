import type { EjectedTarget, HealthState } from '../../../contract/fleet-view.ts';
import { defineScript, type LuaScript, NOW_LUA } from './define-script.ts';

/** Records which targets are ejected, who probes them, and which limits are used up. */
export const syncHealth: LuaScript<readonly string[], HealthState> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] hash         't' .. target -> "retry-at ejections lease-until prober"
--                      'x' .. slot -> until when it is used up
--                      'at' -> when it was synced last
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] member
-- ARGV[3] lease        ms
-- ARGV[4..] changes    target, 'ejected', 'recovered' or 'probing', ms until it is probed, ejections; ...
--                      or slot, 'exhausted', ms until it isn't, 0
-- returns {{{target, ms until it is probed, ejections, 1 if this member probes it}, ...}, {slot, ms until it isn't used up, ...}}
local FORGET_MS = 3600000
local MIN_STEP_MS = 1000
${NOW_LUA}
local member, lease = ARGV[2], tonumber(ARGV[3])
local found = redis.call('HGETALL', KEYS[1])
if #found == 0 and #ARGV < 4 then return {{}, {}} end

-- By how much the clock was set back since: what was left of each time is left.
local back = 0
for i = 1, #found, 2 do
  if found[i] == 'at' then back = tonumber(found[i + 1]) - now end
end
if back < MIN_STEP_MS then back = 0 end

local targets, slots, changed = {}, {}, {}
for i = 1, #found, 2 do
  local kind, name = string.sub(found[i], 1, 1), string.sub(found[i], 2)
  local retry, ejections, till, prober = string.match(found[i + 1], '^(%d+) (%d+) (%d+) (.*)$')
  if kind == 'x' then
    slots[name] = tonumber(found[i + 1]) - back
    if back > 0 then redis.call('HSET', KEYS[1], found[i], string.format('%d', slots[name])) end
  elseif kind == 't' then
    targets[name] = {tonumber(retry) - back, tonumber(ejections), math.max(0, tonumber(till) - back), prober}
    if back > 0 then changed[name] = true end
  end
end
for i = 4, #ARGV, 4 do
  local target, known = ARGV[i], targets[ARGV[i]]
  if ARGV[i + 1] ~= 'exhausted' then changed[target] = true end
  if ARGV[i + 1] == 'exhausted' then
    slots[target] = math.max(slots[target] or 0, now + math.floor(tonumber(ARGV[i + 2])))
    redis.call('HSET', KEYS[1], 'x' .. target, string.format('%d', slots[target]))
  elseif ARGV[i + 1] == 'recovered' then
    targets[target] = nil
  elseif ARGV[i + 1] == 'probing' then
    if known and known[4] == member then known[3] = now + lease end
  else
    known = known or {0, 0, 0, ''}
    targets[target] = {
      math.max(known[1], now + tonumber(ARGV[i + 2])), math.max(known[2], tonumber(ARGV[i + 3])), 0, '',
    }
  end
end
local reply = {}
for target, known in pairs(targets) do
  if known[1] + FORGET_MS < now then
    targets[target] = nil
    changed[target] = true
  else
    -- Who had no request for the probe lets the others go first, for two of their reports.
    local is_free = known[3] <= now and (known[4] ~= member or known[3] + lease / 6 <= now)
    if known[1] <= now and is_free then
      known[3], known[4] = now + lease, member
      changed[target] = true
    end
    local is_prober = known[1] <= now and known[4] == member and known[3] > now
    local left = string.format('%d', math.max(0, known[1] - now))
    reply[#reply + 1] = {target, left, string.format('%d', known[2]), is_prober and '1' or '0'}
  end
end
for target in pairs(changed) do
  local known = targets[target]
  if known then
    redis.call('HSET', KEYS[1], 't' .. target, string.format('%d %d %d ', known[1], known[2], known[3]) .. known[4])
  else
    redis.call('HDEL', KEYS[1], 't' .. target)
  end
end
local exhausted = {}
for slot, till in pairs(slots) do
  if till <= now then
    slots[slot] = nil
    redis.call('HDEL', KEYS[1], 'x' .. slot)
  else
    exhausted[#exhausted + 1] = slot
    exhausted[#exhausted + 1] = string.format('%d', till - now)
  end
end
if next(targets) or next(slots) then
  redis.call('HSET', KEYS[1], 'at', string.format('%d', now))
else
  redis.call('HDEL', KEYS[1], 'at')
end
redis.call('PEXPIRE', KEYS[1], string.format('%d', FORGET_MS))
return {reply, exhausted}
`,
  (reply) => {
    const targets = reply.nested();
    const ejected: EjectedTarget[] = [];
    while (!targets.isOver) {
      const each = targets.nested();
      ejected.push({
        target: each.text(),
        retryInMs: each.count(),
        ejections: each.count(),
        mayProbe: each.text() === '1',
      });
    }
    const exhausted = reply.nested().pairs();
    return { ejected, exhausted: exhausted.map(([slot, forMs]) => ({ slot, forMs: Number(forMs) })) };
  },
);
