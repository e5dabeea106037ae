-- Deletes records that were last used before a time, unless something in use refers to them.
--
-- ARGV: the prefix, the kind, the time index, the time, the number of oldest records to skip, the number to examine,
-- the kind of the owning record ('' for none), and the prefix of the indexes of users ('' for none).
-- A record stays while the owning record, whose id is in field `c`, exists, or while its index of users has entries.
-- Returns the number of examined records, and the number of deleted ones.
local prefix, kind, times, before = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local from, limit, owner, users = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
local ids = redis.call('ZRANGEBYSCORE', prefix .. times, '-inf', '(' .. before, 'LIMIT', from, limit)
local gone = 0
for _, id in ipairs(ids) do
  local key = prefix .. kind .. ':' .. id
  local of = redis.call('HGET', key, 'c') or ''
  local owned = owner ~= '' and redis.call('EXISTS', prefix .. owner .. ':' .. of) == 1
  local used = users ~= '' and redis.call('ZCARD', prefix .. users .. id) > 0
  if not owned and not used then
    gone = gone + remove(prefix, kind, times, id)
  end
end
return { #ids, gone }
