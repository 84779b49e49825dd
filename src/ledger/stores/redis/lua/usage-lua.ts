import { MAX_DIMENSION_VALUES } from '../../../contract/usage.ts';

/** Usage counters of ended requests, as in usage-counters.ts. Rows are loaded lazily. */
export const USAGE_LUA: string = /* lua */ `
-- "day key model" or "day :dimension value" -> its nine counts, as text.
local usage_rows = {}
-- "day :dimension" -> how many values it has, where that changed; and the dimensions that counted in the row which values
-- share. Both are nil until there are some.
local value_counts, shared_dimensions

-- Adds counts to a row. Negative counts undo earlier ones.
local function count_row(field, counts)
  local row = usage_rows[field]
  if not row then
    local packed = redis.call('HGET', USAGE, field)
    row = packed and {string.match(packed, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)')}
      or {'0', '0', '0', '0', '0', '0', '0', '0', '0'}
    usage_rows[field] = row
  end
  for n = 1, 9 do
    local count = counts[n]
    if count ~= 0 then row[n] = decimal(plus(row[n], count)) end
  end
end

-- Adds counts to the row of each dimension, given as " name=value". Values beyond the maximum of a day share one.
local function count_dimensions(day, dimensions, counts)
  for name, value in string.gmatch(dimensions, ' ([^ =]+)=(%S+)') do
    local place = day .. ' :' .. name
    local field = place .. ' ' .. value
    if not usage_rows[field] and redis.call('HEXISTS', USAGE, field) == 0 then
      local values = tonumber(redis.call('HGET', USAGE, place) or 0)
      if values < ${MAX_DIMENSION_VALUES} then
        value_counts = value_counts or {}
        value_counts[place] = values + 1
      else
        field = place .. ' '
        shared_dimensions = shared_dimensions or {}
        shared_dimensions[#shared_dimensions + 1] = name
      end
    end
    count_row(field, counts)
  end
end

-- Adds counts to the row of a request's day, key and model, and to those of its dimensions, if it has some.
local function count_usage(request, model, counts, dimensions)
  local day = string.format('%d', math.floor(request_time(request.id) / 86400000))
  count_row(day .. ' ' .. request.key .. ' ' .. model, counts)
  if dimensions and dimensions ~= '' then count_dimensions(day, dimensions, counts) end
end

save_usage = function()
  for field, row in pairs(usage_rows) do
    redis.call('HSET', USAGE, field, table.concat(row, ' '))
  end
  for place, values in pairs(value_counts or {}) do redis.call('HSET', USAGE, place, decimal(values)) end
end

-- Parses the counts of a command: errors aborted, prompt cached completion and reasoning tokens, cost. What follows are
-- its dimensions.
local function usage_of(packed)
  local errors, aborted, prompt, cached, completion, reasoning, cost, dimensions =
    string.match(packed, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  return {1, tonumber(errors), tonumber(aborted), tonumber(prompt), tonumber(cached), tonumber(completion),
    tonumber(reasoning), 0, integer(cost)}, dimensions
end
`;
