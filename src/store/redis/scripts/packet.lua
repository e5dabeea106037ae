-- Writes a packet. One that is active supersedes the active one with the same key.
--
-- ARGV: the prefix, its handoff's id, its owner, its status, what it is about (the key), the record, its time.
-- Returns `written` and the ids of those that are superseded, or `foreign`.
local prefix, id, owner, status = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local about, record, time = ARGV[5], ARGV[6], ARGV[7]
local key, active = prefix .. 'packet:' .. id, prefix .. 'packets-active'
local known = redis.call('HMGET', key, 'o', 'a')
if known[1] and known[1] ~= owner then
  return { 'foreign' }
end
local answer = { 'written' }
if known[2] and redis.call('HGET', active, known[2]) == id then
  redis.call('HDEL', active, known[2])
end
if status == 'active' then
  local other = redis.call('HGET', active, about)
  if other then
    redis.call('HSET', prefix .. 'packet:' .. other, 's', 'superseded')
    answer[2] = other
  end
  redis.call('HSET', active, about, id)
end
redis.call('HSET', key, 'o', owner, 's', status, 'a', about, 'r', record)
redis.call('ZADD', prefix .. 'packets', time, id)
return answer
