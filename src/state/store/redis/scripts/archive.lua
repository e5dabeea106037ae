-- Archives documents that are superseded or undone, of handoffs made before a time.
--
-- ARGV: the prefix, the time, how many of the oldest to pass over, how many to look at.
-- Returns how many were looked at, and a list of owner and id of each that was archived.
local prefix, before, from, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ids = redis.call('ZRANGEBYSCORE', prefix .. 'documents', '-inf', '(' .. before, 'LIMIT', from, limit)
local archived = {}
for _, id in ipairs(ids) do
  local key = prefix .. 'document:' .. id
  local known = redis.call('HMGET', key, 's', 'o')
  if (known[1] == 'superseded' or known[1] == 'undone') and known[2] then
    redis.call('HSET', key, 's', 'archived')
    archived[#archived + 1] = { known[2], id }
  end
end
return { #ids, archived }
