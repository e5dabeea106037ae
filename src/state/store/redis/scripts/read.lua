-- Reads records by id, in the order of the ids, and leaves out unknown ones.
--
-- ARGV: the prefix, the kind, the owner ('' for any), the time index, the number of fields, the fields, the ids.
-- Returns for each record: { its id, { its last use, { its fields } } }.
local prefix, kind, owner, times, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local wanted = { 'o' }
for n = 1, count do
  wanted[#wanted + 1] = ARGV[5 + n]
end
local found = {}
for n = 6 + count, #ARGV do
  local id = ARGV[n]
  local values = redis.call('HMGET', prefix .. kind .. ':' .. id, unpack(wanted))
  if values[1] and (owner == '' or values[1] == owner) then
    local fields = {}
    for field = 2, #wanted do
      fields[field - 1] = values[field] or ''
    end
    local used = redis.call('ZSCORE', prefix .. times, id) or '0'
    found[#found + 1] = { id, { used, fields } }
  end
end
return found
