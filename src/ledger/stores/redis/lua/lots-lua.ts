import { ALLOWANCES_LUA } from './allowances-lua.ts';

/** Lots, as in lots.ts. They are loaded lazily, in burn order. */
const OPEN_LOTS_LUA = /* lua */ `
local lots = {}

-- The n-th lot in burn order, as of before this command; nil after the last.
local function lot(n)
  if not lots[n] then
    local member = redis.call('ZRANGE', BURN_ORDER, decimal(n - 1), decimal(n - 1))[1]
    if not member or member == SENTINEL then return nil end
    local remaining = n == 1 and totals.l1 or -1
    if remaining < 0 then remaining = tonumber(redis.call('HGET', LOTS, member)) end
    lots[n] = {member = member, expiry = tonumber(string.sub(member, 5, 20)), remaining = remaining, before = remaining}
  end
  return lots[n]
end

local function lot_id(each)
  return string.match(each.member, '^%d+ %d+ (%S+)')
end

-- Deducts a spent amount from the lots. A negative amount, a refund, belongs to no lot.
local function burn(amount)
  if amount > 0 and amount < totals.l1 and not lots[1] then
    totals.l1 = totals.l1 - amount
    return
  end
  local n = 1
  while amount > 0 do
    local first = lot(n)
    if not first then return end
    local burnt = math.min(first.remaining, amount)
    first.remaining = first.remaining - burnt
    amount = amount - burnt
    n = n + 1
  end
end

-- What is available or held. Held alone can be more than a number shows exactly, if there is a debt.
local function unspent()
  return size(plus(totals.h, totals.av))
end

-- Number of lots with something remaining.
local function open_lots()
  local count = redis.call('ZCARD', BURN_ORDER) - 1
  for _, each in pairs(lots) do
    if each.remaining == 0 then count = count - 1 end
  end
  return count
end

-- Writes one lot; all that it has left is in the hash, if it isn't the first.
local function save_lot(n, each)
  if each.remaining == 0 then
    redis.call('ZREM', BURN_ORDER, each.member)
    redis.call('HDEL', LOTS, each.member)
  elseif n == 1 or each.remaining ~= each.before then
    redis.call('HSET', LOTS, each.member, decimal(each.remaining))
  end
end

-- Adds a lot of credit that was granted just now. What it pays of a debt is used up already. The lot may become the first,
-- so all are written, and loaded again when they are needed.
local function add_lot(id, priority, expiry, amount, remaining)
  if size(totals.av) < remaining then
    local room, n = unspent(), 1
    while lot(n) do
      room = room - lot(n).remaining
      n = n + 1
    end
    remaining = math.min(remaining, room)
  end
  if totals.l1 >= 0 then lot(1) end
  for n, each in pairs(lots) do save_lot(n, each) end
  lots = {}
  totals.l1 = -1
  if remaining <= 0 then return end
  local member = string.format('%03d %016d %s %d', priority, expiry, id, amount)
  redis.call('HSET', LOTS, member, decimal(remaining))
  redis.call('ZADD', BURN_ORDER, '0', member)
end
`;

/** Expiry of lots, and renewal of allowances. */
const DUE_CREDITS_LUA = /* lua */ `
-- Expires due lots, as far as their credit isn't held.
local function expire_lots(now)
  local n = 1
  while lot(n) do
    local each = lot(n)
    local amount = math.min(each.remaining, size(totals.av))
    if each.expiry <= now and amount > 0 then
      each.remaining = each.remaining - amount
      totals.av = plus(totals.av, 0 - amount)
      totals.x = plus(totals.x, amount)
      write_line(now, 'x', lot_id(each), amount, {})
    end
    n = n + 1
  end
end

-- Expires lots and renews allowances that are due; a second call at the same time changes nothing.
local function update_credits(now)
  if totals.nx > now then return end
  expire_lots(now)
  local nearest, n = renew_allowances(now), 1
  expire_lots(now)
  while lot(n) do
    if lot(n).remaining > 0 then nearest = math.min(nearest, lot(n).expiry) end
    n = n + 1
  end
  totals.nx = nearest
end

save_lots = function()
  for n, each in pairs(lots) do
    if n > 1 or each.remaining == 0 then save_lot(n, each) end
    if n == 1 then totals.l1 = each.remaining > 0 and each.remaining or -1 end
  end
  save_allowances()
end
`;

/** For scripts that change credits. */
export const LOTS_LUA: string = OPEN_LOTS_LUA + ALLOWANCES_LUA + DUE_CREDITS_LUA;
