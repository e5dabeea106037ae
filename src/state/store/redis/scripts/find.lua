-- Reads the records that are in any of some indexes, each once.
--
-- ARGV: the prefix, the kind, the owner, the time index, the indexes.
-- Returns for each record: { its id, { its last use, { the record } } }.
local prefix, kind, owner, times = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local found, seen = {}, {}
for n = 5, #ARGV do
  for _, id in ipairs(redis.call('ZRANGE', prefix .. ARGV[n], 0, -1)) do
    if not seen[id] then
      seen[id] = true
      local values = redis.call('HMGET', prefix .. kind .. ':' .. id, 'o', 'r')
      if values[1] == owner then
        local used = redis.call('ZSCORE', prefix .. times, id) or '0'
        found[#found + 1] = { id, { used, { values[2] } } }
      end
    end
  end
end
return found
