import type { CompactedSums } from '../../../contract/compacted-sums.ts';
import { READ_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';

/** The sums of compacted journal lines; undefined when there is no account. */
export const compacted: LuaScript<[], CompactedSums | undefined> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- returns {position, time, granted, spent, expired, written off}, or nothing
${READ_LUA}
local sums = redis.call('HMGET', TOTALS, 'jq', 'jt', 'jg', 'js', 'jx', 'jw')
if not sums[1] then return {} end
sums[2] = sums[2] or '0'
return sums
`,
  (reply) => {
    const [seq, at, granted = '', spent = '', expired = '', writtenOff = ''] = reply.texts();
    if (seq === undefined) return undefined;
    return {
      seq: BigInt(seq),
      at: Number(at),
      granted: BigInt(granted),
      spent: BigInt(spent),
      expired: BigInt(expired),
      writtenOff: BigInt(writtenOff),
    };
  },
);
