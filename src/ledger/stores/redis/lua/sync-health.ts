import type { EjectedTarget } from '../../../contract/fleet-view.ts';
import { defineScript, type LuaScript } from './define-script.ts';

/** Records which targets are ejected, and who probes them. */
export const syncHealth: LuaScript<readonly string[], readonly EjectedTarget[]> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] hash         target -> "retry-at ejections lease-until prober"
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] member
-- ARGV[3] lease        ms
-- ARGV[4..] changes    target, 'ejected', 'recovered' or 'probing', ms until it is probed, ejections; ...
-- returns {{target, ms until it is probed, ejections, 1 if this member probes it}, ...}
local FORGET_MS = 3600000
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local member, lease = ARGV[2], tonumber(ARGV[3])
local found = redis.call('HGETALL', KEYS[1])
if #found == 0 and #ARGV < 4 then return {} end

local targets = {}
for i = 1, #found, 2 do
  local retry, ejections, till, prober = string.match(found[i + 1], '^(%d+) (%d+) (%d+) (.*)$')
  targets[found[i]] = {tonumber(retry), tonumber(ejections), tonumber(till), prober}
end
local changed = {}
for i = 4, #ARGV, 4 do
  local target, known = ARGV[i], targets[ARGV[i]]
  changed[target] = true
  if ARGV[i + 1] == 'recovered' then
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
    -- Who had no request for the probe lets the others go first.
    local is_free = known[3] <= now and (known[4] ~= member or known[3] + lease <= now)
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
    redis.call('HSET', KEYS[1], target, string.format('%d %d %d ', known[1], known[2], known[3]) .. known[4])
  else
    redis.call('HDEL', KEYS[1], target)
  end
end
redis.call('PEXPIRE', KEYS[1], string.format('%d', FORGET_MS))
return reply
`,
  (reply) => {
    const ejected: EjectedTarget[] = [];
    while (!reply.isOver) {
      const each = reply.nested();
      const target = each.text();
      ejected.push({
        target,
        retryInMs: each.count(),
        ejections: each.count(),
        mayProbe: each.text() === '1',
      });
    }
    return ejected;
  },
);
