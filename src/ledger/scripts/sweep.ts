import { defineScript, type Script } from './define-script.ts';
import { ENDS_LUA } from './requests-lua.ts';

/** Ends and forgets what is due in one account and says how many, as `reap` in account.ts; expires credits. */
export const sweep: Script<[clock: string, budget: string], number> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] budget       at most so many
-- returns {code, now, seq, count} for ok
${ENDS_LUA}
local now = clock(ARGV[1])
if not load_books() then return reply(now, 'no_account') end
local count = reap(tonumber(ARGV[2]), now)
expire_lots(now)
return reply(now, 'ok', text(count))
`,
  (reply) => {
    if (reply.text() !== 'ok') return 0;
    reply.at();
    return reply.count();
  },
);
