-- Writes records, all or none.
--
-- ARGV: the prefix, then for each record: its kind, its id, its owner, the version that the stored record must have
-- ('' for any, '0' if there must be none), and four lists, each after its length: fields (name, value), fields that
-- only a new record gets (name, value), indexes (key, score), and time indexes (key, score), whose scores only grow.
--
-- Returns {'written'}, or {'foreign', kind} if a record has another owner, or {'overtaken', record} if the stored
-- record has another version ('' if there is none).
local prefix, at = ARGV[1], 1

local function take()
  at = at + 1
  return ARGV[at]
end

local function pairs_of()
  local list = {}
  for _ = 1, tonumber(take()) do
    list[#list + 1] = { take(), take() }
  end
  return list
end

local records = {}
while at < #ARGV do
  local record = { kind = take(), id = take(), owner = take(), version = take() }
  record.key = prefix .. record.kind .. ':' .. record.id
  record.fields, record.first = pairs_of(), pairs_of()
  record.indexes, record.times = pairs_of(), pairs_of()
  local old = redis.call('HMGET', record.key, 'o', 'v', 'i')
  if old[1] and old[1] ~= record.owner then
    return { 'foreign', record.kind }
  end
  if record.version ~= '' and record.version ~= (old[2] or '0') then
    return { 'overtaken', redis.call('HGET', record.key, 'r') or '' }
  end
  record.new, record.listed = not old[1], old[3] or ''
  records[#records + 1] = record
end

for _, record in ipairs(records) do
  local listed = {}
  for _, index in ipairs(record.indexes) do
    listed[index[1]] = true
    redis.call('ZADD', prefix .. index[1], index[2], record.id)
  end
  for old in string.gmatch(record.listed, '[^\n]+') do
    if not listed[old] then
      redis.call('ZREM', prefix .. old, record.id)
    end
  end
  local names = {}
  for _, index in ipairs(record.indexes) do
    names[#names + 1] = index[1]
  end
  for _, time in ipairs(record.times) do
    redis.call('ZADD', prefix .. time[1], 'GT', time[2], record.id)
  end
  redis.call('HSET', record.key, 'o', record.owner, 'i', table.concat(names, '\n'))
  for _, field in ipairs(record.fields) do
    redis.call('HSET', record.key, field[1], field[2])
  end
  if record.new then
    for _, field in ipairs(record.first) do
      redis.call('HSET', record.key, field[1], field[2])
    end
  end
end
return { 'written' }
