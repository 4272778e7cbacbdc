-- Notes what keeps a job from going on, or that it goes on. The time of the first note of a kind stays.
-- ARGV: the kind ('' where it goes on), the reason
local job = KEYS[1]
if redis.call('EXISTS', job) == 0 then return false end
if ARGV[1] == '' then
  redis.call('HDEL', job, 'obstacle', 'obstacle_reason', 'obstacle_us')
  return 1
end
if redis.call('HGET', job, 'obstacle') ~= ARGV[1] then
  local time = redis.call('TIME')
  redis.call('HSET', job, 'obstacle', ARGV[1], 'obstacle_us', time[1] .. string.format('%06d', time[2]))
end
redis.call('HSET', job, 'obstacle_reason', ARGV[2])
return 1
