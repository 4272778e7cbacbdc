-- Offers a job to the workers of a target, and rings where that is news.
-- ARGV: run, the offer, the channel of the bell, time to live of the offers in seconds
local offers = KEYS[1]
if redis.call('HGET', offers, ARGV[1]) ~= ARGV[2] then
  redis.call('HSET', offers, ARGV[1], ARGV[2])
  redis.call('PUBLISH', ARGV[3], '')
end
redis.call('EXPIRE', offers, ARGV[4])
return 1
