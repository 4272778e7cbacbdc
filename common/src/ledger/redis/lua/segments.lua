-- Committed segments in the order of their commits, each packed: key, size, duplicates.
-- ARGV: position of the first, of the last
local job, segments = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
return redis.call('LRANGE', segments, ARGV[1], ARGV[2])
