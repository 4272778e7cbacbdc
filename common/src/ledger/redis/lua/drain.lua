-- Asks a worker to leave, for as long as it may take until it hears that.
-- ARGV: the worker, the reason, time to live in seconds
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
