import type { Bucket, CreateKeyResult, KeyLimits, KeyRecord, KeyState } from '../ledger.ts';
import { BOOKS_LUA, READ_LUA, SENTINEL } from './account-lua.ts';
import { defineScript, type Script, unexpected } from './define-script.ts';
import { API_KEYS_LUA } from './keys-lua.ts';

/** Records a key, and makes the account if there is none. */
export const createKey: Script<
  [clock: string, key: string, terms: string, name: string, hashIsTaken: '0' | '1'],
  CreateKeyResult
> = defineScript(
  /* lua */ `#!lua
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- ARGV[3] terms        "hash budget per rpm tpm concurrent", where - is none
-- ARGV[4] name         JSON
-- ARGV[5] taken        1 if another key has the hash
-- returns {code, now, seq}
${BOOKS_LUA}${API_KEYS_LUA}
local now, id = clock(ARGV[1]), ARGV[2]
local known = load_books() and redis.call('HMGET', API_KEYS, id, id .. ':n')
if known and known[1] then
  local same = string.sub(known[1], 1, #ARGV[3] + 1) == ARGV[3] .. ' ' and known[2] == ARGV[4]
  return reply(now, same and 'ok' or 'conflict')
end
if ARGV[5] == '1' then return reply(now, 'conflict') end

if not books then birth() end
local _, per, rpm, tpm = string.match(ARGV[3], '^%S+ (%S+) (%S+) (%S+) (%S+)')
local key = new_key(id, per, tonumber(rpm), tonumber(tpm), now)
key.window = window_start(key, now)
key.changed = true
redis.call('HSET', API_KEYS, id, string.format('%s %d -', ARGV[3], now), id .. ':n', ARGV[4])
return reply(now, 'ok')
`,
  (reply) => {
    const code = reply.text();
    if (code !== 'ok' && code !== 'conflict') throw unexpected(code);
    return { code, ...reply.at() };
  },
);

/** Revokes a recorded key, at the time of the first revocation; says whether there is one. */
export const revokeKey: Script<[clock: string, key: string], boolean> = defineScript(
  /* lua */ `#!lua flags=allow-oom
-- ARGV[1] clock        ms, or empty for Redis's own
-- ARGV[2] key id
-- returns {code}
${BOOKS_LUA}
local row = redis.call('HGET', API_KEYS, ARGV[2])
local terms, revoked = string.match(row or '- -', '^(%S.*) (%S+)$')
if string.sub(terms, 1, 1) == '-' then return {'no_key'} end
if revoked == '-' then redis.call('HSET', API_KEYS, ARGV[2], terms .. ' ' .. text(clock(ARGV[1]))) end
return {'ok'}
`,
  (reply) => reply.text() === 'ok',
);

/** All fields of an account's keys. */
export const readKeys: Script<[], Map<string, string>> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- returns {field, value, ...}
${READ_LUA}
return redis.call('HGETALL', API_KEYS)
`,
  (reply) => new Map(reply.pairs()),
);

/** The fields of one key that its record is made of; none if there is no such key. */
export const readKey: Script<[key: string], Map<string, string>> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- ARGV[1] key id
-- returns {field, value, ...}
${READ_LUA}
local id = ARGV[1]
local values = redis.call('HMGET', API_KEYS, id, id .. ':n')
if not values[1] then return {} end
return {id, values[1], id .. ':n', values[2]}
`,
  (reply) => new Map(reply.pairs()),
);

/** Which key has a hash: "account key", or empty. */
export const readPointer: Script<[], string> = defineScript(
  /* lua */ `#!lua flags=no-writes
-- KEYS[1] string       "account key"
-- returns {its value, or empty}
return {redis.call('GET', KEYS[1]) or ''}
`,
  (reply) => reply.text(),
);

/** Says which key has a hash, unless another has it already; returns which it is. */
export const writePointer: Script<[key: string], string> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] string       "account key"
-- ARGV[1] key          what it shall be
-- returns {what it is}
redis.call('SETNX', KEYS[1], ARGV[1])
return {redis.call('GET', KEYS[1])}
`,
  (reply) => reply.text(),
);

/** A key's hash and limits as one text; two keys have the same if they are limited alike. */
export function keyTerms(hash: string, limits: KeyLimits): string {
  const { budget, requestsPerMinute, tokensPerMinute, concurrentRequests } = limits;
  const terms = [budget?.amount, budget?.per, requestsPerMinute, tokensPerMinute, concurrentRequests];
  return [hash, ...terms.map((term) => term ?? NONE)].join(' ');
}

/** Ids of the keys among the fields of an account's keys. */
export function keyIds(fields: ReadonlyMap<string, string>): string[] {
  return [...fields.keys()].filter((field) => field !== SENTINEL && !field.includes(':'));
}

/** SHA-256 of the key; undefined for one that the host authenticates. */
export function keyHash(fields: ReadonlyMap<string, string>, key: string): string | undefined {
  const [hash] = fields.get(key)?.split(' ') ?? [];
  return hash === NONE ? undefined : hash;
}

export function keyRecord(account: string, fields: ReadonlyMap<string, string>, key: string): KeyRecord {
  const [, budget = NONE, per, rpm = NONE, tpm = NONE, concurrent = NONE, created, revoked = NONE] =
    fields.get(key)?.split(' ') ?? [];
  const period = PERIODS.find((each) => each === per);
  const name: string = JSON.parse(fields.get(`${key}:n`) ?? '""');
  return {
    account,
    key,
    name,
    state: revoked === NONE ? 'active' : 'revoked',
    createdAt: Number(created),
    ...(revoked !== NONE && { revokedAt: Number(revoked) }),
    limits: {
      ...(period && { budget: { amount: BigInt(budget), per: period } }),
      ...(rpm !== NONE && { requestsPerMinute: Number(rpm) }),
      ...(tpm !== NONE && { tokensPerMinute: Number(tpm) }),
      ...(concurrent !== NONE && { concurrentRequests: Number(concurrent) }),
    },
  };
}

export function keyState(account: string, fields: ReadonlyMap<string, string>, key: string): KeyState {
  const record = keyRecord(account, fields, key);
  const [held = '', running, spent = '', window, ...buckets] = fields.get(`${key}:s`)?.split(' ') ?? [];
  const [requestLevel, requestAt, tokenLevel, tokenAt] = buckets.map(Number);
  const { requestsPerMinute, tokensPerMinute } = record.limits;
  return {
    ...record,
    held: BigInt(held),
    running: Number(running),
    spent: BigInt(spent),
    window: Number(window),
    ...(requestsPerMinute !== undefined && { requestBucket: bucket(requestLevel, requestAt) }),
    ...(tokensPerMinute !== undefined && { tokenBucket: bucket(tokenLevel, tokenAt) }),
  };
}

const NONE = '-';
const PERIODS = ['day', 'week', 'month', 'lifetime'] as const;

function bucket(level = 0, at = 0): Bucket {
  return { level, at };
}
