-- Publishes parts of the statistics of a job. Returns 1; -1 when the lease to watch over the job has changed hands.
-- ARGV: number of the caller's lease; name and content of each part
local job, statistics, leases = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('HGET', leases, 'watch:fence') ~= ARGV[1] then return -1 end
for at = 2, #ARGV, 2 do redis.call('HSET', statistics, ARGV[at], ARGV[at + 1]) end
return 1
