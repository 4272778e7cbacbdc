-- The workers that looked lately, each packed, and how many microseconds ago that was; the longest ago first.
-- ARGV: how lately, microseconds
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local found = redis.call('ZRANGEBYSCORE', KEYS[1], now - tonumber(ARGV[1]), '+inf', 'WITHSCORES')
local workers = {}
for at = 1, #found, 2 do
  workers[#workers + 1] = { found[at], math.max(now - tonumber(found[at + 1]), 0) }
end
return workers
