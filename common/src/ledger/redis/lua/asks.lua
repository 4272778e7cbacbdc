-- The targets that autoscalers asked for lately, each with how long ago, microseconds.
-- ARGV: how lately, seconds
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local found = redis.call('ZRANGEBYSCORE', KEYS[1], now - tonumber(ARGV[1]) * 1000000, '+inf', 'WITHSCORES')
local answer = {}
for at = 1, #found, 2 do
  answer[#answer + 1] = { found[at], math.max(now - tonumber(found[at + 1]), 0) }
end
return answer
