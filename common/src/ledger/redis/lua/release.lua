-- Gives a lease up. Its number stays, so that the next holder gets a higher one.
-- ARGV: duty, owner
local job, leases = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local owner = ARGV[1] .. ':owner'
if redis.call('HGET', leases, owner) == ARGV[2] then redis.call('HDEL', leases, owner) end
return 1
