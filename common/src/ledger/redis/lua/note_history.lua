-- Notes what a target wants and has, once for each step of time. Returns 1; 0 where that of this step is noted.
-- ARGV: length of a step in microseconds, how many are kept, wanted, live, idle, waiting, time to live in seconds
local history = KEYS[1]
local time = redis.call('TIME')
local step = math.floor((tonumber(time[1]) * 1000000 + tonumber(time[2])) / tonumber(ARGV[1]))
local place = string.format('%.0f', step % tonumber(ARGV[2]))
local known = redis.call('HGET', history, place)
if known and tonumber(string.match(known, '^%d+')) == step then return 0 end
local counts = table.concat({ string.format('%.0f', step), ARGV[3], ARGV[4], ARGV[5], ARGV[6] }, ' ')
redis.call('HSET', history, place, counts)
redis.call('EXPIRE', history, ARGV[7])
return 1
