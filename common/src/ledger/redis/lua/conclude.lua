-- Decides how a job ends, once. Returns the state and the reason that were decided.
-- ARGV: state, reason
local job = KEYS[1]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('HEXISTS', job, 'conclusion') == 0 then
  local time = redis.call('TIME')
  local now = time[1] .. string.format('%06d', time[2])
  redis.call('HSET', job, 'conclusion', ARGV[1], 'reason', ARGV[2], 'concluded_us', now)
end
return redis.call('HMGET', job, 'conclusion', 'reason')
