import type { SetFloorResult } from '../../../contract/account-changes.ts';
import { ACCOUNT_LUA } from './account-lua.ts';
import { defineScript, type LuaScript, unknownCode } from './define-script.ts';

export const LOWEST_FLOOR_LUA: string = /* lua */ `
-- Records the lowest floor, or the lowest balance that an operator caused.
local function lower_floor_to(floor)
  if floor < tonumber(redis.call('HGET', TOTALS, 'lo') or '0') then redis.call('HSET', TOTALS, 'lo', decimal(floor)) end
end
`;

/** Sets the floor, as `setFloor` in grants.ts. */
export const setFloor: LuaScript<[clock: string, floor: string, from: string], SetFloorResult> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] floor        nano-dollars, 0 or less
-- ARGV[3] from         the floor that it must have now, or empty
-- returns {code, now, seq, ...}: {floor before, available} for ok
${ACCOUNT_LUA}${LOWEST_FLOOR_LUA}
local now = clock(ARGV[1])
if not load_totals() then return reply(now, 'no_account') end
local floor, before = tonumber(ARGV[2]), totals.fl
if before ~= (tonumber(ARGV[3]) or before) and before ~= floor then return reply(now, 'changed') end
-- Also if it is the same, so that a repeated command can wait until replicas have it.
redis.call('HSET', TOTALS, 'fl', decimal(floor))
totals.fl = floor
lower_floor_to(floor)
return reply(now, 'ok', decimal(before), decimal(totals.av))
`,
  (reply) => {
    const code = reply.text();
    const meta = reply.meta();
    switch (code) {
      case 'ok':
        return { code, before: reply.amount(), available: reply.amount(), ...meta };
      case 'changed':
      case 'no_account':
        return { code, ...meta };
      default:
        throw unknownCode(code);
    }
  },
);
