-- Returns the parts of the statistics of a job that have these names, and notes the time of this read. The first reader
-- after a pause finds no part: the script removes those of former readers, which may be of any age.
-- ARGV: how long one who has read them counts as a reader, microseconds; time to live in seconds; names
local job, statistics = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local read = tonumber(redis.call('HGET', statistics, 'read_us') or '0')
if now - read >= tonumber(ARGV[1]) then redis.call('UNLINK', statistics) end
redis.call('HSET', statistics, 'read_us', now)
redis.call('EXPIRE', statistics, ARGV[2])
return redis.call('HMGET', statistics, unpack(ARGV, 3))
