/** Counters of requests that are over, as in usage-counters.ts. A row is read when it is needed. */
export const USAGE_LUA: string = /* lua */ `
-- "day key model" -> its nine counts.
local usage_rows = {}

-- Adds counts to the row of a request's day, key and model; what is negative was added before.
local function count_usage(request, model, counts)
  local field = string.format('%d %s %s', math.floor(request_time(request.id) / 86400000), request.key, model)
  local row = usage_rows[field]
  if not row then
    row = {}
    for count in string.gmatch(redis.call('HGET', USAGE, field) or '0 0 0 0 0 0 0 0 0', '%S+') do
      row[#row + 1] = integer(count)
    end
    usage_rows[field] = row
  end
  for n, count in ipairs(counts) do
    if count ~= 0 then row[n] = plus(row[n], count) end
  end
end

save_usage = function()
  for field, row in pairs(usage_rows) do
    for n, count in ipairs(row) do row[n] = text(count) end
    redis.call('HSET', USAGE, field, table.concat(row, ' '))
  end
end

-- Counts as a command has them: errors aborted, prompt cached completion and reasoning tokens, cost.
local function usage_of(packed)
  local errors, aborted, prompt, cached, completion, reasoning, cost =
    string.match(packed, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  return {1, tonumber(errors), tonumber(aborted), tonumber(prompt), tonumber(cached), tonumber(completion),
    tonumber(reasoning), 0, integer(cost)}
end
`;
