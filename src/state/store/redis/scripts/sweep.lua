-- Deletes records that were last used before a time and that nothing in use refers to.
--
-- ARGV: the prefix, the kind, the time index, the time, how many that are kept are passed over, how many are looked at,
-- and the kind that owns ('' for none: field c has the owner's id, and what it owns stays while it is there), the index
-- of users ('' for none: what stands in it with the record's id behind it uses the record).
-- Returns how many were looked at, and how many deleted.
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
