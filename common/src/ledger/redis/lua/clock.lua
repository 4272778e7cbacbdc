-- The time of the server, microseconds, and its version where it tells scripts that.
local now = redis.call('TIME')
return { tonumber(now[1]) * 1000000 + tonumber(now[2]), redis.REDIS_VERSION or '' }
