-- Sets a field of a record that there is.
--
-- ARGV: the key, the owner, the field, the value. Returns 1, or 0 where there is no such record of this owner.
if redis.call('HGET', ARGV[1], 'o') ~= ARGV[2] then
  return 0
end
redis.call('HSET', ARGV[1], ARGV[3], ARGV[4])
return 1
