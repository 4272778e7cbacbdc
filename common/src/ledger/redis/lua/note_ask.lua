-- Notes that an autoscaler asks for a target now. Of many targets the ones that are there stay.
-- ARGV: the target, how long that is remembered in seconds, of how many targets
local asked = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', asked, '-inf', now - tonumber(ARGV[2]) * 1000000)
redis.call('ZADD', asked, now, ARGV[1])
if redis.call('ZCOUNT', asked, '-inf', '+inf') > tonumber(ARGV[3]) then redis.call('ZREM', asked, ARGV[1]) end
redis.call('EXPIRE', asked, ARGV[2])
return 1
