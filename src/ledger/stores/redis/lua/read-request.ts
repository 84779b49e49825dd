import type { RequestRecord } from '../../../contract/ledger-store.ts';
import { READ_LUA } from './account-lua.ts';
import { defineScript, type LuaScript } from './define-script.ts';
import { requestRecord } from './row-fields.ts';

/** One request; undefined if unknown. */
export const readRequest: LuaScript<[requestId: string], RequestRecord | undefined> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- ARGV[1] request id
-- returns {id, row}, or nothing
${READ_LUA}
local row = redis.call('HGET', REQUESTS, ARGV[1])
if not row then return {} end
return {ARGV[1], row}
`,
  (reply) => {
    const [record] = reply.pairs();
    return record && requestRecord(...record);
  },
);
