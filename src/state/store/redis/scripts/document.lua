-- Writes a document, or only its status. An active document supersedes the active one with the same key.
--
-- ARGV: the prefix, the handoff's id, the owner, the status, the key (principal, repository, branch and topic), the
-- record, the time, and `1` for a copy from another store. Without a record only the status changes. A copy is itself
-- superseded if the active document with its key is newer.
-- Returns `written` with the resulting status and the id of the superseded document, or `foreign`, or `unknown`.
local prefix, id, owner, status = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local about, record, time, is_copy = ARGV[5], ARGV[6], ARGV[7], ARGV[8] == '1'
local key, active, times = prefix .. 'document:' .. id, prefix .. 'documents-active', prefix .. 'documents'
local known = redis.call('HMGET', key, 'o', 'a')
if known[1] and known[1] ~= owner then
  return { 'foreign' }
end
if record == '' then
  if not known[1] then
    return { 'unknown' }
  end
  about = known[2]
end

local other = status == 'active' and redis.call('HGET', active, about)
if other == id then
  other = false
end
if other and is_copy then
  local others = tonumber(redis.call('ZSCORE', times, other) or '0')
  if others > tonumber(time) or (others == tonumber(time) and other > id) then
    status, other = 'superseded', false
  end
end
if known[2] and redis.call('HGET', active, known[2]) == id then
  redis.call('HDEL', active, known[2])
end
local answer = { 'written', status }
if other then
  redis.call('HSET', prefix .. 'document:' .. other, 's', 'superseded')
  answer[3] = other
end
if status == 'active' then
  redis.call('HSET', active, about, id)
end
-- Field `c` names the handoff that owns the document.
redis.call('HSET', key, 'o', owner, 's', status, 'a', about, 'c', id)
if record ~= '' then
  redis.call('HSET', key, 'r', record)
  redis.call('ZADD', times, time, id)
end
return answer
