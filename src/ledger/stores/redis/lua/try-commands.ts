import { defineScript, type LuaScript } from './define-script.ts';

/**
 * Says which commands are refused, of all that scripts call and that the store sends by themselves.
 *
 * A script isn't undone where a command of it is refused: what it has written until then stays. So a store is only ready
 * once none is.
 */
export const tryCommands: LuaScript<[], readonly string[]> = defineScript(
  /* lua */ `#!lua
-- KEYS[1] a key that doesn't exist, neither before nor after
-- returns {command, ...}
local refused = {}
local function try(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then refused[#refused + 1] = command end
end
local key = KEYS[1]
try('DEL', key)
-- What can't be deleted again isn't written.
if #refused > 0 then return refused end
try('TIME')
try('EXISTS', key)
try('SET', key, '1')
try('GET', key)
try('PEXPIRE', key, '60000')
try('UNLINK', key)
redis.call('DEL', key)
try('HSET', key, 'field', '1')
try('HGET', key, 'field')
try('HMGET', key, 'field')
try('HGETALL', key)
try('HEXISTS', key, 'field')
try('HLEN', key)
try('HSCAN', key, '0')
try('HDEL', key, 'field')
redis.call('DEL', key)
try('RPUSH', key, '1')
try('LLEN', key)
try('LINDEX', key, '0')
try('LRANGE', key, '0', '0')
-- Of a list that could not be made, this would be refused in any case.
if redis.call('DEL', key) == 1 then
  redis.call('RPUSH', key, '1')
  try('LSET', key, '0', '2')
end
try('LTRIM', key, '0', '0')
redis.call('DEL', key)
try('ZADD', key, '0', 'member')
try('ZCARD', key)
try('ZRANGE', key, '0', '0')
try('ZRANGEBYLEX', key, '-', '+')
try('ZREVRANGEBYLEX', key, '+', '-')
try('ZREM', key, 'member')
try('ZREMRANGEBYLEX', key, '-', '+')
try('ZREMRANGEBYSCORE', key, '0', '0')
redis.call('DEL', key)
try('SADD', key, 'member')
try('SSCAN', key, '0')
try('SREM', key, 'member')
redis.call('DEL', key)
return refused
`,
  (reply) => reply.texts(),
);
