-- Archives superseded or undone documents of handoffs made before a time.
--
-- ARGV: the prefix, the time, the number of oldest documents to skip, the number to examine.
-- Returns the number of examined documents, and the owner and id of each archived one.
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
