-- Takes or renews a lease. Returns its fencing number, or 0 while somebody else holds it.
-- ARGV: duty, owner, time in microseconds
local job, leases = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local owner, till, fence = ARGV[1] .. ':owner', ARGV[1] .. ':until', ARGV[1] .. ':fence'
local known = redis.call('HMGET', leases, owner, till)
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local is_held = known[1] and tonumber(known[2]) > now
if is_held and known[1] ~= ARGV[2] then return 0 end
if not is_held then redis.call('HINCRBY', leases, fence, 1) end
redis.call('HSET', leases, owner, ARGV[2], till, now + tonumber(ARGV[3]))
return tonumber(redis.call('HGET', leases, fence))
