-- The targets that idle workers looked for lately.
-- ARGV: how lately, microseconds
local time = redis.call('TIME')
local since = tonumber(time[1]) * 1000000 + tonumber(time[2]) - tonumber(ARGV[1])
return redis.call('ZRANGEBYSCORE', KEYS[1], since, '+inf')
