-- Forgets a worker that ends.
-- ARGV: what it says of itself while it has no job, its name
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[2])
return 1
