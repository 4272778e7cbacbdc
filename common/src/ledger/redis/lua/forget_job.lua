-- Notes that a job was removed. That is remembered for a while, for those who ask what changed.
-- ARGV: job, how long it is remembered in microseconds
local jobs, changed, removed, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
for _, old in ipairs(redis.call('ZRANGEBYSCORE', removed, '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, 1000)) do
  redis.call('HDEL', jobs, old)
  redis.call('ZREM', changed, old)
  redis.call('ZREM', removed, old)
end
if redis.call('HGET', jobs, ARGV[1]) == '' then return 1 end
local number = math.max(now, tonumber(redis.call('HGET', index, 'last') or '0') + 1)
redis.call('HSET', index, 'last', string.format('%.0f', number))
redis.call('HSET', jobs, ARGV[1], '')
redis.call('ZADD', changed, number, ARGV[1])
redis.call('ZADD', removed, now, ARGV[1])
return 1
