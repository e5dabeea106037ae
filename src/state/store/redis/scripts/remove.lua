-- Removes a record with its entries in all indexes. Returns 1, or 0 if there is no such record.
local function remove(prefix, kind, times, id)
  local key = prefix .. kind .. ':' .. id
  local values = redis.call('HMGET', key, 'i', 'a')
  for index in string.gmatch(values[1] or '', '[^\n]+') do
    redis.call('ZREM', prefix .. index, id)
  end
  local active = prefix .. 'documents-active'
  if kind == 'document' and values[2] and redis.call('HGET', active, values[2]) == id then
    redis.call('HDEL', active, values[2])
  end
  redis.call('ZREM', prefix .. times, id)
  return redis.call('DEL', key)
end

