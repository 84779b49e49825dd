/** Lots, as in lots.ts. They are loaded lazily, in burn order. */
export const LOTS_LUA: string = /* lua */ `
local lots = {}
-- A lot was added, so the n-th lot may no longer be the n-th.
local lots_moved = false

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

-- Expires due lots, as far as their credit isn't held.
local function expire_lots(now)
  if totals.nx > now then return end
  local nearest, n = NEVER, 1
  while lot(n) do
    local each = lot(n)
    local amount = math.min(each.remaining, size(totals.av))
    if each.expiry <= now and amount > 0 then
      each.remaining = each.remaining - amount
      totals.av = plus(totals.av, 0 - amount)
      totals.x = plus(totals.x, amount)
      write_line(now, 'x', string.match(each.member, '^%d+ %d+ (%S+)'), amount, {})
    end
    if each.remaining > 0 then nearest = math.min(nearest, each.expiry) end
    n = n + 1
  end
  totals.nx = nearest
end

-- Number of lots with something remaining.
local function open_lots()
  local count = redis.call('ZCARD', BURN_ORDER) - 1
  for _, each in pairs(lots) do
    if each.remaining == 0 then count = count - 1 end
  end
  return count
end

-- Adds a lot, which may become the first.
local function add_lot(member, amount)
  if totals.l1 >= 0 then lot(1) end
  lots_moved = true
  redis.call('HSET', LOTS, member, decimal(amount))
  redis.call('ZADD', BURN_ORDER, '0', member)
end

save_lots = function()
  if lots_moved then totals.l1 = -1 end
  for n, each in pairs(lots) do
    if each.remaining == 0 then
      redis.call('ZREM', BURN_ORDER, each.member)
      redis.call('HDEL', LOTS, each.member)
      if n == 1 then totals.l1 = -1 end
    elseif n == 1 and not lots_moved then
      totals.l1 = each.remaining
    elseif n == 1 or each.remaining ~= each.before then
      redis.call('HSET', LOTS, each.member, decimal(each.remaining))
    end
  end
end
`;
