-- Sets a field of an existing record.
--
-- ARGV: the key, the owner, the field, the value. Returns 1, or 0 if this owner has no such record.
if redis.call('HGET', ARGV[1], 'o') ~= ARGV[2] then
  return 0
end
redis.call('HSET', ARGV[1], ARGV[3], ARGV[4])
return 1
