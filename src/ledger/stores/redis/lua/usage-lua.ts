/** Usage counters of ended requests, as in usage-counters.ts. Rows are loaded lazily. */
export const USAGE_LUA: string = /* lua */ `
-- "day key model" -> its nine counts, as text.
local usage_rows = {}

-- Adds counts to the row of a request's day, key and model. Negative counts undo earlier ones.
local function count_usage(request, model, counts)
  local field = string.format('%d %s %s', math.floor(request_time(request.id) / 86400000), request.key, model)
  local row = usage_rows[field]
  if not row then
    local packed = redis.call('HGET', USAGE, field)
    row = packed and {string.match(packed, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)')}
      or {'0', '0', '0', '0', '0', '0', '0', '0', '0'}
    usage_rows[field] = row
  end
  for n = 1, 9 do
    local count = counts[n]
    if count ~= 0 then row[n] = decimal(plus(integer(row[n]), count)) end
  end
end

save_usage = function()
  for field, row in pairs(usage_rows) do
    redis.call('HSET', USAGE, field, table.concat(row, ' '))
  end
end

-- Parses the counts of a command: errors aborted, prompt cached completion and reasoning tokens, cost.
local function usage_of(packed)
  local errors, aborted, prompt, cached, completion, reasoning, cost =
    string.match(packed, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  return {1, tonumber(errors), tonumber(aborted), tonumber(prompt), tonumber(cached), tonumber(completion),
    tonumber(reasoning), 0, integer(cost)}
end
`;
