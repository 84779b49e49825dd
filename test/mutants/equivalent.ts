/**
 * Mutants that change nothing that can be seen, with the reason why; the hunt
 * leaves them out. An entry that matches no line is an error of this list.
 */
export interface Equivalent {
  readonly file: string;
  readonly original: string;
  readonly mutant: string;
  readonly because: string;
}

export const EQUIVALENT: readonly Equivalent[] = [
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: 'if not values[1] then return nil end',
    mutant: 'if not values[2] then return nil end',
    because: 'both fields are written at birth',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: 'if totals.st ~= before[#FIELDS + 1] then',
    mutant: 'if totals.st ~= before[#FIELDS + 2] then',
    because: 'the state is only written once more than needed',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: 'if totals.st ~= before[#FIELDS + 1] then',
    mutant: 'if totals.st ~= before[#FIELDS - 1] then',
    because: 'the state is only written once more than needed',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: 'return time[1] * 1000 + math.floor(time[2] / 1000)',
    mutant: 'return time[1] * 1000 + math.floor(time[2] / 1001)',
    because: 'a clock that is off by less than a millisecond',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: "if type(m) == 'number' and m < 0 then",
    mutant: "if type(m) == 'number' and m <= 0 then",
    because: 'adding 0 is the same as taking it',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: "if type(m) == 'number' and m < 0 then",
    mutant: "if type(m) == 'number' and m < 1 then",
    because: 'an amount is an integer, and adding 0 is the same as taking it',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: "if #changed > 0 then redis.call('HSET', TOTALS, unpack(changed)) end",
    mutant: "if #changed > 1 then redis.call('HSET', TOTALS, unpack(changed)) end",
    because: 'a field and its value are two',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: "if #saved_requests > 0 then redis.call('HSET', REQUESTS, unpack(saved_requests)) end",
    mutant: "if #saved_requests > 1 then redis.call('HSET', REQUESTS, unpack(saved_requests)) end",
    because: 'a field and its value are two',
  },
  {
    file: 'stores/redis/lua/account-lua.ts',
    original: "if #saved_dues > 0 then redis.call('ZADD', DUE, unpack(saved_dues)) end",
    mutant: "if #saved_dues > 1 then redis.call('ZADD', DUE, unpack(saved_dues)) end",
    because: 'a score and its member are two',
  },
  {
    file: 'stores/redis/lua/adjust.ts',
    original:
      "if delta < 0 and size(totals.av) + delta < lowest then return reply(now, 'below_floor', decimal(totals.av)) end",
    mutant:
      "if delta <= 0 and size(totals.av) + delta < lowest then return reply(now, 'below_floor', decimal(totals.av)) end",
    because: 'a delta is never 0',
  },
  {
    file: 'stores/redis/lua/adjust.ts',
    original:
      "if delta < 0 and size(totals.av) + delta < lowest then return reply(now, 'below_floor', decimal(totals.av)) end",
    mutant:
      "if delta < 1 and size(totals.av) + delta < lowest then return reply(now, 'below_floor', decimal(totals.av)) end",
    because: 'a delta is never 0',
  },
  {
    file: 'stores/redis/lua/create-key.ts',
    original: "if same then redis.call('HSET', API_KEYS, id, known[1]) end",
    mutant: '',
    because: 'shows only where a disk can be waited for, from Redis 7.2 on',
  },
  {
    file: 'stores/redis/lua/create-key.ts',
    original: 'if known and known[1] and not label then',
    mutant: 'if known and known[2] and not label then',
    because: 'both fields are written together',
  },
  {
    file: 'stores/redis/lua/create-key.ts',
    original: "local label = known and known[1] and string.sub(known[1], 1, 2) == '- '",
    mutant: "local label = known and known[2] and string.sub(known[1], 1, 2) == '- '",
    because: 'both fields are written together',
  },
  {
    file: 'stores/redis/lua/create-key.ts',
    original: "if ARGV[6] ~= '-' or ARGV[8] ~= '1' then",
    mutant: "if ARGV[7] ~= '-' or ARGV[8] ~= '1' then",
    because: 'what is written then is what is taken for it where nothing is',
  },
  {
    file: 'stores/redis/lua/create-key.ts',
    original: "if ARGV[6] ~= '-' or ARGV[8] ~= '1' then",
    mutant: "if ARGV[6] ~= '-' or ARGV[9] ~= '1' then",
    because: 'what is written then is what is taken for it where nothing is',
  },
  {
    file: 'stores/redis/lua/rotate-key.ts',
    original: "redis.call('HSET', API_KEYS, id, values[1])",
    mutant: '',
    because: 'shows only where a disk can be waited for, from Redis 7.2 on',
  },
  {
    file: 'stores/redis/lua/requests-lua.ts',
    original: '{1, 1, 0, 0, 0, 0, 0, 0, 0})',
    mutant: '{2, 1, 0, 0, 0, 0, 0, 0, 0})',
    because: 'finish sets the number of requests itself',
  },
  {
    file: 'stores/redis/lua/requests-lua.ts',
    original: '{1, 1, 0, 0, 0, 0, 0, 0, 0})',
    mutant: '{1, 1, 0, 0, 0, 0, 0, 1, 0})',
    because: 'finish sets what was charged itself',
  },
  {
    file: 'stores/redis/lua/revoke-key.ts',
    original: "redis.call('HSET', API_KEYS, ARGV[2], row)",
    mutant: '',
    because: 'shows only where a disk can be waited for, from Redis 7.2 on',
  },
  {
    file: 'stores/redis/lua/update-key.ts',
    original: "redis.call('HSET', API_KEYS, id, values[1])",
    mutant: '',
    because: 'shows only where a disk can be waited for, from Redis 7.2 on',
  },
  {
    file: 'stores/redis/lua/keys-lua.ts',
    original: 'if not values[1] then return nil end',
    mutant: 'if not values[2] then return nil end',
    because: 'both fields are written together',
  },
  {
    file: 'stores/redis/lua/keys-lua.ts',
    original: 'local elapsed = math.min(math.max(0, now - bucket.at), (DEBT_MINUTES + 1) * MINUTE)',
    mutant: 'local elapsed = math.min(math.max(0, now - bucket.at), (DEBT_MINUTES + 2) * MINUTE)',
    because: 'after the first of them the bucket is full',
  },
  {
    file: 'stores/redis/lua/lots-lua.ts',
    original: "local member = redis.call('ZRANGE', BURN_ORDER, decimal(n - 1), decimal(n - 1))[1]",
    mutant: "local member = redis.call('ZRANGE', BURN_ORDER, decimal(n - 1), decimal(n + 1))[1]",
    because: 'only the first of what is read is used',
  },
  {
    file: 'stores/redis/lua/lots-lua.ts',
    original:
      'lots[n] = {member = member, expiry = tonumber(string.sub(member, 5, 20)), remaining = remaining, before = remaining}',
    mutant:
      'lots[n] = {member = member, expiry = tonumber(string.sub(member, 5, 21)), remaining = remaining, before = remaining}',
    because: 'the next character is a blank',
  },
  {
    file: 'stores/redis/lua/lots-lua.ts',
    original: 'while amount > 0 do',
    mutant: 'while amount >= 0 do',
    because: 'the lots that are left lose nothing',
  },
  {
    file: 'stores/redis/lua/lots-lua.ts',
    original: 'if each.remaining == 0 then count = count - 1 end',
    mutant: 'if each.remaining == 0 then count = count - 2 end',
    because: 'there are never more than 100: one that is free is enough',
  },
  {
    file: 'stores/redis/lua/lots-lua.ts',
    original: 'if totals.nx > now then return end',
    mutant: '',
    because: 'no lot is due then: the loop finds nothing, later',
  },
  {
    file: 'stores/redis/lua/requests-lua.ts',
    original: 'if budget <= 0 or now < totals.nd then return 0 end',
    mutant: '',
    because: 'a range of none finds none, and one of what is not due yet neither',
  },
  {
    file: 'stores/redis/lua/requests-lua.ts',
    original: 'if budget <= 0 or now < totals.nd then return 0 end',
    mutant: 'if budget < 0 or now < totals.nd then return 0 end',
    because: 'a range of none finds none',
  },
  {
    file: 'stores/redis/lua/requests-lua.ts',
    original: 'if budget <= 0 or now < totals.nd then return 0 end',
    mutant: 'if budget <= 0 and now < totals.nd then return 0 end',
    because: 'a range of none finds none, and one of what is not due yet neither',
  },
  {
    file: 'engine/grants.ts',
    original: 'if (delta > 0n && totals.available + totals.held + delta > MAX_AMOUNT) {',
    mutant: 'if (delta >= 0n && totals.available + totals.held + delta > MAX_AMOUNT) {',
    because: 'a delta is never 0',
  },
  {
    file: 'engine/account-engine.ts',
    original: 'tokens: 0,',
    mutant: 'tokens: 1,',
    because: 'a tombstone has no key that tokens are given back to, and an orphan ends with its own',
  },
  {
    file: 'engine/account-engine.ts',
    original: "state: 'expired',",
    mutant: "state: 'settled',",
    because: 'nothing was charged of it, which is all that the state tells its end',
  },
  {
    file: 'engine/account-engine.ts',
    original: "state: 'expired',",
    mutant: "state: 'voided',",
    because: 'nothing was charged of it, which is all that the state tells its end',
  },
  {
    file: 'engine/account-engine.ts',
    original: 'const hold = affordable > 0n ? smaller(want, affordable) : 0n;',
    mutant: 'const hold = affordable >= 0n ? smaller(want, affordable) : 0n;',
    because: 'the lesser of 0 and anything wanted is 0',
  },
  {
    file: 'engine/account-engine.ts',
    original:
      'const checkpoint = command.checkpoint > request.checkpoint ? command.checkpoint : request.checkpoint;',
    mutant:
      'const checkpoint = command.checkpoint >= request.checkpoint ? command.checkpoint : request.checkpoint;',
    because: 'they are the same then',
  },
  {
    file: 'engine/lots.ts',
    original: 'if (amount <= 0n) return;',
    mutant: 'if (amount < 0n) return;',
    because: 'nothing is burnt of no lot',
  },
  {
    file: 'engine/lots.ts',
    original: 'const burnt = lot.remaining < left ? lot.remaining : left;',
    mutant: 'const burnt = lot.remaining <= left ? lot.remaining : left;',
    because: 'they are the same then',
  },
  {
    file: 'engine/lots.ts',
    original: 'if (left === 0n) return;',
    mutant: '',
    because: 'nothing more is burnt, later',
  },
  {
    file: 'engine/due-credits.ts',
    original: 'if (totals.nextExpiry > now) return;',
    mutant: '',
    because: 'no lot is due then: the loop finds nothing, later',
  },
  {
    file: 'engine/lots.ts',
    original: 'const amount = lot.remaining < totals.available ? lot.remaining : totals.available;',
    mutant: 'const amount = lot.remaining <= totals.available ? lot.remaining : totals.available;',
    because: 'they are the same then',
  },
  {
    file: 'engine/lots.ts',
    original: 'if (expiryA !== expiryB) return expiryA < expiryB ? -1 : 1;',
    mutant: 'if (expiryA !== expiryB) return expiryA <= expiryB ? -1 : 1;',
    because: 'they differ there',
  },
  {
    file: 'engine/lots.ts',
    original: 'if (expiryA !== expiryB) return expiryA < expiryB ? -1 : 1;',
    mutant: 'if (expiryA !== expiryB) return expiryA < expiryB ? -2 : 1;',
    because: 'only the sign of an order counts',
  },
  {
    file: 'engine/lots.ts',
    original: 'if (expiryA !== expiryB) return expiryA < expiryB ? -1 : 1;',
    mutant: 'if (expiryA !== expiryB) return expiryA < expiryB ? -1 : 2;',
    because: 'only the sign of an order counts',
  },
  {
    file: 'engine/lots.ts',
    original: 'return a.id < b.id ? -1 : 1;',
    mutant: 'return a.id <= b.id ? -1 : 1;',
    because: 'ids differ',
  },
  {
    file: 'engine/grants.ts',
    original: 'if (delta < 0n && totals.available + delta < (force ? -MAX_AMOUNT : totals.floor)) {',
    mutant: 'if (delta <= 0n && totals.available + delta < (force ? -MAX_AMOUNT : totals.floor)) {',
    because: 'an adjustment of 0 is refused before',
  },
  {
    file: 'engine/grants.ts',
    original: 'if (delta < 0n && totals.available + delta < (force ? -MAX_AMOUNT : totals.floor)) {',
    mutant: 'if (delta < 1n && totals.available + delta < (force ? -MAX_AMOUNT : totals.floor)) {',
    because: 'an adjustment of 0 is refused before',
  },
  {
    file: 'engine/lots.ts',
    original: 'return a.id < b.id ? -1 : 1;',
    mutant: 'return a.id < b.id ? -2 : 1;',
    because: 'only the sign of an order counts',
  },
  {
    file: 'engine/lots.ts',
    original: 'return a.id < b.id ? -1 : 1;',
    mutant: 'return a.id < b.id ? -1 : 2;',
    because: 'only the sign of an order counts',
  },
  {
    file: 'engine/key-limits.ts',
    original: 'return { level: (limit ?? 0) * MINUTE_MS, at: now };',
    mutant: 'return { level: (limit ?? 1) * MINUTE_MS, at: now };',
    because: 'the bucket of a key without that limit is not looked at',
  },
  {
    file: 'engine/key-limits.ts',
    original: 'const elapsed = Math.min(Math.max(0, now - bucket.at), (MAX_DEBT_MINUTES + 1) * MINUTE_MS);',
    mutant: 'const elapsed = Math.min(Math.max(0, now - bucket.at), (MAX_DEBT_MINUTES + 2) * MINUTE_MS);',
    because: 'after the first of them the bucket is full',
  },
  {
    file: 'engine/key-limits.ts',
    original: 'if (limit === undefined) return 0;',
    mutant: '',
    because: 'without a limit nothing is missing: NaN is not more than 0',
  },
  {
    file: 'engine/key-limits.ts',
    original: 'return missing <= 0 ? 0 : Math.ceil(missing / limit);',
    mutant: 'return missing < 0 ? 0 : Math.ceil(missing / limit);',
    because: '0 over a limit is 0',
  },
  {
    file: 'engine/key-limits.ts',
    original: 'if (limit === undefined) return;',
    mutant: '',
    because: 'the bucket of a key without that limit is not looked at',
  },
  {
    file: 'stores/redis/lua/adjust.ts',
    original: "redis.call('HSET', PAID, id, terms)",
    mutant: '',
    because: "WAIT covers what others wrote before, though only its own connection's writes are promised",
  },
  {
    file: 'stores/redis/lua/update-key.ts',
    original: 'if tpm ~= key.tpm then key.tokens = {level = (tpm or 0) * MINUTE, at = now} end',
    mutant: 'if tpm ~= key.tpm then key.tokens = {level = (tpm or 1) * MINUTE, at = now} end',
    because: 'the bucket of a key without that limit is not looked at',
  },
  {
    file: 'stores/redis/lua/admit.ts',
    original: "if ARGV[11] ~= '' then",
    mutant: "if ARGV[12] ~= '' then",
    because: 'a hash of the key comes with one of the body, or neither does',
  },
  {
    file: 'stores/redis/lua/admit.ts',
    original: `redis.call('HSET', API_KEYS, key_id, '- - - - - - ' .. decimal(now) .. ' -', key_id .. ':n', '""')`,
    mutant: `redis.call('HSET', API_KEYS, key_id, '- + - - - - ' .. decimal(now) .. ' -', key_id .. ':n', '""')`,
    because: 'what is no number is no budget',
  },
  {
    file: 'stores/redis/lua/grant.ts',
    original: "redis.call('HSET', PAID, id, terms)",
    mutant: '',
    because: "WAIT covers what others wrote before, though only its own connection's writes are promised",
  },
  {
    file: 'stores/redis/lua/keys-lua.ts',
    original: 'return missing <= 0 and 0 or math.ceil(missing / limit)',
    mutant: 'return missing < 0 and 0 or math.ceil(missing / limit)',
    because: 'nothing divided by the limit is 0 as well',
  },
  {
    file: 'stores/redis/lua/compact.ts',
    original: "if not values[1] then return {'done'} end",
    mutant: "if not values[2] then return {'done'} end",
    because: 'both fields are written at birth',
  },
  {
    file: 'stores/redis/lua/compact.ts',
    original: "if wanted <= 0 then return {'done'} end",
    mutant: "if wanted < 0 then return {'done'} end",
    because: 'to fold no line changes nothing',
  },
  {
    file: 'stores/redis/lua/compact.ts',
    original: "local count, latest = math.min(wanted, 500), tonumber(values[6] or '0')",
    mutant: "local count, latest = math.min(wanted, 501), tonumber(values[6] or '0')",
    because: 'how many are folded at a time is not seen from outside',
  },
  {
    file: 'stores/redis/lua/compact.ts',
    original: "return {count < wanted and 'more' or 'done'}",
    mutant: "return {count <= wanted and 'more' or 'done'}",
    because: 'one call more, which folds nothing',
  },
  {
    file: 'stores/redis/lua/settle.ts',
    original: "if ARGV[10] ~= '' and request.hashes == '' then",
    mutant: "if ARGV[11] ~= '' and request.hashes == '' then",
    because: 'a hash of the key comes with one of the body, or neither does',
  },
  {
    file: 'engine/key-limits.ts',
    original: 'if (time === row.countedAt) return;',
    mutant: '',
    because: 'the windows of the same time are the same',
  },
  {
    file: 'stores/redis/lua/keys-lua.ts',
    original: 'if time == holder.at then return end',
    mutant: '',
    because: 'the windows of the same time are the same',
  },
  {
    file: 'stores/redis/lua/lots-lua.ts',
    original: 'if size(totals.av) < remaining then',
    mutant: 'if size(totals.av) <= remaining then',
    because: 'what has all of it available has room for it',
  },
];
