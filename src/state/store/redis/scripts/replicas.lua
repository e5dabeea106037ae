-- Registers a replica, or says that it is still there; one without a record leaves. Those not heard of for long go.
--
-- ARGV: the prefix, its name, its record ('' for one that leaves), how long one stays that is not heard of, in milliseconds
-- by the server's clock.
-- Returns the records of all.
local prefix, name, record, kept = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local records, times = prefix .. 'replicas', prefix .. 'i:replicas:heard'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if record == '' then
  redis.call('HDEL', records, name)
  redis.call('ZREM', times, name)
else
  redis.call('HSET', records, name, record)
  redis.call('ZADD', times, string.format('%.0f', now), name)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', times, '-inf', string.format('(%.0f', now - kept))) do
  redis.call('HDEL', records, gone)
  redis.call('ZREM', times, gone)
end
return redis.call('HVALS', records)
