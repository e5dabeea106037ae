-- Deletes records of one kind.
--
-- ARGV: the prefix, the kind, the time index, the ids. Returns the number of records that existed.
local gone = 0
for n = 4, #ARGV do
  gone = gone + remove(ARGV[1], ARGV[2], ARGV[3], ARGV[n])
end
return gone
