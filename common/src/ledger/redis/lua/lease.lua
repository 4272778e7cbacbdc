-- Takes or renews a lease. Returns its fencing number, or 0 while another owner holds it.
-- The orchestrator keeps all keys of its job from expiring.
-- The first key tells whether the job is there, the last has its leases.
-- ARGV: duty, owner, time in microseconds, time to live of the keys in seconds
local job, leases = KEYS[1], KEYS[#KEYS]
if redis.call('EXISTS', job) == 0 then return false end
local owner, till, fence = ARGV[1] .. ':owner', ARGV[1] .. ':until', ARGV[1] .. ':fence'
local known = redis.call('HMGET', leases, owner, till)
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local is_held = known[1] and tonumber(known[2]) > now
if is_held and known[1] ~= ARGV[2] then return 0 end
-- The time makes numbers grow over the loss of all keys. One who had it last and comes again keeps his number.
if known[1] ~= ARGV[2] then
  local last = tonumber(redis.call('HGET', leases, fence) or '0')
  redis.call('HSET', leases, fence, string.format('%.0f', math.max(now, last + 1)))
end
redis.call('HSET', leases, owner, ARGV[2], till, now + tonumber(ARGV[3]))
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[4]) end
return tonumber(redis.call('HGET', leases, fence) or '') or error('the lease has no number')
