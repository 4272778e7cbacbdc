-- The steps that are kept of a target, each as numbers with spaces between them: which step, wanted, live, idle, waiting; and the step of now.
-- ARGV: length of a step in microseconds
local time = redis.call('TIME')
local step = math.floor((tonumber(time[1]) * 1000000 + tonumber(time[2])) / tonumber(ARGV[1]))
return { step, redis.call('HGETALL', KEYS[1]) }
