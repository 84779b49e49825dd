import type { DeletedAccount } from '../../../contract/account-changes.ts';
import { defineScript, type LuaScript, type ReplyReader, unknownCode } from './define-script.ts';
import { keyHashes } from '../../../engine/key-states.ts';
import { keyRows } from './key-fields.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';

/** An account of which only its sums are left, until they are recorded elsewhere. */
export interface Deletion {
  readonly code: 'ok';
  readonly deleted: DeletedAccount;
  /** Of its keys: what leads from a hash to a key is in another slot. */
  readonly pointers: readonly { readonly hash: string; readonly key: string }[];
}

/**
 * Deletes all of an account but its sums and its keys' hashes, which `forgetAccount` deletes. Repeated in between, it
 * returns them again. Leases that ran out are ended first.
 */
export const deleteAccount: LuaScript<
  [clock: string, id: string],
  Deletion | { readonly code: 'running'; readonly requests: number } | { readonly code: 'no_account' }
> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own; then <, and the horizon of leases in ms, or nothing
-- ARGV[2] id           of the sums
-- returns {code}: {id, deleted at, granted, available, spent, expired, written off, {field, value, ...} of its keys} for
--   ok, {count} for running
${REQUEST_SCRIPT_LUA}
local function deletion()
  local reply = redis.call('HMGET', TOTALS, 'del', 'at', 'g', 'av', 's', 'x', 'wo')
  table.insert(reply, 1, 'ok')
  reply[5] = redis.call('HGET', TOTALS, 'rest')
  reply[9] = redis.call('HGETALL', API_KEYS)
  return reply
end

if redis.call('HEXISTS', TOTALS, 'del') == 1 then return deletion() end
local now = clock(ARGV[1])
if not load_totals() then return {'no_account'} end
reap(1000, now)
reply(now, 'ok')
local running, fields = 0, redis.call('HGETALL', API_KEYS)
for n = 1, #fields, 2 do
  if string.sub(fields[n], -2) == ':s' and fields[n] ~= '@:s' then
    running = running + tonumber(string.match(fields[n + 1], '^%S+ (%S+)'))
  end
end
if running > 0 then return {'running', decimal(running)} end
-- For the sums alone.
update_credits(now)
redis.call('UNLINK', REQUESTS, DUE, JOURNAL, PAID, LOTS, BURN_ORDER, USAGE, END_USERS)
redis.call('DEL', TOTALS)
-- Without av, it is no account.
redis.call('HSET', TOTALS, 'del', ARGV[2], 'at', decimal(now), 'g', decimal(totals.g), 'rest', decimal(totals.av),
  's', decimal(totals.s), 'x', decimal(totals.x), 'wo', decimal(totals.wo))
return deletion()
`,
  (reply) => {
    const code = reply.text();
    if (code === 'no_account') return { code };
    if (code === 'running') return { code, requests: reply.count() };
    if (code !== 'ok') throw unknownCode(code);
    const deleted = deletedIn(reply);
    const hashes = keyHashes(keyRows(new Map(reply.nested().pairs())));
    const pointers = [...hashes].flatMap(([key, { current, previous }]) =>
      [current, ...(previous ? [previous.hash] : [])].map((hash) => ({ hash, key })),
    );
    return { code, deleted, pointers };
  },
);

/** Deletes what `deleteAccount` left; for a day it is known that the account was deleted, and not lost, and when. */
export const forgetAccount: LuaScript<[id: string], void> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] id           of the sums
-- returns {}
if redis.call('HGET', KEYS[1], 'del') ~= ARGV[1] then return {} end
local at = redis.call('HGET', KEYS[1], 'at')
redis.call('DEL', KEYS[1], KEYS[4])
redis.call('HSET', KEYS[1], 'gone', at)
redis.call('PEXPIRE', KEYS[1], '86400000')
return {}
`,
  () => {},
);

/** Packs the sums for their hash, in which the id is the field. */
export function packDeleted(deleted: DeletedAccount): string {
  const { deletedAt, granted, available, spent, expired, writtenOff } = deleted;
  return [deletedAt, granted, available, spent, expired, writtenOff].join(' ');
}

export function unpackDeleted([id, packed]: readonly [id: string, packed: string]): DeletedAccount {
  const [at, granted = '', available = '', spent = '', expired = '', writtenOff = ''] = packed.split(' ');
  return {
    id,
    deletedAt: Number(at),
    granted: BigInt(granted),
    available: BigInt(available),
    spent: BigInt(spent),
    expired: BigInt(expired),
    writtenOff: BigInt(writtenOff),
  };
}

function deletedIn(reply: ReplyReader): DeletedAccount {
  return {
    id: reply.text(),
    deletedAt: reply.count(),
    granted: reply.amount(),
    available: reply.amount(),
    spent: reply.amount(),
    expired: reply.amount(),
    writtenOff: reply.amount(),
  };
}
